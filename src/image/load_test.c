#include "image/store_testing.h"

static bool export_to(struct opened *o, const char *reference, const char *name)
{
    AUTO_FD int fd =
        open(testing_path(&o->testing, "%s", name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    return image_export(o->store, reference, fd, &o->testing.err);
}

/* Into a second, empty store. */
static bool load_from(struct opened *o, const char *name, char digest[DIGEST_TEXT])
{
    AUTO_FD int fd = open(testing_path(&o->testing, "%s", name), O_RDONLY | O_CLOEXEC);
    struct image_store *other;
    struct image image;

    if (!image_store_open(testing_path(&o->testing, "other"), &other, &o->testing.err))
        return false;
    bool ok = image_load(other, "tool:2", fd, digest, &o->testing.err);
    bool is_found = image_find(other, "tool:2", &o->arena, &image, &o->testing.err);
    struct image_verdict verdict;
    struct error ignored;
    bool is_whole = image_verify(other, false, NULL, NULL, &verdict, &ignored) &&
                    verdict.n_problems == 0 && verdict.references == (ok ? 1 : 0);
    image_store_close(other);
    return ok == is_found && is_whole && ok;
}

TEST(what_was_exported_is_loaded_under_another_name)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT], loaded[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    CHECK(export_to(&o, "tool:1", "a.tar") && load_from(&o, "a.tar", loaded));
    CHECK_STR(loaded, digest);
    /* Again: everything is there already. */
    CHECK(load_from(&o, "a.tar", loaded));
}

TEST(what_is_no_whole_archive_of_one_image_is_refused)
{
    /* What is done to the unpacked archive, and what is said. */
    static const struct {
        const char *script, *says;
    } rows[] = {
        {"rm index.json",                                  "no OCI archive"   },
        {"echo '{\"manifests\":[]}' > index.json",         "holds 0 images"   },
        {"echo '{\"manifests\":[{}]}' > index.json",       "names no image"   },
        {"for f in blobs/sha256/*; do echo x >> $f; done", "is damaged"       },
        {"rm blobs/sha256/*",                              "the archive lacks"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(opened_finish) struct opened o = {0};
        char digest[DIGEST_TEXT], script[512];

        CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
        CHECK(export_to(&o, "tool:1", "a.tar"));
        snprintf(script, sizeof script, "mkdir u; tar -C u -xf a.tar; cd u; %s; tar -cf ../b.tar *",
                 rows[i].script);
        CHECK(testing_sh(&o.testing, script));
        AUTO_FD int fd = open(testing_path(&o.testing, "b.tar"), O_RDONLY | O_CLOEXEC);
        struct image_store *other;
        struct image image;
        struct error why;

        CHECK(image_store_open(testing_path(&o.testing, "other"), &other, &o.testing.err));
        CHECK(!image_load(other, "tool:1", fd, digest, &why));
        CHECK(strstr(why.text, rows[i].says) != NULL);
        CHECK(!image_find(other, "tool:1", &o.arena, &image, &o.testing.err));
        image_store_close(other);
    }
}

TEST_MAIN()
