#include "blob/sealed_blob.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/test.h"
#include "blob/testing.h"

enum { LEN = 2500 * 1000 };

static uint8_t bytes[LEN];
static char id[BLOB_ID];
static struct seal_keys keys;

static struct blob_store *fresh_store(void)
{
    keys = test_keys(0, 1);
    test_noise(1, bytes, LEN);
    sha256_of((struct str){(const char *)bytes, LEN}, id);
    return test_store_make();
}

static int file_of(const void *from, size_t len)
{
    int fd = memfd_create("blob", MFD_CLOEXEC);

    if (fd < 0 || write(fd, from, len) != (ssize_t)len)
        abort();
    return fd;
}

static bool put(struct blob_store *store, struct seal_facts *facts, struct error *err)
{
    AUTO_FD int fd = file_of(bytes, LEN);
    struct blob_draft draft;

    if (!blob_stage_sealed(store, &keys, fd, 0, LEN, id, &draft, facts, err))
        return false;
    return blob_publish(store, &draft, err);
}

static bool checks(struct blob_store *store, const struct seal_keys *with, struct error *err)
{
    AUTO(blob_reader_finish) struct blob_reader reader = {.fd = -1};
    uint64_t size;
    int fd;

    return blob_open(store, id, &fd, &size, err) &&
           blob_reader_open(&reader, with, fd, BLOB_SEALED, err) &&
           blob_reader_check(&reader, id, LEN, err);
}

static size_t count_entries(const char *name)
{
    char path[128];
    size_t n = 0;

    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    DIR *opened = opendir(path);
    while (opened && readdir(opened))
        n++;
    if (opened)
        closedir(opened);
    return n - 2;
}

TEST(what_was_sealed_comes_back_by_its_plain_name)
{
    struct blob_store *store = fresh_store();
    struct seal_facts facts;
    struct error err;

    CHECK(store && put(store, &facts, &err) && blob_has(store, id));
    CHECK(facts.class == SEAL_BLOB && facts.domain == SEAL_STORE && !*facts.digest);
    CHECK(checks(store, &keys, &err));
    struct seal_keys other = test_keys(1, 1);
    CHECK(!checks(store, &other, &err) && err.code == ERR_KEY_MISSING);
    test_store_drop(store);
}

TEST(bytes_of_another_hash_are_not_taken)
{
    struct blob_store *store = fresh_store();
    struct blob_draft draft;
    struct seal_facts facts;
    struct error err;

    CHECK(store);
    AUTO_FD int fd = file_of(bytes, LEN);
    CHECK(!blob_stage_sealed(store, &keys, fd, 1, LEN - 1, id, &draft, &facts, &err));
    CHECK(err.code == ERR_CONTENT_HASH && count_entries("tmp") == 0);
    CHECK(!blob_stage_sealed(store, &keys, fd, 1, LEN, id, &draft, &facts, &err));
    CHECK(err.code == ERR_INVALID && count_entries("tmp") == 0 && count_entries("blobs") == 0);
    test_store_drop(store);
}

/* Prose behind the first bytes of a gzip file: what looks compressed is left as it is. */
TEST(what_is_compressed_already_is_not_compressed_again)
{
    struct blob_store *store = fresh_store();
    struct seal_facts packed, prose;
    struct error err;

    CHECK(store);
    test_prose(1, bytes, LEN);
    sha256_of((struct str){(const char *)bytes, LEN}, id);
    CHECK(put(store, &prose, &err) && prose.size < LEN * 2 / 3 && checks(store, &keys, &err));
    bytes[0] = 0x1f;
    bytes[1] = 0x8b;
    sha256_of((struct str){(const char *)bytes, LEN}, id);
    CHECK(put(store, &packed, &err) && packed.size > LEN && checks(store, &keys, &err));
    test_store_drop(store);
}

TEST(every_flipped_byte_is_found)
{
    struct blob_store *store = fresh_store();
    struct seal_facts facts;
    struct error err;
    uint64_t size;

    CHECK(store && put(store, &facts, &err));
    char path[256];
    snprintf(path, sizeof path, "%s/blobs/%.2s/%s", test_folder, id, id);
    AUTO_FD int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    for (uint64_t at = 0; at < facts.size; at += 99991) {
        uint8_t byte;
        CHECK(pread(fd, &byte, 1, (off_t)at) == 1);
        byte ^= 0x10;
        CHECK(pwrite(fd, &byte, 1, (off_t)at) == 1);
        CHECK(!checks(store, &keys, &err));
        CHECK(err.code == ERR_DAMAGED || (err.code == ERR_KEY_MISSING && at < SEAL_HEADER_LEN));
        byte ^= 0x10;
        CHECK(pwrite(fd, &byte, 1, (off_t)at) == 1);
    }
    CHECK(checks(store, &keys, &err));
    CHECK(ftruncate(fd, (off_t)facts.size - 1) == 0 && !checks(store, &keys, &err));
    CHECK(err.code == ERR_DAMAGED);
    int again;
    CHECK(blob_open(store, id, &again, &size, &err) && size == facts.size - 1);
    close(again);
    test_store_drop(store);
}

/* The header decides about a file whose row calls it plain, but only with a key of ours. */
TEST(a_plain_file_and_a_sealed_one_are_told_apart)
{
    struct blob_store *store = fresh_store();
    struct seal_facts facts;
    struct error err;
    struct str piece;
    bool is_last;

    CHECK(store && put(store, &facts, &err));
    struct seal_keys other = test_keys(1, 1);
    for (int i = 0; i < 2; i++) {
        AUTO(blob_reader_finish) struct blob_reader reader = {.fd = -1};
        uint64_t size;
        int fd;
        CHECK(blob_open(store, id, &fd, &size, &err));
        CHECK(blob_reader_open(&reader, i ? &other : &keys, fd, BLOB_EITHER, &err));
        CHECK(reader.is_sealed == (i == 0) && blob_reader_next(&reader, &piece, &is_last, &err));
        CHECK((memcmp(piece.ptr, bytes, 64) == 0) == (i == 0) && !is_last);
    }
    AUTO(blob_reader_finish) struct blob_reader plain = {.fd = -1};
    CHECK(blob_reader_open(&plain, &keys, file_of(bytes, LEN), BLOB_EITHER, &err));
    CHECK(!plain.is_sealed && blob_reader_check(&plain, id, LEN, &err));
    test_store_drop(store);
}

TEST(a_full_disk_publishes_nothing)
{
    struct blob_store *store = fresh_store();
    struct seal_facts facts;
    struct error err;
    char size[32];
    bool fine = false;

    blob_store_close(store);
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", test_folder, "tmpfs", 0, "size=100k") != 0) {
        CHECK(folder_remove(test_folder, &err));
        SKIP("only root can mount a small disk");
    }
    CHECK((store = test_store_open()));
    for (int kib = 100; !fine && kib < 4000; kib += 300) {
        snprintf(size, sizeof size, "size=%dk", kib);
        CHECK(mount("none", test_folder, "tmpfs", MS_REMOUNT, size) == 0);
        fine = put(store, &facts, &err);
        CHECK(fine || (err.code == ERR_UNAVAILABLE && strstr(err.text, "full")));
        CHECK(fine || (!blob_has(store, id) && count_entries("tmp") == 0));
    }
    CHECK(fine && checks(store, &keys, &err));
    blob_store_close(store);
    CHECK(umount(test_folder) == 0 && folder_remove(test_folder, &err));
}

/* Says how far it is by a byte, then waits to be killed. */
static void seal_until(struct blob_store *store, int stage, int to)
{
    struct blob_sealer sealer;
    struct blob_draft draft;
    struct seal_facts facts;
    struct error err;

    bool fine = blob_sealer_begin(&sealer, store, &keys, &err);
    for (size_t at = 0; stage > 0 && fine && at < LEN; at += LEN / 5)
        fine = blob_sealer_add(&sealer, (struct str){(const char *)bytes + at, LEN / 5}, &err);
    if (stage > 1)
        fine = fine && blob_sealer_end(&sealer, id, &draft, &facts, &err);
    if (!fine || write(to, "x", 1) != 1)
        _exit(1);
    pause();
    _exit(1);
}

TEST(a_writer_that_is_killed_leaves_nothing_to_be_seen)
{
    struct blob_store *store = fresh_store();
    struct seal_facts facts;
    struct error err;
    char byte;

    CHECK(store);
    for (int stage = 0; stage < 3; stage++) {
        int ends[2], status;
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        pid_t child = fork();
        if (child == 0)
            seal_until(store, stage, ends[1]);
        close(ends[1]);
        bool is_far = child > 0 && read(ends[0], &byte, 1) == 1;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && is_far);
        close(ends[0]);
        CHECK(!blob_has(store, id) && count_entries("blobs") == 0);
        CHECK(count_entries("tmp") == (size_t)stage + 1);
    }
    CHECK(put(store, &facts, &err) && checks(store, &keys, &err));
    test_store_drop(store);
}

static bool has_id(char (*list)[BLOB_ID], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], id) == 0)
            return true;
    return false;
}

TEST(blobs_are_listed_by_shard_and_age)
{
    struct blob_store *store = fresh_store();
    AUTO_FREE char(*none)[BLOB_ID] = NULL, (*list)[BLOB_ID] = NULL, (*young)[BLOB_ID] = NULL;
    struct seal_facts facts;
    struct error err;
    char first[3] = {0};
    size_t n;

    CHECK(store && put(store, &facts, &err));
    memcpy(first, id, 2);
    uint8_t shard = (uint8_t)strtoul(first, NULL, 16);
    CHECK(blob_list(store, shard, INT64_MAX, &list, &n, &err) && n == 1 && has_id(list, n));
    CHECK(blob_list(store, shard, 0, &young, &n, &err) && n == 0);
    CHECK(blob_list(store, (uint8_t)(shard + 1), INT64_MAX, &none, &n, &err) && n == 0);
    test_store_drop(store);
}

TEST_MAIN()
