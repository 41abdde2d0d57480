#include "blob/blob.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

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

TEST_MAIN()
