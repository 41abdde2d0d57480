#include "image/config.h"
#include "image/store_testing.h"

static bool verify(struct opened *o, bool is_repair, struct image_verdict *verdict)
{
    bool ok = image_verify(o->store, is_repair, NULL, NULL, verdict, &o->testing.err);

    if (!ok)
        printf("# %s\n", o->testing.err.text);
    return ok;
}

static const char *blob_path(struct opened *o, const char *digest)
{
    return testing_path(&o->testing, "work/oci/blobs/sha256/%s", digest + 7);
}

static bool flip(struct opened *o, const char *digest, off_t at)
{
    AUTO_FD int fd = open(blob_path(o, digest), O_RDWR | O_CLOEXEC);
    char byte;

    if (fd < 0 || pread(fd, &byte, 1, at) != 1)
        return false;
    byte = (char)(byte ^ 1);
    return pwrite(fd, &byte, 1, at) == 1;
}

static bool begin(struct opened *o, const char *reference, struct image *image)
{
    char digest[DIGEST_TEXT];

    return opened_init(o) && opened_import(o, reference, "content", digest) &&
           image_find(o->store, reference, &o->arena, image, &o->testing.err);
}

TEST(a_sound_store_is_read_to_the_last_byte_without_complaint)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_verdict verdict;
    struct image image;

    CHECK(begin(&o, "tool:1", &image) && opened_verifies(&o, &verdict));
    CHECK(verdict.references == 1 && verdict.blobs == 3 && verdict.leftovers == 0);
    CHECK(verdict.bytes == image.size + image.config_size + image.layers[0].size);
}

TEST(one_flipped_bit_anywhere_is_found)
{
    const int64_t places[] = {0, 1, 2};

    for (size_t i = 0; i < COUNT_OF(places); i++) {
        AUTO(opened_finish) struct opened o = {0};
        struct image_verdict verdict;
        struct image image;
        CHECK(begin(&o, "tool:1", &image));
        const char *const digests[] = {image.digest, image.config_digest, image.layers[0].digest};
        const int64_t sizes[] = {image.size, image.config_size, image.layers[0].size};
        CHECK(flip(&o, digests[i], sizes[i] / 2));
        CHECK(verify(&o, false, &verdict) && verdict.n_problems > 0);
        bool is_named = false;
        for (size_t j = 0; j < verdict.n_problems; j++)
            is_named = is_named || strcmp(verdict.problems[j].what, digests[i]) == 0;
        CHECK(is_named && verdict.problems[0].cure[0]);
    }
}

TEST(a_truncated_and_a_missing_layer_are_told_apart)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_verdict verdict;
    struct image image;

    CHECK(begin(&o, "tool:1", &image));
    CHECK(truncate(blob_path(&o, image.layers[0].digest), image.layers[0].size - 5) == 0);
    CHECK(verify(&o, false, &verdict) && verdict.n_problems == 2);
    CHECK(strstr(verdict.problems[0].text, "bytes where docker.io/library/tool:1 promises"));
    CHECK(unlink(blob_path(&o, image.layers[0].digest)) == 0);
    CHECK(verify(&o, false, &verdict) && verdict.n_problems == 1);
    CHECK(strstr(verdict.problems[0].text, "is missing"));
    CHECK(strstr(verdict.problems[0].cure, "helmr image pull docker.io/library/tool:1"));
}

TEST(a_layer_that_only_the_server_has_is_no_damage)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_verdict verdict;
    struct image image;

    CHECK(begin(&o, "helmr.local/p/i:1", &image));
    CHECK(unlink(blob_path(&o, image.layers[0].digest)) == 0);
    CHECK(verify(&o, false, &verdict) && verdict.n_problems == 0 && verdict.absent == 1);
}

TEST(a_layer_whose_content_is_not_what_the_configuration_says_is_found)
{
    AUTO(opened_finish) struct opened o = {0};
    AUTO(arena_finish) struct arena arena = {0};
    struct image_document document;
    struct image_verdict verdict;
    struct image image;

    CHECK(begin(&o, "tool:1", &image));
    CHECK(document_load(o.store, image.digest, &arena, &document, &o.testing.err));
    struct image_layer wrong = document.image.layers[0];
    memset(wrong.diff_id + 7, '0', 64);
    document.image.n_layers = 0;
    document_add(&document, &wrong, "a lie", &arena);
    CHECK(document_publish(o.store, &document, "docker.io/library/tool:1", &o.testing.err));
    CHECK(verify(&o, false, &verdict) && verdict.n_problems == 1);
    CHECK_STR(verdict.problems[0].what, wrong.digest);
    CHECK(strstr(verdict.problems[0].text, "where its image says"));
}

TEST(a_list_of_references_that_cannot_be_read_is_a_problem_not_a_crash)
{
    static const char *const texts[] = {"", "{", "[]", "{\"schemaVersion\":2,\"manifests\":{}}",
                                        "{\"schemaVersion\":1}"};

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        AUTO(opened_finish) struct opened o = {0};
        struct image_verdict verdict;
        struct image_collected went;
        struct image image;
        CHECK(begin(&o, "tool:1", &image));
        CHECK(testing_file(testing_path(&o.testing, "work/oci/index.json"), texts[i]));
        CHECK(verify(&o, true, &verdict) && verdict.n_problems == 1);
        CHECK_STR(verdict.problems[0].what, "index.json");
        /* Who cannot read what is needed removes nothing. */
        CHECK(!image_collect(o.store, &(struct image_collection){.steps = true}, &went,
                             &o.testing.err));
        CHECK(verdict.blobs == 3 &&
              testing_reads(testing_path(&o.testing, "work/oci/index.json"), texts[i]));
    }
}

TEST(repair_takes_damage_out_with_the_names_that_led_to_it)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];
    struct image_verdict verdict;
    struct image image, other;

    CHECK(begin(&o, "tool:1", &image) && opened_import(&o, "tool:2", "sound", digest));
    CHECK(flip(&o, image.layers[0].digest, 9));
    CHECK(verify(&o, true, &verdict) && verdict.n_problems == 1 && verdict.removed == 1);
    CHECK(verify(&o, false, &verdict) && verdict.n_problems == 0 && verdict.references == 1);
    CHECK(!image_find(o.store, "tool:1", &o.arena, &other, &o.testing.err));
    CHECK(image_find(o.store, "tool:2", &o.arena, &other, &o.testing.err));
    /* The same content is taken in again. */
    CHECK(opened_import(&o, "tool:1", "content", digest) && opened_verifies(&o, &verdict));
}

TEST(what_is_of_no_use_is_counted_and_is_no_damage)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_verdict verdict;
    struct image image;

    CHECK(begin(&o, "tool:1", &image));
    CHECK(testing_sh(&o.testing,
                     "cd work; mkdir -p oci/steps/p layers/aa oci/tmp/.new-x; "
                     "echo '{\"format\":1,\"has_layer\":true,\"digest\":\"sha256:'"
                     "$(printf %064d 0)'\"}' > oci/steps/p/a.json; echo {} > oci/steps/p/b.json"));
    CHECK(verify(&o, false, &verdict) && verdict.n_problems == 0);
    CHECK(verdict.steps == 2 && verdict.stale_steps == 1);
    CHECK(verdict.layers == 1 && verdict.stray_layers == 1 && verdict.leftovers == 1);
}

TEST_MAIN()
