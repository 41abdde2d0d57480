#include "protocol/tree.h"

#include "base/own.h"
#include "base/test.h"

/* What came out, as lines of text. */
struct seen {
    struct buf text;
    size_t n_ends;
};

static bool see_entry(void *arg, const struct tree_entry *entry, struct error *err)
{
    struct seen *seen = arg;
    char line[512];

    snprintf(line, sizeof line, "%d %.*s %o %u:%u %lld %llu>%.*s group %llu%s%s%s\n",
             (int)entry->kind, (int)entry->path.len, entry->path.ptr, entry->mode, entry->uid,
             entry->gid, (long long)entry->mtime_ns, (unsigned long long)entry->size,
             (int)entry->target.len, entry->target.ptr, (unsigned long long)entry->link_group,
             entry->is_linked ? " linked" : "", entry->is_opaque ? " opaque" : "",
             entry->is_same ? " same" : "");
    return buf_append(&seen->text, str_of(line), err);
}

static bool see_bytes(void *arg, struct str bytes, bool is_last, struct error *err)
{
    struct seen *seen = arg;

    seen->n_ends += is_last;
    return bytes.len == 0 || buf_append(&seen->text, bytes, err);
}

static void seen_finish(struct seen *seen)
{
    buf_finish(&seen->text);
}

static bool decode(struct str bytes, size_t step, struct seen *seen, struct error *err)
{
    AUTO(tree_decoder_finish) struct tree_decoder decoder;

    *seen = (struct seen){.text = {.max = MIB(1)}};
    tree_decoder_init(&decoder, see_entry, see_bytes, seen);
    for (size_t at = 0; at < bytes.len; at += step) {
        size_t len = bytes.len - at < step ? bytes.len - at : step;
        if (!tree_decode(&decoder, (struct str){bytes.ptr + at, len}, err))
            return false;
    }
    return tree_decode_end(&decoder, err);
}

#define ENTRY(kind_, path_, ...) \
    ((struct tree_entry){.kind = kind_, .path = STR(path_), __VA_ARGS__})

static const struct tree_entry sample[] = {
    {.kind = TREE_DIRECTORY, .path = STR("a"), .mode = 0755, .is_opaque = true},
    {.kind = TREE_FILE,
     .path = STR("a/one"),
     .mode = 04644,
     .uid = 1000,
     .gid = 1001,
     .mtime_ns = -5,
     .size = 3,
     .link_group = 1},
    {.kind = TREE_FILE, .path = STR("a/two"), .mode = 04644, .link_group = 1, .is_linked = true},
    {.kind = TREE_FILE, .path = STR("a.txt"), .mode = 0600},
    {.kind = TREE_SYMLINK, .path = STR("b"), .mode = 0777, .target = STR("../a")},
    {.kind = TREE_FIFO, .path = STR("c"), .mode = 0600},
    {.kind = TREE_WHITEOUT, .path = STR("d")},
};

static bool encode_sample(struct buf *out, struct error *err)
{
    if (!tree_encode_start(out, err))
        return false;
    for (size_t i = 0; i < COUNT_OF(sample); i++) {
        if (!tree_encode_entry(out, &sample[i], err) ||
            (sample[i].size && !buf_append(out, STR("one"), err)))
            return false;
    }
    return tree_encode_finish(out, err);
}

TEST(a_tree_comes_out_as_it_went_in_however_it_is_cut)
{
    AUTO(buf_finish) struct buf out = {.max = MIB(1)};
    struct error err = {0};

    CHECK(encode_sample(&out, &err));
    for (size_t step = 1; step <= out.len; step = step * 2 + 1) {
        AUTO(seen_finish) struct seen seen;
        CHECK(decode(buf_str(&out), step, &seen, &err));
        CHECK(seen.n_ends == 2);
        CHECK(str_equal(buf_str(&seen.text), STR("2 a 755 0:0 0 0> group 0 opaque\n"
                                                 "1 a/one 4644 1000:1001 -5 3> group 1\none"
                                                 "1 a/two 4644 0:0 0 0> group 1 linked\n"
                                                 "1 a.txt 600 0:0 0 0> group 0\n"
                                                 "3 b 777 0:0 0 0>../a group 0\n"
                                                 "4 c 600 0:0 0 0> group 0\n"
                                                 "5 d 0 0:0 0 0> group 0\n")));
    }
}

TEST(a_tree_that_is_cut_short_goes_on_or_has_no_such_kind_is_refused)
{
    AUTO(buf_finish) struct buf out = {.max = MIB(1)};
    struct error err = {0};

    CHECK(encode_sample(&out, &err));
    for (size_t len = 0; len < out.len; len++) {
        AUTO(seen_finish) struct seen seen;
        CHECK(!decode((struct str){out.bytes, len}, out.len, &seen, &err));
    }
    for (int kind = 0; kind < 256; kind++) {
        char was = out.bytes[TREE_MAGIC_LEN];
        AUTO(seen_finish) struct seen other;
        out.bytes[TREE_MAGIC_LEN] = (char)kind;
        CHECK((kind == TREE_DIRECTORY) == decode(buf_str(&out), out.len, &other, &err));
        out.bytes[TREE_MAGIC_LEN] = was;
    }
    CHECK(buf_append(&out, STR("x"), &err));
    AUTO(seen_finish) struct seen seen;
    CHECK(!decode(buf_str(&out), 7, &seen, &err));
}

TEST(an_entry_that_no_tree_holds_is_not_written)
{
    const struct tree_entry bad[] = {
        ENTRY(TREE_FILE, ""),
        ENTRY(TREE_FILE, "/a"),
        ENTRY(TREE_FILE, "a/"),
        ENTRY(TREE_FILE, "a//b"),
        ENTRY(TREE_FILE, "."),
        ENTRY(TREE_FILE, "a/../b"),
        ENTRY(TREE_FILE, ".."),
        ENTRY(TREE_FILE, "a\0b"),
        ENTRY(TREE_FILE, "a", .mode = 0100644),
        ENTRY(TREE_FILE, "a", .target = STR("b")),
        ENTRY(TREE_FILE, "a", .is_opaque = true),
        ENTRY(TREE_FILE, "a", .is_linked = true),
        ENTRY(TREE_FILE, "a", .is_linked = true, .link_group = 1, .size = 1),
        ENTRY(TREE_DIRECTORY, "a", .size = 1),
        ENTRY(TREE_SYMLINK, "a"),
        ENTRY(TREE_SYMLINK, "a", .target = STR("b\0c")),
        ENTRY(TREE_WHITEOUT, "a", .mode = 1),
        ENTRY(TREE_FILE, "a", .xattrs = STR("\5\0\0\0\0\0user.")),
        ENTRY(TREE_FILE, "a", .xattrs = STR("\6\0\0\0\0\0user.a\6\0\0\0\0\0user.a")),
        ENTRY(TREE_FILE, "a", .xattrs = STR("\6\0\1\0\0\0user.a")),
        ENTRY(TREE_FILE, "a", .xattrs = STR("\11\0\0\0\0\0trusted.a")),
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(buf_finish) struct buf out = {.max = MIB(1)};
        struct error err = {0};
        CHECK(!tree_encode_entry(&out, &bad[i], &err) && out.len == 0);
        if (out.len)
            printf("# row %zu\n", i);
    }
}

/* A guest that lies about order, parents and links. */
static bool accepts(const struct tree_entry *entries, size_t n)
{
    AUTO(buf_finish) struct buf out = {.max = MIB(1)};
    AUTO(seen_finish) struct seen seen = {0};
    struct error err;
    bool is_written = tree_encode_start(&out, &err);

    for (size_t i = 0; i < n; i++)
        is_written = is_written && tree_encode_entry(&out, &entries[i], &err);
    return is_written && tree_encode_finish(&out, &err) && decode(buf_str(&out), 11, &seen, &err);
}

#define ACCEPTS(...)                                  \
    accepts((const struct tree_entry[]){__VA_ARGS__}, \
            COUNT_OF(((const struct tree_entry[]){__VA_ARGS__})))

TEST(order_parents_and_links_are_checked)
{
    CHECK(ACCEPTS(ENTRY(TREE_DIRECTORY, "a"), ENTRY(TREE_DIRECTORY, "a/b"), ENTRY(TREE_FILE, "a/c"),
                  ENTRY(TREE_FILE, "a.c")));
    CHECK(!ACCEPTS(ENTRY(TREE_FILE, "b"), ENTRY(TREE_FILE, "a")));
    CHECK(!ACCEPTS(ENTRY(TREE_FILE, "a"), ENTRY(TREE_FILE, "a")));
    CHECK(!ACCEPTS(ENTRY(TREE_DIRECTORY, "a"), ENTRY(TREE_FILE, "a.c"), ENTRY(TREE_FILE, "a/c")));
    CHECK(!ACCEPTS(ENTRY(TREE_FILE, "a/b")));
    CHECK(!ACCEPTS(ENTRY(TREE_FILE, "a"), ENTRY(TREE_FILE, "a/b")));
    CHECK(!ACCEPTS(ENTRY(TREE_SYMLINK, "a", .target = STR("/etc")), ENTRY(TREE_FILE, "a/b")));
    CHECK(!ACCEPTS(ENTRY(TREE_DIRECTORY, "ab"), ENTRY(TREE_FILE, "abc/d")));
    CHECK(!ACCEPTS(ENTRY(TREE_FILE, "a", .link_group = 1, .is_linked = true)));
    CHECK(!ACCEPTS(ENTRY(TREE_FILE, "a", .link_group = 2)));
    CHECK(!ACCEPTS(ENTRY(TREE_FILE, "a", .link_group = 1), ENTRY(TREE_FILE, "b", .link_group = 1)));
    CHECK(ACCEPTS(ENTRY(TREE_FILE, "a", .link_group = 1), ENTRY(TREE_FILE, "b", .link_group = 2),
                  ENTRY(TREE_FILE, "c", .link_group = 1, .is_linked = true)));
}

static const struct tree_entry difference[] = {
    {.kind = TREE_DIRECTORY, .path = STR("a"), .is_same = true},
    {.kind = TREE_DIRECTORY, .path = STR("b"), .mode = 0755},
    {.kind = TREE_FILE, .path = STR("b/one"), .is_same = true, .link_group = 1},
    {.kind = TREE_FILE, .path = STR("b/two"), .is_same = true, .link_group = 1, .is_linked = true},
    {.kind = TREE_SYMLINK, .path = STR("c"), .is_same = true},
};

static bool encode_difference(struct buf *out, struct error *err)
{
    bool is_fine = tree_encode_start_difference(out, err);

    for (size_t i = 0; i < COUNT_OF(difference); i++)
        is_fine = is_fine && tree_encode_entry(out, &difference[i], err);
    return is_fine && tree_encode_finish(out, err);
}

static bool decode_difference(struct str bytes, struct seen *seen, struct error *err)
{
    AUTO(tree_decoder_finish) struct tree_decoder decoder;

    *seen = (struct seen){.text = {.max = MIB(1)}};
    tree_decoder_init(&decoder, see_entry, see_bytes, seen);
    decoder.takes_differences = true;
    return tree_decode(&decoder, bytes, err) && tree_decode_end(&decoder, err);
}

TEST(what_is_the_same_is_told_only_to_somebody_who_asked_for_a_difference)
{
    AUTO(buf_finish) struct buf out = {.max = MIB(1)};
    AUTO(seen_finish) struct seen seen = {0}, other = {0}, whole = {0};
    struct error err;

    CHECK(encode_difference(&out, &err) && decode_difference(buf_str(&out), &seen, &err));
    CHECK(seen.n_ends == 0);
    CHECK(str_equal(buf_str(&seen.text), STR("2 a 0 0:0 0 0> group 0 same\n"
                                             "2 b 755 0:0 0 0> group 0\n"
                                             "1 b/one 0 0:0 0 0> group 1 same\n"
                                             "1 b/two 0 0:0 0 0> group 1 linked same\n"
                                             "3 c 0 0:0 0 0> group 0 same\n")));
    CHECK(!decode(buf_str(&out), 9, &other, &err));
    memcpy(out.bytes, "HLMRTR01", TREE_MAGIC_LEN);
    CHECK(!decode_difference(buf_str(&out), &whole, &err));
}

TEST(what_is_the_same_has_no_facts_and_nothing_in_it)
{
    const struct tree_entry bad[] = {
        ENTRY(TREE_FILE, "a", .is_same = true, .mode = 0644),
        ENTRY(TREE_FILE, "a", .is_same = true, .size = 1),
        ENTRY(TREE_SYMLINK, "a", .is_same = true, .target = STR("b")),
        ENTRY(TREE_DIRECTORY, "a", .is_same = true, .is_opaque = true),
        ENTRY(TREE_WHITEOUT, "a", .is_same = true),
    };
    AUTO(buf_finish) struct buf out = {.max = MIB(1)};
    AUTO(seen_finish) struct seen seen = {0};
    const struct tree_entry folder = ENTRY(TREE_DIRECTORY, "a", .is_same = true);
    const struct tree_entry inside = ENTRY(TREE_FILE, "a/b", .is_same = true);
    struct error err;

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!tree_encode_entry(&out, &bad[i], &err) && out.len == 0);
    CHECK(tree_encode_start_difference(&out, &err) && tree_encode_entry(&out, &folder, &err) &&
          tree_encode_entry(&out, &inside, &err) && tree_encode_finish(&out, &err));
    CHECK(!decode_difference(buf_str(&out), &seen, &err));
}

TEST(attributes_are_read_back)
{
    AUTO(buf_finish) struct buf out = {.max = TREE_XATTRS_MAX};
    struct error err;
    CHECK(tree_xattr_append(&out, STR("security.capability"), STR("\1\0\2"), &err));
    CHECK(tree_xattr_append(&out, STR("user.note"), STR(""), &err));
    CHECK(!tree_xattr_append(&out, STR("trusted.overlay.opaque"), STR("y"), &err));

    struct str rest = buf_str(&out), name, value;
    CHECK(tree_xattr_next(&rest, &name, &value) && str_equal(value, STR("\1\0\2")));
    CHECK(tree_xattr_next(&rest, &name, &value) && str_equal(name, STR("user.note")));
    CHECK(!tree_xattr_next(&rest, &name, &value) && rest.len == 0);
}

TEST_MAIN()
