#include "blob/blob.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

enum { LARGE = 256 * 1024 };

static char directory[64];

static int remove_entry(const char *path, const struct stat *status UNUSED, int kind UNUSED,
                        struct FTW *at UNUSED)
{
    return remove(path);
}

static void remove_directory(void)
{
    (void)nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static struct blob_store *fresh_store(void)
{
    struct error err;
    struct blob_store *store = NULL;
    snprintf(directory, sizeof directory, "/tmp/helmr-blob-XXXXXX");
    if (!mkdtemp(directory) || !blob_store_open(directory, &store, &err))
        return NULL;
    return store;
}

static int file_with(const char *text)
{
    int fd = memfd_create("blob", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
        close(fd);
        return -1;
    }
    return fd;
}

static const char abc_id[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(a_blob_is_found_under_the_hash_of_its_bytes)
{
    struct error err;
    struct blob_store *store = fresh_store();
    CHECK(store);
    AUTO_FD int fd = file_with("xxabcyy");
    char id[BLOB_ID];
    CHECK(blob_put_fd(store, fd, 2, 3, NULL, id, &err));
    CHECK_STR(id, abc_id);
    CHECK(blob_has(store, id));

    AUTO_FD int back = -1;
    uint64_t size = 0;
    CHECK(blob_open(store, id, &back, &size, &err));
    char text[8] = {0};
    CHECK(size == 3 && read(back, text, sizeof text) == 3);
    CHECK_STR(text, "abc");

    CHECK(blob_put_fd(store, fd, 2, 3, abc_id, id, &err));
    CHECK(blob_delete(store, id, &err));
    CHECK(!blob_has(store, id));
    CHECK(blob_delete(store, id, &err));
    blob_store_close(store);
    remove_directory();
}

TEST(bytes_with_another_hash_leave_nothing_behind)
{
    struct error err;
    struct blob_store *store = fresh_store();
    CHECK(store);
    AUTO_FD int fd = file_with("abd");
    char id[BLOB_ID];
    CHECK(!blob_put_fd(store, fd, 0, 3, abc_id, id, &err));
    CHECK(err.code == ERR_CONTENT_HASH);
    CHECK(!blob_put_fd(store, fd, 0, 4, NULL, id, &err));
    CHECK(!blob_has(store, abc_id));

    char temporary[96];
    snprintf(temporary, sizeof temporary, "%s/tmp", directory);
    CHECK(rmdir(temporary) == 0);
    blob_store_close(store);
    remove_directory();
}

TEST(an_id_that_is_a_path_opens_nothing)
{
    struct error err;
    struct blob_store *store = fresh_store();
    CHECK(store);
    int fd = -1;
    uint64_t size;
    CHECK(!blob_open(store, "../../etc/passwd", &fd, &size, &err));
    CHECK(err.code == ERR_NOT_FOUND);
    CHECK(!blob_has(store, "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"));
    CHECK(blob_store_check(store, &err));
    blob_store_close(store);
    remove_directory();
}

static size_t count_entries(const char *folder)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, folder);
    DIR *opened = opendir(path);
    size_t n = 0;
    while (opened && readdir(opened))
        n++;
    if (opened)
        closedir(opened);
    return n - 2;
}

TEST(a_nameless_file_becomes_the_blob_itself)
{
    struct error err;
    struct blob_store *store = fresh_store();
    CHECK(store);
    AUTO_FD int wrong = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    AUTO_FD int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct blob_draft draft;
    struct stat before, after;
    CHECK(fd >= 0 && write(fd, "abc", 3) == 3 && wrong >= 0 && write(wrong, "abd", 3) == 3);
    CHECK(!blob_stage_fd(store, wrong, 0, 3, abc_id, &draft, &err));
    CHECK(err.code == ERR_CONTENT_HASH && count_entries("tmp") == 0);
    CHECK(blob_stage_fd(store, fd, 0, 3, abc_id, &draft, &err));
    CHECK(!blob_has(store, abc_id) && count_entries("tmp") == 1);
    CHECK(blob_publish(store, &draft, &err) && count_entries("tmp") == 0);
    blob_discard(store, &draft);

    AUTO_FD int back = -1;
    uint64_t size = 0;
    CHECK(blob_open(store, abc_id, &back, &size, &err) && size == 3);
    CHECK(fstat(fd, &before) == 0 && fstat(back, &after) == 0);
    CHECK(before.st_ino == after.st_ino);
    blob_store_close(store);
    remove_directory();
}

TEST(a_full_disk_is_told_as_that_and_leaves_nothing)
{
    struct error err;
    struct blob_store *store = NULL;
    snprintf(directory, sizeof directory, "/tmp/helmr-blob-XXXXXX");
    CHECK(mkdtemp(directory));
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", directory, "tmpfs", 0, "size=64k") != 0) {
        rmdir(directory);
        SKIP("only root can mount a small disk");
    }
    CHECK(blob_store_open(directory, &store, &err));
    AUTO_FD int fd = memfd_create("large", MFD_CLOEXEC);
    struct blob_draft draft;
    CHECK(fd >= 0 && ftruncate(fd, LARGE) == 0);
    CHECK(!blob_stage_fd(store, fd, 0, LARGE, NULL, &draft, &err));
    CHECK(err.code == ERR_UNAVAILABLE && strstr(err.text, "full"));
    CHECK(count_entries("tmp") == 0 && count_entries("blobs") == 0);
    blob_store_close(store);
    CHECK(umount(directory) == 0 && rmdir(directory) == 0);
}

TEST_MAIN()
