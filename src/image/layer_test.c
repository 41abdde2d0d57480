#include "image/layer.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "image/config.h"
#include "image/extract.h"
#include "image/image.h"
#include "image/testing.h"

/* Version 2, effective, CAP_NET_RAW permitted: what the kernel accepts as a file capability. */
static const char capability[20] = {1, 0, 0, 2, 0, 0x20};

/* Writes the tree as a layer file and applies it over `below`. */
static bool pass_through(struct testing *testing, const char *from, enum layer_tree kind,
                         const char *to, const struct view *below)
{
    AUTO(layer_writer_finish) struct layer_writer writer = {0};
    const char *blob = testing_path(testing, "blob");
    AUTO_FD int out = open(blob, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    AUTO_FD int folder = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tar_budget budget = {(int64_t)1 << 30, 10000};
    struct image_layer layer;

    if (!testing_folder(to))
        return false;
    AUTO_FD int target = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = out >= 0 && layer_writer_init(&writer, out, true, &testing->err) &&
              layer_write_tree(&writer, folder, kind, 0, &testing->err) &&
              layer_writer_end(&writer, &layer, &testing->err) && lseek(out, 0, SEEK_SET) == 0 &&
              layer_apply(&layer, out, target, below, &budget, &testing->err);
    if (!ok)
        printf("# %s\n", testing->err.text);
    return ok;
}

static bool make_socket(const char *path)
{
    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    return fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof name) == 0;
}

/* Every kind of entry a root can have, with the facts a layer must keep. */
static const char every_kind[] =
    "mkdir tree && cd tree && chmod 0751 . && "
    "mkdir -p dir/sub empty && chmod 1777 empty && chown 12:34 dir && "
    "printf content > dir/file && chmod 0640 dir/file && chown 7:8 dir/file && "
    "printf x > program && chmod 4755 program && printf x > group && chmod 2711 group && "
    "ln dir/file dir/sub/hard && ln dir/file again && ln -s ../nowhere dir/link && "
    "ln -s /absolute link && ln link link2 && mkfifo -m 0620 fifo && "
    "printf y > \"$(printf 'na\\303\\257ve')\" && printf z > \"$(printf 'raw\\377\\001name')\" && "
    "long=$(printf '%0200d' 0) && mkdir -p deep/$long/$long && printf l > deep/$long/$long/$long "
    "&& "
    "truncate -s 5000000 sparse && printf end >> sparse && : > nothing && "
    "chown 3000000000:2999999999 nothing && "
    "ln -s $long$long linked-long && "
    "find . -exec touch -h -d @1234567890 {} + && touch -d @2000000000 program";

TEST(a_tree_of_every_kind_comes_back_the_same)
{
    TESTING(t);
    char before[DIGEST_TEXT], after[DIGEST_TEXT], value[64];
    struct stat facts, other;

    if (geteuid() != 0)
        SKIP("owners and capabilities need root");
    CHECK(testing_sh(&t, every_kind));
    CHECK(setxattr(testing_path(&t, "tree/program"), "security.capability", capability,
                   sizeof capability, 0) == 0);
    CHECK(setxattr(testing_path(&t, "tree/dir/file"), "user.note", "a\0b", 3, 0) == 0);
    CHECK(setxattr(testing_path(&t, "tree/dir"), "user.zeta", "1", 1, 0) == 0);
    CHECK(setxattr(testing_path(&t, "tree/dir"), "user.alpha", "2", 1, 0) == 0);
    CHECK(setxattr(testing_path(&t, "tree/dir"), "trusted.private", "3", 1, 0) == 0);
    CHECK(
        pass_through(&t, testing_path(&t, "tree"), LAYER_OF_ROOT, testing_path(&t, "back"), NULL));
    CHECK(testing_hash(testing_path(&t, "tree"), LAYER_OF_ROOT, before, &t.err));
    CHECK(testing_hash(testing_path(&t, "back"), LAYER_OF_ROOT, after, &t.err));
    CHECK_STR(after, before);

    CHECK(stat(testing_path(&t, "back/program"), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 04755 && facts.st_mtime == 2000000000);
    CHECK(getxattr(testing_path(&t, "back/program"), "security.capability", value, 64) == 20);
    CHECK(memcmp(value, capability, sizeof capability) == 0);
    CHECK(stat(testing_path(&t, "back/dir/file"), &facts) == 0);
    CHECK(stat(testing_path(&t, "back/again"), &other) == 0);
    CHECK(facts.st_ino == other.st_ino && facts.st_nlink == 3);
    CHECK(facts.st_uid == 7 && facts.st_gid == 8 && (facts.st_mode & 07777) == 0640);
    CHECK(stat(testing_path(&t, "back/nothing"), &facts) == 0 && facts.st_uid == 3000000000);
    CHECK(stat(testing_path(&t, "back/empty"), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 01777 && facts.st_mtime == 1234567890);
    CHECK(stat(testing_path(&t, "back"), &facts) == 0 && (facts.st_mode & 07777) == 0751);
    CHECK(getxattr(testing_path(&t, "back/dir"), "trusted.private", value, 64) < 0);
    CHECK(testing_sh(&t, "cmp tree/sparse back/sparse && test -p back/fifo"));
}

/* As a tar of plain bytes some of these would be refused for their ratio when they are unpacked. */
TEST(holes_are_neither_written_nor_unpacked)
{
    static const char *const names[] = {"all", "front", "middle", "end", "odd"};
    TESTING(t);
    struct stat facts;

    CHECK(testing_sh(&t, "mkdir tree && cd tree && truncate -s 300M all && "
                         "truncate -s 50M front && printf end >> front && "
                         "printf begin > middle && truncate -s 90M middle && printf end >> middle "
                         "&& printf begin > end && truncate -s 40M end && "
                         "truncate -s 12345678 odd && seq 1 300000 >> odd && "
                         "truncate -s 30M odd && printf x >> odd && chmod 0600 *"));
    CHECK(
        pass_through(&t, testing_path(&t, "tree"), LAYER_OF_ROOT, testing_path(&t, "back"), NULL));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CHECK(stat(testing_path(&t, "back/%s", names[i]), &facts) == 0);
        CHECK(facts.st_blocks * 512 < 5 << 20);
    }
    CHECK(stat(testing_path(&t, "blob"), &facts) == 0 && facts.st_size < 2 << 20);
    CHECK(testing_sh(&t, "for f in all front middle end odd; do cmp tree/$f back/$f; done"));
    CHECK(testing_sh(&t, "mkdir gnu && zstd -dqc < blob | tar -C gnu -xf - && "
                         "for f in all front middle end odd; do cmp tree/$f gnu/$f; done"));
}

/* What other tools write of files with holes, in each of the formats there are. */
TEST(sparse_files_of_other_tools_are_read)
{
    static const char *const formats[] = {
        "--format=oldgnu",
        "--format=posix --sparse-version=0.0",
        "--format=posix --sparse-version=0.1",
        "--format=posix --sparse-version=1.0",
        "--format=posix --hole-detection=raw",
    };
    TESTING(t);

    CHECK(testing_sh(&t, "mkdir tree && truncate -s 40M tree/f && printf middle >> tree/f && "
                         "truncate -s 80M tree/f && printf end >> tree/f"));
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        struct tar_budget budget = {1 << 27, 100};
        struct image_layer layer = {0};
        struct stat facts;
        char script[256];
        (void)snprintf(script, sizeof script,
                       "rm -rf to && mkdir to && tar -C tree -S %s -cf blob f && "
                       "test $(stat -c %%s blob) -lt 100000",
                       formats[i]);
        CHECK(testing_sh(&t, script));
        AUTO_FD int blob = open(testing_path(&t, "blob"), O_RDONLY | O_CLOEXEC);
        AUTO_FD int to = open(testing_path(&t, "to"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(!layer_apply(&layer, blob, to, NULL, &budget, &t.err));
        CHECK(t.err.code == ERR_CONTENT_HASH); /* none was promised: everything else passed */
        CHECK(testing_sh(&t, "cmp tree/f to/f"));
        CHECK(stat(testing_path(&t, "to/f"), &facts) == 0 && facts.st_blocks * 512 < 1 << 20);
        /* The holes count as much as anything. */
        budget.bytes = 50 << 20;
        CHECK(unlink(testing_path(&t, "to/f")) == 0 && lseek(blob, 0, SEEK_SET) == 0);
        CHECK(!layer_apply(&layer, blob, to, NULL, &budget, &t.err));
        CHECK(t.err.code == ERR_ARCHIVE_TOO_LARGE);
    }
}

TEST(sockets_and_devices_stay_behind)
{
    TESTING(t);

    if (geteuid() != 0)
        SKIP("devices need root");
    CHECK(testing_sh(&t, "mkdir tree && mknod tree/null c 1 3 && mknod tree/disk b 7 0 && "
                         "mknod tree/zero c 0 0 && : > tree/kept"));
    CHECK(make_socket(testing_path(&t, "tree/socket")));
    CHECK(
        pass_through(&t, testing_path(&t, "tree"), LAYER_OF_ROOT, testing_path(&t, "back"), NULL));
    CHECK(testing_sh(&t, "test \"$(ls back)\" = kept"));
}

/* What umoci of Debian 12 needs: it knows no zstd. */
TEST(a_layer_is_given_another_coding)
{
    TESTING(t);
    AUTO(layer_writer_finish) struct layer_writer writer = {0};
    struct image_layer layer, gzip, again, back;

    CHECK(testing_sh(&t, "mkdir tree && seq 1 300000 > tree/numbers && : > a && : > b && : > c"));
    AUTO_FD int tree = open(testing_path(&t, "tree"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FD int zstd = open(testing_path(&t, "zstd"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(layer_writer_init(&writer, zstd, true, &t.err) &&
          layer_write_tree(&writer, tree, LAYER_OF_ROOT, 0, &t.err) &&
          layer_writer_end(&writer, &layer, &t.err) && lseek(zstd, 0, SEEK_SET) == 0);
    AUTO_FD int a = open(testing_path(&t, "a"), O_RDWR | O_CLOEXEC);
    AUTO_FD int b = open(testing_path(&t, "b"), O_RDWR | O_CLOEXEC);
    AUTO_FD int c = open(testing_path(&t, "c"), O_RDWR | O_CLOEXEC);
    CHECK(layer_recode(&layer, zstd, LAYER_GZIP, a, &gzip, &t.err));
    CHECK(gzip.coding == LAYER_GZIP && strcmp(gzip.digest, layer.digest) != 0);
    CHECK_STR(gzip.diff_id, layer.diff_id);
    CHECK(testing_sh(&t, "gzip -dc a > tar && tar -tf tar numbers && "
                         "test \"$(head -c 8 a | od -An -tx1 | tr -d ' ')\" = 1f8b080000000000"));

    CHECK(lseek(a, 0, SEEK_SET) == 0 && lseek(zstd, 0, SEEK_SET) == 0);
    CHECK(layer_recode(&gzip, a, LAYER_GZIP, b, &again, &t.err));
    CHECK_STR(again.digest, gzip.digest);
    CHECK(lseek(a, 0, SEEK_SET) == 0);
    CHECK(layer_recode(&gzip, a, LAYER_TAR, c, &back, &t.err));
    CHECK_STR(back.digest, layer.diff_id);
    CHECK(testing_sh(&t, "cmp tar c"));

    CHECK(lseek(zstd, 0, SEEK_SET) == 0);
    layer.diff_id[10] = layer.diff_id[10] == 'a' ? 'b' : 'a';
    CHECK(!layer_recode(&layer, zstd, LAYER_GZIP, c, &back, &t.err));
    CHECK(t.err.code == ERR_CONTENT_HASH);
}

TEST(a_damaged_layer_is_noticed)
{
    TESTING(t);
    struct tar_budget budget = {1 << 20, 100};
    struct image_layer layer = {0};

    CHECK(testing_folder(testing_path(&t, "to")) && testing_folder(testing_path(&t, "tree")));
    CHECK(testing_file(testing_path(&t, "tree/file"), "content"));
    CHECK(testing_sh(&t, "tar -C tree -cf blob file"));
    AUTO_FD int blob = open(testing_path(&t, "blob"), O_RDONLY | O_CLOEXEC);
    AUTO_FD int to = open(testing_path(&t, "to"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memcpy(layer.digest, "sha256:00", 10);
    memcpy(layer.diff_id, "sha256:00", 10);
    CHECK(!layer_apply(&layer, blob, to, NULL, &budget, &t.err));
    CHECK(t.err.code == ERR_CONTENT_HASH && strstr(t.err.text, "digest"));

    AUTO_FREE char *text = alloc(1 << 16);
    ssize_t len = pread(blob, text, 1 << 16, 0);
    CHECK(len > 0);
    digest_of((struct str){text, (size_t)len}, layer.digest);
    CHECK(unlink(testing_path(&t, "to/file")) == 0 && lseek(blob, 0, SEEK_SET) == 0);
    CHECK(!layer_apply(&layer, blob, to, NULL, &budget, &t.err));
    CHECK(t.err.code == ERR_CONTENT_HASH && strstr(t.err.text, "content"));
}

TEST(a_hostile_layer_leaves_nothing_in_the_store)
{
    TESTING(t);
    AUTO(arena_finish) struct arena arena = {0};
    struct image_store *store = NULL;
    struct image_document document = {0};
    struct image_layer layer = {.coding = LAYER_TAR};
    const char *const *folders;
    int64_t size;

    CHECK(testing_sh(&t, "mkdir tree && : > tree/first && : > \"$PWD/evil\" && "
                         "tar -P -C tree -cf blob first \"$PWD/evil\" && rm evil"));
    AUTO_FREE char *text = alloc(1 << 16);
    AUTO_FD int blob = open(testing_path(&t, "blob"), O_RDONLY | O_CLOEXEC);
    layer.size = pread(blob, text, 1 << 16, 0);
    CHECK(layer.size > 1024);
    CHECK(image_store_open(testing_path(&t, "work"), &store, &t.err));
    CHECK(store_put_blob(store, (struct str){text, (size_t)layer.size}, layer.digest, &t.err));
    memcpy(layer.diff_id, layer.digest, DIGEST_TEXT);
    document_add(&document, &layer, "test", &arena);
    CHECK(document_save(store, &document, &size, &t.err));
    CHECK(!image_unpack(store, &document.image, &arena, &folders, &t.err));
    CHECK(t.err.code == ERR_ARCHIVE_INVALID && strstr(t.err.text, "absolute"));
    CHECK(
        testing_sh(&t, "test ! -e evil && test -z \"$(ls work/layers work/oci/tmp | grep -v :)\""));
    image_store_close(store);
}

/* Changes made through a real overlay: each line is one way a layer can differ from those below. */
static const char lower_tree[] =
    "mkdir -p lower/kept/sub lower/replaced/deep lower/emptied lower/gone/sub lower/file-to-dir "
    "lower/modes && chmod 1777 lower/modes && chown 5:6 lower/modes && "
    "for f in kept/a kept/sub/b replaced/x replaced/deep/y emptied/z gone/1 gone/sub/2 "
    "to-remove to-rewrite to-chmod to-rename modes/m; do printf $f > lower/$f; done && "
    "ln -s to-remove lower/link && rmdir lower/file-to-dir && printf f > lower/file-to-dir && "
    "mkdir lower/dir-to-file && ln lower/to-chmod lower/hard && "
    "touch -d @1 lower";

static const char changes[] =
    "cd merged && rm to-remove && rm -r gone && rm -r replaced && mkdir replaced && "
    "printf new > replaced/new && rm emptied/z && printf changed > to-rewrite && "
    "chmod 0600 to-chmod && mv to-rename renamed && rm file-to-dir && mkdir file-to-dir && "
    "printf in > file-to-dir/in && rmdir dir-to-file && printf file > dir-to-file && "
    "rm link && ln -s kept link && printf more > kept/sub/more && ln kept/sub/more kept/linked && "
    "printf n > modes/n && mkdir -p fresh/nested && printf q > fresh/nested/q && "
    "mv kept/sub kept/moved && mkfifo pipe && rm -r emptied && mkdir emptied && chmod 0700 emptied "
    "&& "
    "touch -d @1 .";

static bool mount_overlay(struct testing *t, const char *lowers, const char *upper)
{
    const char *options = testing_path(t, "x");
    char text[4096];

    (void)options;
    if (upper)
        (void)snprintf(text, sizeof text, "lowerdir=%s,upperdir=%s,workdir=%s", lowers, upper,
                       testing_path(t, "work"));
    else
        (void)snprintf(text, sizeof text, "lowerdir=%s", lowers);
    return mount("overlay", testing_path(t, "merged"), "overlay", 0, text) == 0;
}

TEST(a_captured_overlay_gives_the_same_merged_tree)
{
    TESTING(t);
    AUTO(view_finish) struct view below = {0};
    char before[DIGEST_TEXT], after[DIGEST_TEXT], lowers[512];
    const char *lower_path[1];

    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        SKIP("mounting an overlay needs root");
    CHECK(testing_sh(&t, "mkdir upper work merged"));
    CHECK(testing_sh(&t, lower_tree));
    if (!mount_overlay(&t, testing_path(&t, "lower"), testing_path(&t, "upper")))
        SKIP("this kernel has no overlayfs here");
    bool changed = testing_sh(&t, changes);
    bool hashed = testing_hash(testing_path(&t, "merged"), LAYER_OF_ROOT, before, &t.err);
    CHECK(umount2(testing_path(&t, "merged"), 0) == 0);
    CHECK(changed && hashed);

    lower_path[0] = testing_path(&t, "lower");
    CHECK(view_open(lower_path, 1, &below, &t.err));
    CHECK(pass_through(&t, testing_path(&t, "upper"), LAYER_OF_OVERLAY, testing_path(&t, "layer"),
                       &below));
    (void)snprintf(lowers, sizeof lowers, "%s:%s", testing_path(&t, "layer"),
                   testing_path(&t, "lower"));
    CHECK(mount_overlay(&t, lowers, NULL));
    hashed = testing_hash(testing_path(&t, "merged"), LAYER_OF_ROOT, after, &t.err);
    CHECK(umount2(testing_path(&t, "merged"), 0) == 0);
    CHECK(hashed);
    CHECK_STR(after, before);
}

TEST(an_overlay_with_redirects_is_refused_not_mangled)
{
    TESTING(t);
    char hash[DIGEST_TEXT];

    if (geteuid() != 0)
        SKIP("overlay marks need root");
    CHECK(testing_sh(&t, "mkdir -p upper/moved"));
    CHECK(testing_hash(testing_path(&t, "upper"), LAYER_OF_OVERLAY, hash, &t.err));
    CHECK(setxattr(testing_path(&t, "upper/moved"), "trusted.overlay.redirect", "/was", 4, 0) == 0);
    CHECK(!testing_hash(testing_path(&t, "upper"), LAYER_OF_OVERLAY, hash, &t.err));
    CHECK(strstr(t.err.text, "redirect"));
}

/* What the merged view says must be what the kernel says. */
TEST(the_view_agrees_with_overlayfs)
{
    TESTING(t);
    AUTO(view_finish) struct view view = {0};
    AUTO(disk_names_finish) struct disk_names names = {0};
    struct view_place place;
    char path[TAR_PATH];
    const char *folders[2];

    if (geteuid() != 0)
        SKIP("whiteouts need root");
    CHECK(testing_sh(&t,
                     "mkdir -p low/d/e low/o top/d top/o && : > low/d/gone && : > low/d/kept && "
                     ": > low/o/hidden && : > top/o/shown && mknod top/d/gone c 0 0 && "
                     "ln -s /d/e low/abs && ln -s ../../d low/d/e/up && ln -s loop low/loop && "
                     "ln -s ../../../../etc low/d/out"));
    CHECK(setxattr(testing_path(&t, "top/o"), OVERLAY_OPAQUE, "y", 1, 0) == 0);
    folders[0] = testing_path(&t, "low");
    folders[1] = testing_path(&t, "top");
    CHECK(view_open(folders, 2, &view, &t.err));
    CHECK(view_look(&view, "d/gone", &place, NULL, &t.err) && !place.is_there);
    CHECK(view_look(&view, "d/kept", &place, NULL, &t.err) && place.is_there);
    CHECK(view_look(&view, "o/hidden", &place, NULL, &t.err) && !place.is_there);
    bool blocked;
    CHECK(view_look(&view, "d/kept/x", &place, &blocked, &t.err) && !place.is_there && blocked);
    CHECK(view_look(&view, "o", &place, NULL, &t.err) && place.n_folders == 1);
    CHECK(view_look(&view, "d", &place, NULL, &t.err) && place.n_folders == 2);
    CHECK(view_list(&view, "d", &place, &names, &t.err) && names.n == 3);
    CHECK_STR(names.names[0], "e");
    CHECK_STR(names.names[1], "kept");
    CHECK_STR(names.names[2], "out");
    CHECK(view_resolve(&view, "/abs/up/new", path, &t.err));
    CHECK_STR(path, "d/new");
    CHECK(!view_resolve(&view, "/d/out/x", path, &t.err) && t.err.code == ERR_UNPROCESSABLE);
    CHECK(!view_resolve(&view, "../x", path, &t.err));
    CHECK(!view_resolve(&view, "/loop", path, &t.err));
}

/* A layer that does not list a folder must not change that folder's owner and mode. */
TEST(unlisted_folders_keep_their_facts)
{
    TESTING(t);
    AUTO(view_finish) struct view below = {0};
    struct tar_budget budget = {1 << 20, 100};
    struct image_layer layer = {0};
    const char *lower_path[1];
    struct stat facts;

    if (geteuid() != 0)
        SKIP("owners need root");
    CHECK(testing_sh(&t, "mkdir -p lower/a/b src/a/b to && chmod 1777 lower/a/b && "
                         "chown 9:10 lower/a/b && chmod 0711 lower && : > src/a/b/file && "
                         "ln -s a lower/link && mkdir src/link && : > src/link/file && "
                         "tar -C src -cf one a/b/file && tar -C src -cf two link/file"));
    lower_path[0] = testing_path(&t, "lower");
    CHECK(view_open(lower_path, 1, &below, &t.err));
    AUTO_FD int to = open(testing_path(&t, "to"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FD int one = open(testing_path(&t, "one"), O_RDONLY | O_CLOEXEC);
    CHECK(!layer_apply(&layer, one, to, &below, &budget, &t.err));
    CHECK(t.err.code == ERR_CONTENT_HASH); /* the digests were not given: everything else passed */
    CHECK(stat(testing_path(&t, "to/a/b"), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 01777 && facts.st_uid == 9 && facts.st_gid == 10);
    CHECK(stat(testing_path(&t, "to"), &facts) == 0 && (facts.st_mode & 07777) == 0711);

    AUTO_FD int two = open(testing_path(&t, "two"), O_RDONLY | O_CLOEXEC);
    CHECK(!layer_apply(&layer, two, to, &below, &budget, &t.err));
    CHECK(t.err.code == ERR_ARCHIVE_INVALID && strstr(t.err.text, "lower layer"));
}

TEST_MAIN()
