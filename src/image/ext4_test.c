#include "image/ext4.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/sha256.h"
#include "image/testing.h"

/* The kernel is the judge: drives are mounted in a namespace of this program's own. */
static const char *why_no_mount(void)
{
    static bool is_private;

    if (geteuid() != 0)
        return "mounting needs root";
    if (access("/dev/loop-control", R_OK) != 0)
        return "there are no loop devices";
    if (!is_private &&
        (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0))
        return "no namespace of mounts can be made";
    is_private = true;
    return NULL;
}

static void unmount_all(struct testing **testing)
{
    (void)umount2(testing_path(*testing, "drive"), MNT_DETACH);
    (void)umount2(testing_path(*testing, "merged"), MNT_DETACH);
}

static bool write_drive(struct testing *testing, const char *name, const char *const *layers,
                        size_t n)
{
    const struct ext4_plan plan = {.layers = layers, .n_layers = n, .seed = STR("test")};
    AUTO_FD int fd =
        open(testing_path(testing, "%s", name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0 && ext4_write(&plan, fd, &testing->err))
        return true;
    printf("# %s\n", testing->err.text);
    return false;
}

static bool write_one(struct testing *testing, const char *name, const char *folder)
{
    const char *layers[] = {testing_path(testing, "%s", folder)};

    return write_drive(testing, name, layers, 1);
}

static bool hash_file(const char *path, char hex[SHA256_HEX])
{
    AUTO_FREE char *bytes = alloc(1 << 20);
    AUTO(sha256_finish) struct sha256 hash;
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;

    sha256_init(&hash);
    while (fd >= 0 && (n = read(fd, bytes, 1 << 20)) > 0)
        sha256_update(&hash, (struct str){bytes, (size_t)n});
    sha256_take(&hash, hex);
    return n == 0;
}

/* Whether the drive, mounted, has exactly the tree. */
static bool is_tree(struct testing *testing, const char *drive, const char *tree)
{
    AUTO(unmount_all) struct testing *cleaning = testing;
    char want[DIGEST_TEXT] = "", got[DIGEST_TEXT] = "", script[256];

    (void)snprintf(script, sizeof script,
                   "e2fsck -fn %s >&2 && mkdir -p drive && mount -o loop,ro %s drive", drive,
                   drive);
    if (!testing_sh(cleaning, script) ||
        !testing_hash(testing_path(testing, "drive"), LAYER_OF_ROOT, got, &testing->err) ||
        !testing_hash(testing_path(testing, "%s", tree), LAYER_OF_ROOT, want, &testing->err))
        return false;
    return strcmp(want, got) == 0;
}

/* Without a mount: names, contents and links, as another program reads them. */
static bool is_content(struct testing *testing, const char *drive, const char *tree)
{
    char script[256];

    (void)snprintf(script, sizeof script,
                   "e2fsck -fn %s >&2 && mkdir dump && debugfs -R 'rdump / dump' %s && "
                   "diff -r --no-dereference dump %s",
                   drive, drive, tree);
    return testing_sh(testing, script);
}

#define N50  "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
#define N250 N50 N50 N50 N50 N50

static const char all_kinds[] =
    "mkdir -p t/a/b/c t/empty t/sticky && echo hello >t/a/hello && : >t/a/nothing\n"
    "ln t/a/hello t/a/b/again && ln -s hello t/a/fast && ln -s " N50 "12345678 t/a/text\n"
    "ln -s " N50 "123456789 t/a/most && ln -s " N50 "1234567890 t/a/slow && ln -s " N250
    " t/a/b/long\n"
    "ln -P t/a/fast t/a/fast-again\n"
    "mkfifo -m 640 t/a/pipe && chmod 1777 t/sticky && echo x >t/suid && chmod 4755 t/suid\n"
    "chown -h 1000:70000 t/a/hello t/a/fast t/a/b && chown 4000000000:1 t/a/nothing\n"
    "head -c 4096 /dev/zero | tr '\\0' x >t/page && head -c 4097 t/page >t/more && echo 1 "
    ">>t/more\n"
    "head -c 65536 /dev/zero >t/zeros && head -c 65537 /dev/zero >t/zeros-and-one\n"
    "truncate -s 1G t/sparse && printf end | dd of=t/sparse bs=1 seek=300000000 conv=notrunc "
    "status=none\n"
    ": >t/" N250 "12345 && : >\"t/$(printf 'no\\377utf\\001')\" && : >'t/white space'\n"
    "touch -d 1960-01-02T03:04:05Z t/page && touch -d 2200-01-02T03:04:05Z t/more\n"
    "touch -d '2020-01-02 03:04:05.123456789Z' t/suid && touch -d @77 t/a t\n";

static bool make_all_kinds(struct testing *testing)
{
    /* VFS_CAP_REVISION_2 with net_bind_service, permitted and effective. */
    static const uint8_t capability[20] = {1, 0, 0, 2, 0, 4};
    char value[3000];

    memset(value, 'v', sizeof value);
    return testing_sh(testing, all_kinds) &&
           setxattr(testing_path(testing, "t/page"), "security.capability", capability, 20, 0) ==
               0 &&
           setxattr(testing_path(testing, "t/page"), "user.small", "s", 1, 0) == 0 &&
           setxattr(testing_path(testing, "t/more"), "user.large", value, sizeof value, 0) == 0 &&
           setxattr(testing_path(testing, "t/more"), "user.other", value, 100, 0) == 0 &&
           setxattr(testing_path(testing, "t/a/b"), "user.folder", "f", 1, 0) == 0;
}

TEST(a_tree_comes_back_as_it_was)
{
    TESTING(testing);
    const char *why = why_no_mount();
    struct stat facts;

    if (why)
        SKIP(why);
    CHECK(make_all_kinds(&testing));
    CHECK(write_one(&testing, "t.ext4", "t"));
    CHECK(is_tree(&testing, "t.ext4", "t"));

    /* What a tar does not tell. */
    CHECK(testing_sh(&testing, "mount -o loop,ro t.ext4 drive"));
    CHECK(stat(testing_path(&testing, "drive/suid"), &facts) == 0);
    CHECK(facts.st_mtim.tv_nsec == 123456789);
    CHECK(stat(testing_path(&testing, "drive/sparse"), &facts) == 0);
    CHECK(facts.st_size == 1 << 30 && facts.st_blocks <= 256);
    CHECK(stat(testing_path(&testing, "drive/zeros"), &facts) == 0);
    CHECK(facts.st_blocks == 0);
    CHECK(testing_sh(&testing, "umount drive"));
    CHECK(stat(testing_path(&testing, "t.ext4"), &facts) == 0);
    CHECK(facts.st_blocks * 512 < 4 << 20);
}

static const char three_layers[] =
    "mkdir -p 1/same/deep 1/gone 1/opaque/sub 1/file 2/same/deep 2/opaque 3/same 3/file\n"
    "echo 1 >1/same/low && echo 1 >1/same/both && echo 1 >1/gone/x && echo 1 >1/opaque/hidden\n"
    "echo 1 >1/opaque/sub/x && echo 1 >1/same/deep/a && echo 1 >1/to-folder && ln 1/same/low "
    "1/low\n"
    "echo 2 >2/same/both && echo 2 >2/same/mid && mknod 2/gone c 0 0 && echo 2 >2/opaque/new\n"
    "echo 2 >2/same/deep/b && chmod 700 2/same && mknod 2/same/low c 0 0 && mkdir 2/to-folder\n"
    "echo 3 >3/gone && echo 3 >3/same/mid && mknod 3/same/deep c 0 0 && mkdir 3/opaque\n"
    "echo 3 >3/opaque/hidden && mknod 3/nothing c 0 0 && ln -s same 3/link && echo 3 >3/file/new\n"
    "echo 2 >2/to-folder/in && echo 1 >1/file/old && chown 5:6 3/same && touch -d @99 3/same\n";

TEST(layers_merge_as_overlayfs_merges_them)
{
    TESTING(testing);
    const char *why = why_no_mount();

    if (why)
        SKIP(why);
    const char *layers[] = {testing_path(&testing, "1"), testing_path(&testing, "2"),
                            testing_path(&testing, "3")};
    CHECK(testing_sh(&testing, three_layers));
    CHECK(setxattr(testing_path(&testing, "2/opaque"), "trusted.overlay.opaque", "y", 1, 0) == 0);
    CHECK(testing_sh(&testing, "mkdir merged && mount -t overlay -o ro,lowerdir=3:2:1 o merged"));
    CHECK(write_drive(&testing, "t.ext4", layers, 3));
    CHECK(is_tree(&testing, "t.ext4", "merged"));
}

TEST(the_same_layers_make_the_same_bytes)
{
    TESTING(testing);
    char first[SHA256_HEX], again[SHA256_HEX];

    if (geteuid() != 0)
        SKIP("files of other owners need root");
    CHECK(make_all_kinds(&testing));
    CHECK(write_one(&testing, "1.ext4", "t"));
    /* Other inodes, no holes, another order on the disk. */
    CHECK(testing_sh(&testing, "mkdir u && cp -a --sparse=never t/zeros t/page u/ && rm -rf u &&"
                               "cp -a --sparse=never t u"));
    CHECK(write_one(&testing, "2.ext4", "u"));
    CHECK(hash_file(testing_path(&testing, "1.ext4"), first));
    CHECK(hash_file(testing_path(&testing, "2.ext4"), again));
    CHECK_STR(first, again);
    CHECK(testing_sh(&testing, "echo changed >u/suid"));
    CHECK(write_one(&testing, "2.ext4", "u"));
    CHECK(hash_file(testing_path(&testing, "2.ext4"), again));
    CHECK(strcmp(first, again) != 0);
}

/* Long names for a tree of two levels; short ones for a hash that meets itself. */
static bool make_large(struct testing *testing, const char *folder, size_t n, size_t len)
{
    AUTO_FD int fd = open(testing_path(testing, "%s", folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[256];

    for (size_t i = 0; fd >= 0 && i < n; i++) {
        int used = snprintf(name, sizeof name, "%zu-", i);
        memset(name + used, 'l', len);
        name[(size_t)used + len] = '\0';
        if (linkat(AT_FDCWD, testing_path(testing, "t/file"), fd, name, 0) != 0)
            return false;
    }
    return fd >= 0;
}

TEST(large_folders_are_found_by_hash)
{
    TESTING(testing);
    const char *why = why_no_mount();
    struct stat facts;

    CHECK(testing_sh(&testing, "mkdir -p t/long t/short && echo x >t/file"));
    CHECK(make_large(&testing, "t/long", 9000, 240));
    CHECK(make_large(&testing, "t/short", 20000, 1));
    CHECK(write_one(&testing, "t.ext4", "t"));
    if (why) {
        CHECK(is_content(&testing, "t.ext4", "t"));
        SKIP("only contents were compared: mounting needs root and loop devices");
    }
    CHECK(is_tree(&testing, "t.ext4", "t"));
    CHECK(testing_sh(&testing, "mount -o loop,ro t.ext4 drive"));
    CHECK(stat(testing_path(&testing, "drive/short/19999-l"), &facts) == 0);
    CHECK(facts.st_nlink == 29001);
    CHECK(stat(testing_path(&testing, "drive/short/20000-l"), &facts) != 0 && errno == ENOENT);
    CHECK(testing_sh(&testing, "umount drive; debugfs -R 'stat /long' t.ext4 | grep -q 0x81000"));
}

TEST(a_file_in_many_pieces_and_a_deep_tree_come_back)
{
    TESTING(testing);
    const char *why = why_no_mount();
    char deep[TAR_PATH] = "t";

    CHECK(testing_sh(&testing, "mkdir t"));
    AUTO_FD int fd = open(testing_path(&testing, "t/pieces"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    for (off_t i = 0; i < 1500; i++)
        CHECK(pwrite(fd, &i, sizeof i, i * 128 * 1024 + 8) == sizeof i);
    for (size_t i = 0; i < 255; i++) {
        size_t len = strlen(deep);
        (void)snprintf(deep + len, sizeof deep - len, "/folder-%zu", i);
        CHECK(testing_folder(testing_path(&testing, "%s", deep)));
    }
    CHECK(testing_file(testing_path(&testing, "%s/end", deep), "end"));
    CHECK(write_one(&testing, "t.ext4", "t"));
    if (why) {
        CHECK(is_content(&testing, "t.ext4", "t"));
        SKIP("only contents were compared: mounting needs root and loop devices");
    }
    CHECK(is_tree(&testing, "t.ext4", "t"));
}

TEST(a_drive_can_be_larger_than_what_is_on_it)
{
    TESTING(testing);
    AUTO_FD int fd = open(testing_path(&testing, "x"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    AUTO_FREE char *tree = alloc_text(testing_path(&testing, "t"));
    const char *layers[] = {tree};
    const struct ext4_plan plan = {.layers = layers,
                                   .n_layers = 1,
                                   .seed = STR("test"),
                                   .size_bytes = ((int64_t)16 << 30) + 1};
    struct stat facts;

    CHECK(testing_sh(&testing, "mkdir t && echo x >t/file"));
    CHECK(setxattr(tree, "user.note", "n", 1, 0) == 0);
    CHECK(ext4_write(&plan, fd, &testing.err));
    CHECK(fstat(fd, &facts) == 0 && facts.st_size == (int64_t)16 << 30);
    CHECK(facts.st_blocks * 512 < 1 << 20);
    CHECK(testing_sh(&testing, "e2fsck -fn x >&2 && "
                               "test \"$(debugfs -R 'cat /file' x 2>/dev/null)\" = x"));
}

TEST(what_does_not_fit_is_refused)
{
    TESTING(testing);
    AUTO_FD int fd = open(testing_path(&testing, "x"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char deep[TAR_PATH] = "t", value[4000];
    AUTO_FREE char *tree = alloc_text(testing_path(&testing, "t"));
    const char *layers[] = {tree};
    struct ext4_plan plan = {.layers = layers, .seed = STR("test")};

    memset(value, 'v', sizeof value);
    CHECK(testing_folder(testing_path(&testing, "t")));
    CHECK(!ext4_write(&plan, fd, &testing.err) && testing.err.code == ERR_INVALID);
    plan.n_layers = 1;
    plan.size_bytes = 1 << 20;
    CHECK(!ext4_write(&plan, fd, &testing.err) && testing.err.code == ERR_TOO_LARGE);
    plan.size_bytes = INT64_MAX;
    CHECK(!ext4_write(&plan, fd, &testing.err) && testing.err.code == ERR_TOO_LARGE);
    plan.size_bytes = 0;
    CHECK(setxattr(layers[0], "user.one", value, 2000, 0) == 0);
    CHECK(setxattr(layers[0], "user.two", value, 1900, 0) == 0);
    CHECK(ftruncate(fd, 0) == 0 && ext4_write(&plan, fd, &testing.err));
    for (size_t i = 0; i < 300; i++) {
        size_t len = strlen(deep);
        (void)snprintf(deep + len, sizeof deep - len, "/d");
        CHECK(testing_folder(testing_path(&testing, "%s", deep)));
    }
    CHECK(!ext4_write(&plan, fd, &testing.err) && testing.err.code == ERR_TOO_LARGE);
    CHECK(!ext4_make_empty(fd, 1 << 20, &testing.err) && testing.err.code == ERR_INVALID);
    CHECK(!ext4_make_empty(fd, INT64_MAX, &testing.err) && testing.err.code == ERR_INVALID);
}

/* `size` of the disk is too small for the tree: the first for its content, the second, where all
 * files are empty, for what describes them. */
static bool is_told_full(struct testing *testing, const char *tree, const char *size)
{
    const char *layers[] = {tree};
    const struct ext4_plan plan = {.layers = layers, .n_layers = 1, .seed = STR("test")};
    char script[128];

    (void)snprintf(script, sizeof script, "mkdir -p full && mount -t tmpfs -o size=%s full full",
                   size);
    if (!testing_sh(testing, script))
        return false;
    AUTO_FD int fd = open(testing_path(testing, "full/x"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool is_told = !ext4_write(&plan, fd, &testing->err) && testing->err.sys == ENOSPC;
    (void)umount2(testing_path(testing, "full"), MNT_DETACH);
    return is_told;
}

TEST(a_full_disk_is_told)
{
    TESTING(testing);
    const char *why = why_no_mount();
    AUTO_FREE char *large = alloc_text(testing_path(&testing, "large"));
    AUTO_FREE char *many = alloc_text(testing_path(&testing, "many"));

    if (why)
        SKIP(why);
    CHECK(testing_sh(&testing, "mkdir large many && head -c 8000000 /dev/urandom >large/x && "
                               "cd many && seq 2000 | xargs touch"));
    CHECK(is_told_full(&testing, large, "2m"));
    CHECK(is_told_full(&testing, many, "256k"));
}

/* As another user: neither the file nor anything else is root's. */
static int write_as_nobody(const char *tree, int fd)
{
    AUTO_FD int folder = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct error err;

    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 2;
    return folder >= 0 && ext4_write_tree(folder, fd, 0, STR("bundle"), &err) ? 0 : 1;
}

TEST(a_project_has_neither_owner_nor_time_and_needs_no_root)
{
    TESTING(testing);
    AUTO_FD int fd = open(testing_path(&testing, "b.ext4"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int status = -1;

    CHECK(testing_sh(&testing, "chmod 711 . && mkdir -p t/task && echo 1 >t/task/a && "
                               "ln t/task/a t/task/b && chmod 640 t/task/a && chmod o+r t/task/a &&"
                               "ln -s a t/task/l && mkfifo t/p && cp -r t u && chmod 701 u"));
    pid_t child = fork();
    if (child == 0)
        _exit(write_as_nobody(testing_path(&testing, "t"), fd));
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(testing_sh(&testing, "e2fsck -fn b.ext4 >&2"));
    CHECK(testing_sh(&testing,
                     "debugfs -R 'stat /task/b' b.ext4 >out 2>/dev/null && grep -q 'User:     0' "
                     "out && grep -q 'Links: 1' out && grep -q 'Mode:  0644' out && "
                     "grep -q 'mtime: 0x00000000' out"));
    CHECK(testing_sh(&testing, "test \"$(debugfs -R 'cat /task/b' b.ext4 2>/dev/null)\" = 1 && "
                               "debugfs -R 'stat /p' b.ext4 2>&1 | grep -q 'not found'"));
}

TEST(an_empty_drive_is_small_equal_and_can_be_written)
{
    TESTING(testing);
    const char *why = why_no_mount();
    struct stat facts;

    for (int i = 0; i < 2; i++) {
        AUTO_FD int fd = open(testing_path(&testing, "%d", i), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        CHECK(ext4_make_empty(fd, 256 << 20, &testing.err));
        CHECK(fstat(fd, &facts) == 0 && facts.st_size == 256 << 20);
        CHECK(facts.st_blocks * 512 < 128 << 10);
    }
    CHECK(testing_sh(&testing, "e2fsck -fn 0 >&2 && cmp 0 1"));
    if (why)
        SKIP(why);
    CHECK(testing_sh(&testing, "mkdir drive && mount -o loop 0 drive && mkdir drive/d && "
                               "for i in $(seq 300); do echo $i >drive/d/$i-" N50 "; done && "
                               "umount drive && e2fsck -fn 0 >&2"));
}

TEST_MAIN()
