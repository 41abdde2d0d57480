#include "image/store_testing.h"

static bool export_to(struct opened *o, const char *reference, const char *name)
{
    AUTO_FD int fd =
        open(testing_path(&o->testing, "%s", name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = image_export(o->store, reference, fd, &o->testing.err);

    if (!ok)
        printf("# %s\n", o->testing.err.text);
    return ok;
}

TEST(an_export_is_a_layout_with_one_name_and_the_same_bytes_every_time)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT], other[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    CHECK(export_to(&o, "tool:1", "a.tar"));
    CHECK(opened_import(&o, "other:1", "more", other));
    CHECK(export_to(&o, "docker.io/library/tool:1", "b.tar"));
    CHECK(testing_sh(&o.testing,
                     "cmp a.tar b.tar; mkdir a; tar -C a -xf a.tar; "
                     "test \"$(cat a/oci-layout)\" = '{\"imageLayoutVersion\":\"1.0.0\"}'; "
                     "test $(ls a/blobs/sha256 | wc -l) = 3; cd a/blobs/sha256; "
                     "for f in *; do echo \"$f  $f\"; done | sha256sum -c --quiet; "
                     "grep -q '\"docker.io/library/tool:1\"' ../../index.json"));
    /* By digest it has no name. */
    CHECK(export_to(&o, digest, "c.tar"));
    CHECK(testing_sh(&o.testing, "tar -xOf c.tar index.json | grep -qv ref.name"));
}

TEST(another_tool_reads_what_was_exported)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT], script[512];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    if (!testing_sh(&o.testing, "command -v skopeo >/dev/null"))
        SKIP("skopeo is not installed");
    CHECK(export_to(&o, "tool:1", "a.tar"));
    (void)snprintf(script, sizeof script,
                   "export TMPDIR=$PWD; skopeo copy -q oci-archive:a.tar:docker.io/library/tool:1 "
                   "dir:out; test \"$(sha256sum < out/manifest.json)\" = '%s  -'",
                   digest + 7);
    CHECK(testing_sh(&o.testing, script));
}

TEST(a_damaged_or_missing_part_ends_an_export)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];
    struct image image;

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    CHECK(image_find(o.store, "tool:1", &o.arena, &image, &o.testing.err));
    const char *blob =
        testing_path(&o.testing, "work/oci/blobs/sha256/%s", image.layers[0].digest + 7);
    AUTO_FD int fd = open(blob, O_RDWR | O_CLOEXEC);
    CHECK(testing_damage(fd, image.layers[0].size / 2));
    CHECK(!export_to(&o, "tool:1", "a.tar") && o.testing.err.code == ERR_CONTENT_HASH);
    CHECK(ftruncate(fd, 3) == 0 && !export_to(&o, "tool:1", "a.tar"));
    CHECK(o.testing.err.code == ERR_CONTENT_HASH && unlink(blob) == 0);
    CHECK(!export_to(&o, "tool:1", "a.tar") && o.testing.err.code == ERR_NOT_FOUND);
    CHECK(!export_to(&o, "tool:9", "a.tar") && o.testing.err.code == ERR_NOT_FOUND);
}

TEST(a_full_disk_is_an_error_of_the_export)
{
    AUTO(opened_finish) struct opened o = {0};
    AUTO_FD int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    char digest[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    CHECK(!image_export(o.store, "tool:1", full, &o.testing.err) && o.testing.err.sys == ENOSPC);
}

TEST_MAIN()
