#include "image/tree_folder.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "image/aside.h"
#include "image/extract.h"
#include "image/testing.h"

static void destroy_pack(struct tree_pack **pack)
{
    tree_pack_destroy(*pack);
}

static void destroy_unpack(struct tree_unpack **unpack)
{
    tree_unpack_destroy(*unpack);
}

/* The bytes of the stream that the folders make. */
static bool pack_all(const struct tree_part *parts, size_t n, struct buf *out, struct error *err)
{
    AUTO(destroy_pack) struct tree_pack *pack = NULL;
    bool is_last = false;

    if (!tree_pack_create(parts, n, &pack, err))
        return false;
    while (!is_last) {
        AUTO(buf_finish) struct buf piece = {.max = TREE_PACK_PIECE};
        if (!tree_pack_step(pack, &piece, &is_last, err) || !buf_append(out, buf_str(&piece), err))
            return false;
    }
    return true;
}

/* Byte by byte, as a channel may bring them. */
static bool unpack_all(const struct tree_unpack_spec *spec, struct str bytes, struct error *err)
{
    AUTO(destroy_unpack) struct tree_unpack *unpack = tree_unpack_create(spec);
    AUTO(tree_decoder_finish) struct tree_decoder decoder = {0};

    tree_decoder_init(&decoder, tree_unpack_entry, tree_unpack_bytes, unpack);
    for (size_t i = 0; i < bytes.len; i++)
        if (!tree_decode(&decoder, (struct str){bytes.ptr + i, 1}, err))
            return false;
    return tree_decode_end(&decoder, err) && tree_unpack_end(unpack, err);
}

static int folder_open(const struct testing *t, const char *name)
{
    const char *path = testing_path(t, "%s", name);

    return testing_folder(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

TEST(folders_of_a_project_go_into_one_tree_and_come_back_by_their_names)
{
    TESTING(t);
    AUTO(buf_finish) struct buf tree = {.max = 1 << 20};

    CHECK(testing_sh(&t, "mkdir -p deps/node_modules/.bin deps/node_modules/a source/a.b source/a\n"
                         "echo '{}' > deps/package.json; echo x > deps/node_modules/a/run.js\n"
                         "chmod 700 deps/node_modules/a/run.js; : > source/empty\n"
                         "ln -s ../a/run.js deps/node_modules/.bin/run; echo y > source/a/z\n"
                         "mkfifo source/pipe\n"));
    AUTO_FD int deps = folder_open(&t, "deps"), source = folder_open(&t, "source");
    AUTO_FD int back = folder_open(&t, "back"), other = folder_open(&t, "other");
    const struct tree_part parts[] = {
        {"deps",   deps  },
        {"source", source}
    };
    CHECK(pack_all(parts, 2, &tree, &t.err));
    const struct tree_unpack_spec one = {.root = back, .below = "deps"};
    const struct tree_unpack_spec two = {.root = other, .below = "source"};
    CHECK(unpack_all(&one, buf_str(&tree), &t.err) && unpack_all(&two, buf_str(&tree), &t.err));
    CHECK_STR(t.err.text, "");
    CHECK(testing_sh(&t, "chmod 755 deps/node_modules/a/run.js; rm source/pipe\n"
                         "diff -r --no-dereference deps back\n"
                         "diff -r --no-dereference source other\n"
                         "test \"$(stat -c %a back/node_modules/a/run.js)\" = 755\n"
                         "test \"$(stat -c %a back/package.json)\" = 644\n"));

    /* Without a part of it, and of something that is not there. */
    AUTO_FD int third = folder_open(&t, "third");
    const char *without[] = {"deps/node_modules"};
    const struct tree_unpack_spec some = {.root = third,
                                          .below = "deps",
                                          .without = without,
                                          .n_without = 1};
    CHECK(unpack_all(&some, buf_str(&tree), &t.err));
    CHECK(testing_sh(&t, "test \"$(ls -A third)\" = package.json"));
    CHECK(!unpack_all(&some, (struct str){tree.bytes, tree.len - 1}, &t.err));
}

static bool put(struct buf *tree, const struct tree_entry *entry, const char *content,
                struct error *err)
{
    struct tree_entry whole = *entry;

    whole.size = content ? strlen(content) : 0;
    return tree_encode_entry(tree, &whole, err) &&
           (!content || buf_append(tree, str_of(content), err));
}

TEST(a_layer_keeps_owners_links_and_what_it_hides)
{
    static const struct tree_entry entries[] = {
        {.kind = TREE_DIRECTORY,
         .path = STR("d"),
         .mode = 0750,
         .uid = 3,
         .gid = 4,
         .is_opaque = true},
        {.kind = TREE_FILE, .path = STR("d/a"), .mode = 04711, .uid = 5, .gid = 6, .link_group = 1},
        {.kind = TREE_FILE, .path = STR("d/b"), .mode = 04711, .link_group = 1, .is_linked = true},
        {.kind = TREE_WHITEOUT, .path = STR("d/gone")},
        {.kind = TREE_SYMLINK,
         .path = STR("d/l"),
         .mode = 0777,
         .uid = 7,
         .gid = 8,
         .target = STR("/etc/passwd")},
        {.kind = TREE_FIFO, .path = STR("d/p"), .mode = 0620, .uid = 9},
    };
    TESTING(t);
    AUTO(buf_finish) struct buf tree = {.max = 1 << 20};
    AUTO_FD int root = folder_open(&t, "upper");
    struct stat facts;
    char target[64];

    CHECK(tree_encode_start(&tree, &t.err));
    for (size_t i = 0; i < COUNT_OF(entries); i++)
        CHECK(put(&tree, &entries[i], i == 1 ? "text" : NULL, &t.err));
    CHECK(tree_encode_finish(&tree, &t.err));
    const struct tree_unpack_spec spec = {.kind = TREE_OF_LAYER, .root = root, .below = ""};
    CHECK(unpack_all(&spec, buf_str(&tree), &t.err));
    CHECK_STR(t.err.text, "");

    AUTO_FD int folder = openat(root, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(aside_stat(folder, &facts) == 0 && facts.st_uid == 3 && facts.st_gid == 4);
    CHECK((facts.st_mode & 07777) == 0750 && aside_is_opaque(folder));
    CHECK(aside_statat(folder, "b", &facts) == 0 && facts.st_uid == 5 && facts.st_gid == 6);
    CHECK(facts.st_mode == (S_IFREG | 04711) && facts.st_nlink == 2 && facts.st_size == 4);
    CHECK(fstatat(folder, "gone", &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(facts.st_mode));
    CHECK(facts.st_rdev == makedev(0, 0));
    CHECK(aside_statat(folder, "l", &facts) == 0 && S_ISLNK(facts.st_mode) && facts.st_uid == 7);
    CHECK(aside_readlink(folder, "l", target, sizeof target) == 11);
    CHECK(aside_statat(folder, "p", &facts) == 0 && facts.st_mode == (S_IFIFO | 0620));
}

TEST(nothing_is_written_through_what_is_there_already)
{
    static const struct tree_entry folder = {.kind = TREE_DIRECTORY,
                                             .path = STR("a"),
                                             .mode = 0755};
    static const struct tree_entry file = {.kind = TREE_FILE, .path = STR("a/f"), .mode = 0644};
    TESTING(t);
    AUTO(buf_finish) struct buf tree = {.max = 1 << 20};

    CHECK(testing_sh(&t, "mkdir root outside && ln -s ../outside root/a"));
    AUTO_FD int root = folder_open(&t, "root");
    CHECK(tree_encode_start(&tree, &t.err) && put(&tree, &folder, NULL, &t.err) &&
          put(&tree, &file, "x", &t.err) && tree_encode_finish(&tree, &t.err));
    const struct tree_unpack_spec spec = {.root = root, .below = ""};
    CHECK(!unpack_all(&spec, buf_str(&tree), &t.err));
    CHECK(testing_sh(&t, "test -z \"$(ls -A outside)\""));
}

TEST_MAIN()
