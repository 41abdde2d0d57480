#include "base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/test.h"

static char folder[64];

__attribute__((constructor(200))) static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/file_test.XXXXXX");
    if (!mkdtemp(folder))
        abort();
}

__attribute__((destructor)) static void remove_folder(void)
{
    AUTO_FD int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct error err;

    (void)!tree_remove(tmp, folder + 5, &err);
}

static const char *in_folder(const char *name)
{
    static char paths[4][160];
    static int turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool exists(const char *path)
{
    struct stat found;

    return lstat(path, &found) == 0;
}

TEST(a_published_file_has_its_bytes_and_its_mode)
{
    AUTO_FREE char *text = NULL;
    struct error err;
    struct stat found;
    mode_t before = umask(077);
    bool fine = file_publish(in_folder("key"), STR("one"), 0644, &err);

    umask(before);
    CHECK(fine);
    CHECK(stat(in_folder("key"), &found) == 0 && (found.st_mode & 07777) == 0644);
    CHECK(file_publish(in_folder("key"), STR("two"), 0600, &err));
    CHECK(stat(in_folder("key"), &found) == 0 && (found.st_mode & 07777) == 0600);
    CHECK(file_read(in_folder("key"), 10, &text, &err));
    CHECK_STR(text, "two");
}

TEST(a_failed_publication_leaves_nothing_behind)
{
    struct error err;

    CHECK(directory_make(in_folder("full/x"), 0755, &err));
    CHECK(!file_publish(in_folder("full"), STR("no"), 0644, &err));

    AUTO_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(tree_remove(fd, "full", &err));
    CHECK(tree_remove(fd, "key", &err));
    CHECK(rmdir(folder) == 0 && mkdir(folder, 0700) == 0);
    CHECK(!file_publish(in_folder("none/x"), STR("no"), 0644, &err) && err.code == ERR_NOT_FOUND);
}

TEST(reading_stops_at_the_limit)
{
    AUTO_FREE char *text = NULL;
    struct error err;

    CHECK(file_publish(in_folder("ten"), STR("0123456789"), 0644, &err));
    CHECK(!file_read(in_folder("ten"), 9, &text, &err) && err.code == ERR_TOO_LARGE && !text);
    CHECK(file_read(in_folder("ten"), 10, &text, &err));
    CHECK_STR(text, "0123456789");
}

TEST(directories_are_made_with_their_parents)
{
    struct error err;

    CHECK(directory_make(in_folder("a/b/c"), 0755, &err));
    CHECK(directory_make(in_folder("a/b/c"), 0755, &err));
    CHECK(exists(in_folder("a/b/c")));
    CHECK(file_publish(in_folder("a/file"), STR(""), 0644, &err));
    CHECK(!directory_make(in_folder("a/file"), 0755, &err) && err.code == ERR_CONFLICT);
    CHECK(!directory_make(in_folder("a/file/deeper"), 0755, &err));
    CHECK(!directory_make("", 0755, &err) && err.code == ERR_INVALID);
}

TEST(a_removed_tree_does_not_take_what_its_links_point_to)
{
    struct error err;
    AUTO_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK(directory_make(in_folder("kept"), 0755, &err));
    CHECK(file_publish(in_folder("kept/file"), STR("x"), 0644, &err));
    CHECK(directory_make(in_folder("gone/deep/er"), 0755, &err));
    CHECK(file_publish(in_folder("gone/deep/er/file"), STR("x"), 0, &err));
    CHECK(symlink("../kept", in_folder("gone/link")) == 0);
    CHECK(symlink("..", in_folder("gone/deep/up")) == 0);

    CHECK(tree_remove(fd, "gone", &err));
    CHECK(!exists(in_folder("gone")) && exists(in_folder("kept/file")));
    CHECK(tree_remove(fd, "gone", &err));

    CHECK(symlink("kept", in_folder("link")) == 0);
    CHECK(tree_remove(fd, "link", &err));
    CHECK(!exists(in_folder("link")) && exists(in_folder("kept/file")));
}

TEST(only_a_name_of_the_directory_itself_is_removed)
{
    static const char *const names[] = {"", ".", "..", "kept/file", "/tmp"};
    struct error err;
    AUTO_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK(!tree_remove(fd, names[i], &err) && err.code == ERR_INVALID);
}

TEST(a_folder_is_removed_by_its_path)
{
    struct error err;

    CHECK(directory_make(in_folder("by/path"), 0755, &err));
    CHECK(folder_remove(in_folder("by/path"), &err));
    CHECK(!exists(in_folder("by/path")) && exists(in_folder("by")));
    CHECK(folder_remove(in_folder("none/at/all"), &err));
    CHECK(!folder_remove("/tmp", &err) && !folder_remove("name", &err));
    CHECK(!folder_remove(in_folder("by/"), &err) && !folder_remove(in_folder("by/.."), &err));
}

TEST(removal_stops_at_a_mount)
{
    struct error err;
    AUTO_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK(directory_make(in_folder("outer/mounted"), 0755, &err));
    CHECK(directory_make(in_folder("source"), 0755, &err));
    CHECK(file_publish(in_folder("source/file"), STR("x"), 0644, &err));
    if (mount(in_folder("source"), in_folder("outer/mounted"), NULL, MS_BIND, NULL) < 0)
        SKIP("mounting needs root");

    bool removed = tree_remove(fd, "outer", &err);

    umount2(in_folder("outer/mounted"), MNT_DETACH);
    CHECK(!removed && err.code == ERR_CONFLICT);
    CHECK(exists(in_folder("source/file")));
}

TEST(a_lock_is_held_by_one_and_free_after_close)
{
    int first, second;
    struct error err;

    CHECK(file_lock(in_folder("lock"), &first, &err));
    CHECK(!file_lock(in_folder("lock"), &second, &err) && err.code == ERR_CONFLICT);
    close(first);
    CHECK(file_lock(in_folder("lock"), &second, &err));
    close(second);
}

static void *read_slowly(void *arg)
{
    static char bytes[1 << 20];
    struct error err;

    return fd_read_full(*(int *)arg, bytes, sizeof bytes, &err) ? bytes : NULL;
}

TEST(all_of_it_goes_through_a_full_non_blocking_pipe)
{
    static char bytes[1 << 20];
    struct error err;
    int ends[2];
    pthread_t reader;
    void *got;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    CHECK(pthread_create(&reader, NULL, read_slowly, &ends[0]) == 0);
    CHECK(fd_write_all(ends[1], (struct str){bytes, sizeof bytes}, &err));
    pthread_join(reader, &got);
    CHECK(got && !memcmp(got, bytes, sizeof bytes));

    CHECK(fd_write_all(ends[1], STR("abc"), &err));
    close(ends[1]);
    char room[8];
    CHECK(!fd_read_full(ends[0], room, 8, &err) && err.code == ERR_INVALID);
    close(ends[0]);
}

TEST_MAIN()
