/* What a registry does on bad days: a transparent retry or a clear error, and a sound store. */
#include "image/bad_day.h"
#include "image/config.h"

static bool pull(struct bad_day *day)
{
    return image_pull(day->test.there, &day->test.transfer, day->name, day->digest, &day->test.err);
}

static bool is_sound(struct bad_day *day, size_t references)
{
    size_t found = 0;

    return registry_test_store_is_sound(day->test.there, &found) && found == references;
}

/* That it failed as it should, and left nothing that is not true. */
static bool fails(struct bad_day *day, enum error_code code, const char *text)
{
    if (pull(day)) {
        printf("# no error\n");
        return false;
    }
    if (day->test.err.code == code && strstr(day->test.err.text, text) && is_sound(day, 0))
        return true;
    printf("# %s: %s\n", error_wire_name(day->test.err.code), day->test.err.text);
    return false;
}

static bool succeeds(struct bad_day *day)
{
    if (pull(day) && strcmp(day->digest, day->test.digest) == 0 && is_sound(day, 1))
        return true;
    printf("# %s\n", day->test.err.text);
    return false;
}

TEST(every_fault_ends_in_a_clear_error)
{
    static const struct {
        enum fault fault;
        enum error_code code;
        const char *text;
    } rows[] = {
        {FAULT_CORRUPT,   ERR_CONTENT_HASH, "gave other bytes for sha256:"          },
        {FAULT_STALL,     ERR_UNAVAILABLE,  "did not answer in time"                },
        {FAULT_MUTE,      ERR_UNAVAILABLE,  "did not answer in time"                },
        {FAULT_DROP_EVER, ERR_UNAVAILABLE,  "127.0.0.1:"                            },
        {FAULT_DOWN,      ERR_INTERNAL,     "status 503"                            },
        {FAULT_GONE,      ERR_NOT_FOUND,    "is not there (status 404)"             },
        {FAULT_LOOP,      ERR_INTERNAL,     "redirects more than 5 times"           },
        {FAULT_ELSEWHERE, ERR_INTERNAL,     "neither https nor http to this machine"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        BAD_DAY(day, rows[i].fault);
        CHECK(fails(&day, rows[i].code, rows[i].text));
    }
}

TEST(a_connection_that_drops_half_way_is_resumed)
{
    BAD_DAY(day, FAULT_DROP);
    char range[64];

    CHECK(succeeds(&day));
    (void)snprintf(range, sizeof range, "bytes=%lld-", (long long)day.image.layers[0].size / 2);
    CHECK(day.server.ranges == 1);
    CHECK_STR(day.server.last_range, range);
    CHECK(day.server.layers == 2);
}

TEST(a_registry_without_ranges_is_asked_for_all_again)
{
    BAD_DAY(day, FAULT_DROP_PLAIN);

    CHECK(succeeds(&day));
    CHECK(day.server.ranges == 1);
    CHECK(day.server.layers == 2);
}

TEST(a_later_pull_resumes_what_an_earlier_one_left)
{
    BAD_DAY(day, FAULT_STALL);

    CHECK(fails(&day, ERR_UNAVAILABLE, ""));
    int before = day.server.layers;
    set_fault(&day, FAULT_NONE);
    day.server.ranges = 0;
    CHECK(succeeds(&day));
    CHECK(day.server.layers == before + 1);
    CHECK(day.server.ranges == 1);
}

TEST(a_damaged_beginning_is_found_out)
{
    BAD_DAY(day, FAULT_NONE);

    CHECK(testing_file(testing_path(&day.test.testing, "there/oci/tmp/.part-%s",
                                    digest_hex(day.server.layer)),
                       "not how a layer begins"));
    CHECK(fails(&day, ERR_CONTENT_HASH, "gave other bytes"));
    CHECK_STR(day.server.last_range, "bytes=22-");
    CHECK(succeeds(&day));
}

struct puller {
    struct bad_day *day;
    char digest[DIGEST_TEXT];
    struct error err;
    bool ok;
};

static void *pull_beside(void *arg)
{
    struct puller *puller = arg;
    struct registry_test *test = &puller->day->test;
    struct image_transfer silent = {.registries = test->registries};

    puller->ok = image_pull(test->there, &silent, puller->day->name, puller->digest, &puller->err);
    return NULL;
}

TEST(several_pulls_of_one_image_fetch_it_once)
{
    BAD_DAY(day, FAULT_NONE);
    struct puller pullers[4];
    pthread_t threads[COUNT_OF(pullers)];

    for (size_t i = 0; i < COUNT_OF(pullers); i++) {
        pullers[i] = (struct puller){.day = &day};
        CHECK(pthread_create(&threads[i], NULL, pull_beside, &pullers[i]) == 0);
    }
    for (size_t i = 0; i < COUNT_OF(pullers); i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < COUNT_OF(pullers); i++) {
        CHECK_STR(pullers[i].err.text, "");
        CHECK(pullers[i].ok);
        CHECK_STR(pullers[i].digest, day.test.digest);
    }
    CHECK(is_sound(&day, 1));
    CHECK(day.server.layers == 1);
}

TEST(a_busy_registry_is_asked_again)
{
    BAD_DAY(day, FAULT_BUSY);

    CHECK(succeeds(&day));
    CHECK(day.server.layers == 2);
}

static struct str manifest_with(struct bad_day *day, const char *config_type,
                                const char *layer_type, int64_t layer_size)
{
    const struct image *image = &day->image;

    return str_of(arena_printf(
        &day->arena,
        "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%lld},"
        "\"layers\":[{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%lld}]}",
        config_type, image->config_digest, (long long)image->config_size, layer_type,
        image->layers[0].digest, (long long)layer_size));
}

#define OCI_LAYER  "application/vnd.oci.image.layer.v1.tar+zstd"
#define OCI_CONFIG "application/vnd.oci.image.config.v1+json"

TEST(a_size_other_than_the_manifests_is_refused)
{
    BAD_DAY(day, FAULT_NONE);
    int64_t size = day.image.layers[0].size;

    day.server.manifest = manifest_with(&day, OCI_CONFIG, OCI_LAYER, size - 1);
    CHECK(fails(&day, ERR_CONTENT_HASH, "more bytes than its manifest says"));
    day.server.manifest = manifest_with(&day, OCI_CONFIG, OCI_LAYER, size + 1);
    CHECK(fails(&day, ERR_CONTENT_HASH, "its manifest says"));
    day.server.manifest = manifest_with(&day, OCI_CONFIG, OCI_LAYER, ((int64_t)8 << 30) + 1);
    CHECK(!pull(&day));
    CHECK(is_sound(&day, 0));
}

TEST(foreign_layers_and_old_manifests_are_refused)
{
    static const char foreign[] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    BAD_DAY(day, FAULT_NONE);

    day.server.manifest = manifest_with(&day, OCI_CONFIG, foreign, day.image.layers[0].size);
    CHECK(fails(&day, ERR_UNSUPPORTED, "foreign layer"));
    day.server.manifest =
        STR("{\"schemaVersion\":1,\"name\":\"thing\",\"tag\":\"1\",\"fsLayers\":[],"
            "\"history\":[],\"signatures\":[]}");
    CHECK(fails(&day, ERR_UNSUPPORTED, "schema 1"));
    day.server.manifest = STR("<html>hello</html>");
    CHECK(fails(&day, ERR_UNSUPPORTED, "no manifest"));
    day.server.manifest = STR("{\"schemaVersion\":2,\"config\":{},\"layers\":[],\"manifests\":[]}");
    CHECK(fails(&day, ERR_UNSUPPORTED, "neither an image nor a list"));
}

TEST(a_huge_manifest_is_not_read)
{
    BAD_DAY(day, FAULT_NONE);
    size_t size = MIB(4) + 1;
    char *bytes = arena_alloc(&day.arena, size);

    memset(bytes, ' ', size);
    day.server.manifest = (struct str){bytes, size};
    CHECK(fails(&day, ERR_TOO_LARGE, "is over 4 MiB"));
}

static struct str list_with(struct bad_day *day, const char *architecture, const char *digest)
{
    return str_of(arena_printf(
        &day->arena,
        "{\"schemaVersion\":2,\"mediaType\":"
        "\"application/vnd.docker.distribution.manifest.list.v2+json\",\"manifests\":["
        "{\"mediaType\":\"" MANIFEST_TYPE "\",\"digest\":\"sha256:%064d\",\"size\":7,"
        "\"platform\":{\"os\":\"windows\",\"architecture\":\"%s\"}},"
        "{\"mediaType\":\"" MANIFEST_TYPE "\",\"digest\":\"%s\",\"size\":%zu,"
        "\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\",\"variant\":\"v8\"}}]}",
        0, architecture, digest, day->server.manifest.len, architecture));
}

TEST(a_list_of_images_gives_the_one_of_this_platform)
{
    BAD_DAY(day, FAULT_NONE);

    day.server.second = day.server.manifest;
    day.server.manifest = list_with(&day, IMAGE_ARCHITECTURE, day.test.digest);
    CHECK(succeeds(&day));
    CHECK(image_resolve(day.test.there, &day.test.transfer, day.name, day.digest, &day.test.err));
    CHECK_STR(day.digest, day.test.digest);
}

TEST(each_manifest_of_a_list_must_hash_to_its_digest)
{
    BAD_DAY(day, FAULT_NONE);
    struct str list = list_with(&day, IMAGE_ARCHITECTURE, day.test.digest);
    char digest[DIGEST_TEXT];

    day.server.manifest = list;
    CHECK(fails(&day, ERR_CONTENT_HASH, "gave another manifest"));
    digest_of(list, digest);
    (void)snprintf(day.name, sizeof day.name, "%s/thing@%s", day.server.address, digest);
    CHECK(fails(&day, ERR_CONTENT_HASH, "gave another manifest"));
}

TEST(an_image_for_another_machine_is_refused_before_its_layers)
{
    BAD_DAY(day, FAULT_NONE);
    struct str config = str_of(arena_printf(
        &day.arena,
        "{\"architecture\":\"riscv64\",\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"%s\"]}}",
        day.image.layers[0].diff_id));

    CHECK(store_put_blob(day.test.here, config, day.image.config_digest, &day.test.err));
    day.image.config_size = (int64_t)config.len;
    day.server.manifest = manifest_with(&day, OCI_CONFIG, OCI_LAYER, day.image.layers[0].size);
    CHECK(fails(&day, ERR_UNSUPPORTED, "the image is for linux/riscv64"));
    CHECK(day.server.layers == 0);
}

TEST(a_list_without_this_platform_is_refused)
{
    BAD_DAY(day, FAULT_NONE);

    day.server.second = day.server.manifest;
    day.server.manifest = list_with(&day, "riscv64", day.test.digest);
    CHECK(fails(&day, ERR_UNSUPPORTED, "not for linux/" IMAGE_ARCHITECTURE));
}

TEST(an_image_by_digest_must_hash_to_it)
{
    BAD_DAY(day, FAULT_NONE);
    struct str good = day.server.manifest;

    (void)snprintf(day.name, sizeof day.name, "%s/thing@%s", day.server.address, day.test.digest);
    day.server.manifest = manifest_with(&day, OCI_CONFIG, OCI_LAYER, day.image.layers[0].size);
    CHECK(fails(&day, ERR_CONTENT_HASH, "gave another manifest"));
    day.server.manifest = good;
    CHECK(succeeds(&day));
}

TEST(docker_media_types_are_taken_and_kept)
{
    BAD_DAY(day, FAULT_NONE);
    struct str manifest = manifest_with(&day, "application/vnd.docker.container.image.v1+json",
                                        OCI_LAYER, day.image.layers[0].size);
    char digest[DIGEST_TEXT];

    day.server.manifest = str_of(
        arena_printf(&day.arena,
                     "{\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",%s",
                     manifest.ptr + 1));
    digest_of(day.server.manifest, digest);
    CHECK(pull(&day));
    CHECK_STR(day.digest, digest);
    CHECK(is_sound(&day, 1));
}

TEST(an_abort_ends_a_pull)
{
    BAD_DAY(day, FAULT_STALL);
    volatile bool abort_now = true;

    day.test.transfer.abort = &abort_now;
    CHECK(fails(&day, ERR_CANCELLED, ""));
}

TEST(a_mirror_is_asked_first_and_then_the_registry)
{
    BAD_DAY(mirror, FAULT_NONE);
    BAD_DAY(day, FAULT_NONE);
    char text[128];

    (void)snprintf(text, sizeof text, "%s=http://%s/proxy/", day.server.address,
                   mirror.server.address);
    CHECK(registry_test_settings(&day.test, &(struct registry_settings){.mirrors = text}));
    day.server.fault = FAULT_DOWN;
    mirror.server.manifest = day.server.manifest;
    mirror.server.store = day.test.here;
    memcpy(mirror.server.layer, day.server.layer, DIGEST_TEXT);
    CHECK(succeeds(&day));
    CHECK(day.server.requests == 0);
    CHECK(mirror.server.layers == 1);

    mirror.server.fault = FAULT_CORRUPT;
    day.server.fault = FAULT_NONE;
    CHECK(testing_sh(&day.test.testing, "rm -rf there/oci/blobs/sha256/*"));
    CHECK(succeeds(&day));
    CHECK(day.server.layers == 1);
}

TEST(a_mirror_that_lies_is_no_unavailable_registry)
{
    BAD_DAY(mirror, FAULT_NONE);
    BAD_DAY(day, FAULT_MUTE);
    char text[128];

    (void)snprintf(text, sizeof text, "%s=http://%s", day.server.address, mirror.server.address);
    CHECK(registry_test_settings(&day.test, &(struct registry_settings){.mirrors = text}));
    set_fault(&day, FAULT_MUTE);
    (void)map_put(&day.test.registries->clear, str_of(mirror.server.address), &day);
    mirror.server.manifest = STR("nonsense");
    CHECK(fails(&day, ERR_UNSUPPORTED, "; then "));
}

TEST_MAIN()
