/* Images between two workers' stores by way of a real server. */
#include "image/reference.h"
#include "worker/image_share.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "image/store.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "worker/worker.h"

#define DEPLOYER "\"tasks:deploy\",\"runs:read\""

static const char step_key[] = "5d1c5e4b6a7f8e9d0c1b2a3948576675645342312f1e0d9c8b7a695847362514";

/* A worker as far as sharing needs one: a line, a store and a build lease. */
struct host {
    struct test_worker joined;
    struct worker worker;
    struct lease lease;
    struct arena arena;
    struct image_share share;
    char folder[64];
};

static bool host_start(struct host *host, struct service *service, const char *name)
{
    struct error err;

    *host = (struct host){.folder = "/tmp/helmr-share-XXXXXX"};
    if (!mkdtemp(host->folder) || !worker_join(&host->joined, service, name) ||
        !image_store_open(host->folder, &host->worker.images, &err))
        return false;
    link_init(&host->worker.link, service->url);
    host->worker.link.epoch = host->joined.epoch;
    link_set_bearer(&host->worker.link, str_of(host->joined.bearer), 600000);
    lease_table_init(&host->worker.leases);
    return true;
}

/* Takes the build that waits. */
static bool host_build(struct host *host)
{
    struct error err;

    if (!worker_take(&host->joined, "build") || lease_begin(&host->joined) != 200 ||
        lease_start(&host->joined) != 200)
        return false;
    host->lease = (struct lease){.worker = &host->worker, .sequence = host->joined.sequence};
    host->lease.fence_ms = INT64_MAX;
    memcpy(host->lease.id, host->joined.lease, ID_TEXT);
    return share_open(&host->lease, &host->arena, &host->share, &err);
}

static void host_stop(struct host *host)
{
    struct error err;

    share_close(&host->share);
    image_store_close(host->worker.images);
    lease_table_finish(&host->worker.leases);
    link_finish(&host->worker.link);
    arena_finish(&host->arena);
    if (!folder_remove(host->folder, &err))
        printf("# left behind: %s\n", host->folder);
}

static bool make_image(struct host *host, const char *text, char digest[DIGEST_TEXT])
{
    const char *folder = arena_printf(&host->arena, "%s/root", host->folder);
    struct error err;

    return directory_make(folder, 0755, &err) &&
           file_publish(arena_printf(&host->arena, "%s/hello", folder), str_of(text), 0644, &err) &&
           image_import_directory(host->worker.images, "test:1", folder, NULL, digest, &err);
}

static bool put_image(struct host *host, const char *digest, struct image *image,
                      struct json_list *objects)
{
    struct error err;

    if (image_find(host->worker.images, digest, &host->arena, image, &err) &&
        share_put_image(&host->share, image, objects, &err))
        return true;
    printf("# %s\n", err.text);
    return false;
}

SERVICE_TEST(an_image_of_one_worker_comes_whole_to_another)
{
    const char *key = service_make_key(service, DEPLOYER), *const * folders;
    AUTO(host_stop) struct host one, two;
    char digest[DIGEST_TEXT];
    struct image image, got;
    struct json_list objects;
    struct error err;
    AUTO_FREE char *text = NULL;

    CHECK(host_start(&one, service, "one") && host_start(&two, service, "two"));
    CHECK(*service_upload(service, key) && *service_upload(service, key));
    CHECK(host_build(&one) && host_build(&two));
    CHECK(make_image(&one, "from afar", digest));
    CHECK(!share_get_image(&two.share, digest, "helmr.local/p/i:1", &err));
    CHECK(err.code == ERR_NOT_FOUND);
    CHECK(put_image(&one, digest, &image, &objects));
    CHECK(objects.n == 3);

    const char *name = share_reference(&two.arena, STR("p"), STR("my-image"), STR("20260101.1"));
    CHECK_STR(name, "helmr.local/p/my-image:20260101.1");
    CHECK(share_get_image(&two.share, digest, name, &err));
    CHECK(image_find(two.worker.images, name, &two.arena, &got, &err));
    CHECK_STR(got.digest, image.digest);
    CHECK(image_unpack(two.worker.images, &got, &two.arena, &folders, &err));
    CHECK(file_read(arena_printf(&two.arena, "%s/hello", folders[0]), 64, &text, &err));
    CHECK_STR(text, "from afar");
}

TEST(images_of_a_deployment_have_names_of_their_own)
{
    static const char *const ids[] = {"my-image",  "My-Image", "my_image", "my.image",
                                      "-my-image", "a--b",     "a-.b",     "0"};
    AUTO(arena_finish) struct arena arena = {0};
    const char *names[COUNT_OF(ids)];
    struct reference parsed;
    struct error err;

    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        names[i] = share_reference(&arena, STR("p"), str_of(ids[i]), STR("20260101.1"));
        CHECK(reference_parse(str_of(names[i]), &parsed, &err));
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(names[i], names[k]) != 0);
    }
}

SERVICE_TEST(a_step_is_done_by_one_lease_and_found_by_the_next)
{
    const char *key = service_make_key(service, DEPLOYER);
    AUTO(host_stop) struct host one, two;
    enum share_step found;
    struct image_layer layer = {0};
    struct image image;
    struct json_list objects;
    char digest[DIGEST_TEXT];
    bool has_layer;
    struct error err;

    CHECK(host_start(&one, service, "one") && host_start(&two, service, "two"));
    CHECK(*service_upload(service, key) && *service_upload(service, key));
    CHECK(host_build(&one) && host_build(&two));
    CHECK(make_image(&one, "a step", digest) && put_image(&one, digest, &image, &objects));
    for (int i = 0; i < 2; i++) {
        CHECK(share_find_step(&one.share, step_key, &found, &layer, &has_layer, &err));
        CHECK(found == SHARE_YOURS);
        CHECK(share_find_step(&two.share, step_key, &found, &layer, &has_layer, &err));
        CHECK(found == SHARE_BUSY);
    }
    CHECK(share_record_step(&one.share, step_key, &image.layers[0], &err));
    CHECK(share_find_step(&two.share, step_key, &found, &layer, &has_layer, &err));
    CHECK(found == SHARE_HIT && has_layer && layer.size == image.layers[0].size);
    CHECK_STR(layer.digest, image.layers[0].digest);
    CHECK_STR(layer.diff_id, image.layers[0].diff_id);
    CHECK(share_fetch_blob(&two.share, layer.digest, layer.size, &err));
    CHECK(store_has_blob(two.worker.images, layer.digest));
}

SERVICE_TEST(a_blob_that_comes_damaged_is_not_kept)
{
    const char *key = service_make_key(service, DEPLOYER);
    AUTO(host_stop) struct host one, two;
    struct image image;
    struct json_list objects;
    char digest[DIGEST_TEXT];
    struct error err;

    CHECK(host_start(&one, service, "one") && host_start(&two, service, "two"));
    CHECK(*service_upload(service, key) && *service_upload(service, key));
    CHECK(host_build(&one) && host_build(&two));
    CHECK(make_image(&one, "soon damaged", digest) && put_image(&one, digest, &image, &objects));

    const char *hex = digest_hex(image.layers[0].digest);
    const char *path =
        arena_printf(&one.arena, "%s/store/blobs/%.2s/%s", service->data_dir, hex, hex);
    AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, "x", 1, 0) == 1);
    CHECK(!share_get_image(&two.share, digest, "helmr.local/p/i:1", &err));
    CHECK(err.code == ERR_DAMAGED);
    CHECK(!store_has_blob(two.worker.images, image.layers[0].digest));
    CHECK(!image_find(two.worker.images, "helmr.local/p/i:1", &two.arena, &image, &err));
    CHECK(err.code == ERR_NOT_FOUND);
}

SERVICE_TEST(a_lease_that_is_not_wanted_any_more_fetches_nothing)
{
    const char *key = service_make_key(service, DEPLOYER);
    AUTO(host_stop) struct host one;
    char digest[DIGEST_TEXT];
    struct error err;

    CHECK(host_start(&one, service, "one") && *service_upload(service, key) && host_build(&one));
    one.lease.is_unwanted = true;
    snprintf(digest, sizeof digest, "sha256:%064d", 1);
    CHECK(!share_get_image(&one.share, digest, "helmr.local/p/i:1", &err));
    CHECK(err.code == ERR_CANCELLED);
}

enum { RUNS = 6 };

/* One of several runs that need the same image at the same time. */
struct wanting {
    struct host *host;
    const char *digest;
    pthread_t thread;
    bool has_it;
};

static void *get_image(void *arg)
{
    struct wanting *wanting = arg;
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(share_close) struct image_share share = {0};
    struct error err;

    wanting->has_it = share_open(&wanting->host->lease, &arena, &share, &err) &&
                      share_get_image(&share, wanting->digest, "helmr.local/p/i:1", &err);
    if (!wanting->has_it)
        printf("# %s\n", err.text);
    return NULL;
}

SERVICE_TEST(runs_that_want_the_same_image_at_once_all_get_it)
{
    const char *key = service_make_key(service, DEPLOYER), *const * folders;
    AUTO(host_stop) struct host one, two;
    struct wanting wanting[RUNS];
    char digest[DIGEST_TEXT];
    struct image image;
    struct json_list objects;
    struct error err;

    CHECK(host_start(&one, service, "one") && host_start(&two, service, "two"));
    CHECK(*service_upload(service, key) && *service_upload(service, key));
    CHECK(host_build(&one) && host_build(&two));
    CHECK(make_image(&one, "for all", digest) && put_image(&one, digest, &image, &objects));
    for (size_t i = 0; i < RUNS; i++) {
        wanting[i] = (struct wanting){.host = &two, .digest = digest};
        CHECK(pthread_create(&wanting[i].thread, NULL, get_image, &wanting[i]) == 0);
    }
    for (size_t i = 0; i < RUNS; i++)
        pthread_join(wanting[i].thread, NULL);
    for (size_t i = 0; i < RUNS; i++)
        CHECK(wanting[i].has_it);
    CHECK(image_find(two.worker.images, "helmr.local/p/i:1", &two.arena, &image, &err));
    CHECK(image_unpack(two.worker.images, &image, &two.arena, &folders, &err));
}

TEST_MAIN()
