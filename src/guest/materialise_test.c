/* What was captured and put into another sandbox is captured there byte for byte: whatever was done
 * to the files and to those of the image, deletions and moved directories too. */
#include "base/test.h"
#include "guest/overlays.h"
#include "guest/place_tree.h"
#include "guest/walk.h"

enum { ROUNDS = 200 };

static bool capture(const struct overlays *overlays, size_t at, struct buf *out, struct error *err)
{
    AUTO(walk_finish) struct walk walk;

    *out = (struct buf){.max = MIB(16)};
    walk_init(&walk, overlays->upper[at], NULL, NULL);
    walk.lower_fd = overlays->lower;
    while (!walk.is_done)
        if (!walk_step(&walk, out, err))
            return false;
    return true;
}

static bool place(const struct overlays *overlays, size_t at, struct str bytes, struct error *err)
{
    AUTO(place_tree_finish) struct place_tree tree;
    AUTO(tree_decoder_finish) struct tree_decoder decoder;

    place_tree_init(&tree, openat(overlays->merged[at], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    tree_decoder_init(&decoder, place_tree_entry, place_tree_bytes, &tree);
    return tree_decode(&decoder, bytes, err) && tree_decode_end(&decoder, err) &&
           place_tree_end(&tree, err);
}

TEST(capture_then_materialise_is_byte_equal)
{
    AUTO(overlays_finish) struct overlays overlays = {0};
    struct error err = {0};

    if (!overlays_make(&overlays, 2))
        SKIP("no overlay can be mounted here");
    for (int round = 0; round < ROUNDS; round++) {
        AUTO(buf_finish) struct buf first = {0}, second = {0};

        for (uint32_t i = 1 + any(20); i > 0; i--)
            do_something(overlays.merged[0]);
        CHECK(overlays_renew(&overlays));
        CHECK(capture(&overlays, 0, &first, &err));
        bool is_placed = place(&overlays, 1, buf_str(&first), &err);
        if (!is_placed)
            printf("# round %d: %s\n", round, err.text);
        CHECK(is_placed && capture(&overlays, 1, &second, &err));
        CHECK(str_equal(buf_str(&first), buf_str(&second)));
    }
}

static bool is_there(int at, const char *path)
{
    struct stat info;

    return fstatat(at, path, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Makes something, captures it and puts it into the other one. */
static bool carry_over(struct overlays *overlays)
{
    AUTO(buf_finish) struct buf bytes = {0};
    struct error err;

    return capture(overlays, 0, &bytes, &err) && place(overlays, 1, buf_str(&bytes), &err);
}

TEST(a_deleted_image_file_stays_deleted_in_the_next_version)
{
    AUTO(overlays_finish) struct overlays overlays = {0};

    if (!overlays_make(&overlays, 2))
        SKIP("no overlay can be mounted here");
    write_some(overlays.lower, "of-the-image", 0, "old");
    CHECK(overlays_renew(&overlays) && is_there(overlays.merged[1], "of-the-image"));
    CHECK(unlinkat(overlays.merged[0], "of-the-image", 0) == 0);
    CHECK(carry_over(&overlays) && !is_there(overlays.merged[1], "of-the-image"));
}

TEST(renaming_an_image_directory_survives_a_version)
{
    AUTO(overlays_finish) struct overlays overlays = {0};

    if (!overlays_make(&overlays, 2))
        SKIP("no overlay can be mounted here");
    CHECK(mkdirat(overlays.lower, "before", 0755) == 0);
    write_some(overlays.lower, "before/file", 0, "old");
    overlays.n = 0;
    CHECK(overlays_add(&overlays) && overlays_add(&overlays));
    /* As mv does when the kernel cannot. */
    CHECK(mkdirat(overlays.merged[0], "after", 0755) == 0);
    write_some(overlays.merged[0], "after/file", 0, "old");
    CHECK(unlinkat(overlays.merged[0], "before/file", 0) == 0);
    CHECK(unlinkat(overlays.merged[0], "before", AT_REMOVEDIR) == 0);
    CHECK(carry_over(&overlays) && is_there(overlays.merged[1], "after/file"));
    CHECK(!is_there(overlays.merged[1], "before"));
}

TEST_MAIN()
