#include "blob/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/time.h"

enum { COPY_STEP = 64 * 1024, SHARD_LEN = 2, STALE_MS = 24 * 60 * 60 * 1000 };

struct blob_store {
    int blobs_fd, temporary_fd;
};

/* Made when it is missing; -1 with err filled when it cannot be opened. */
static int open_directory(int at, const char *name, struct error *err)
{
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST) {
        error_errno(err, "make the directory %s", name);
        return -1;
    }
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        error_errno(err, "open the directory %s", name);
    return fd;
}

static void close_directory(DIR **directory)
{
    if (*directory)
        closedir(*directory);
}

/* A writer that died leaves its temporary file; one that lives is younger than a day. */
static void clear_stale(int temporary_fd)
{
    AUTO_FD int fd = openat(temporary_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO(close_directory) DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (!directory)
        return;
    take_fd(&fd);

    int64_t limit_s = (time_now_ms() - STALE_MS) / 1000;
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        struct stat status;
        if (fstatat(temporary_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode) && status.st_mtime < limit_s)
            (void)unlinkat(temporary_fd, entry->d_name, 0);
    }
}

bool blob_store_open(const char *directory, struct blob_store **store, struct error *err)
{
    AUTO_FD int root = open_directory(AT_FDCWD, directory, err);
    if (root < 0)
        return error_wrap(err, "opening the store");
    AUTO_FD int blobs = open_directory(root, "blobs", err);
    if (blobs < 0)
        return error_wrap(err, "opening the store %s", directory);
    AUTO_FD int temporary = open_directory(root, "tmp", err);
    if (temporary < 0)
        return error_wrap(err, "opening the store %s", directory);

    struct blob_store *opened = alloc(sizeof *opened);
    *opened = (struct blob_store){take_fd(&blobs), take_fd(&temporary)};
    blob_clear_stale(opened);
    *store = opened;
    return true;
}

void blob_clear_stale(const struct blob_store *store)
{
    clear_stale(store->temporary_fd);
}

void blob_store_close(struct blob_store *store)
{
    if (!store)
        return;
    close(store->blobs_fd);
    close(store->temporary_fd);
    free(store);
}

bool blob_store_check(const struct blob_store *store, struct error *err)
{
    char name[ID_TEXT];
    id_make(name);
    AUTO_FD int fd =
        openat(store->temporary_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "write to the store");
    if (unlinkat(store->temporary_fd, name, 0) != 0)
        return error_errno(err, "remove from the store");
    return true;
}

bool blob_id_is_valid(struct str id)
{
    return sha256_hex_is_valid(id);
}

/* Hashes the bytes; `to` gets a copy of them unless it is -1. */
static bool copy_and_hash(int from, uint64_t offset, uint64_t len, int to, char id[BLOB_ID],
                          struct error *err)
{
    AUTO(sha256_finish) struct sha256 hash;
    char step[COPY_STEP];

    sha256_init(&hash);
    while (len > 0) {
        size_t want = len < COPY_STEP ? (size_t)len : COPY_STEP;
        ssize_t got = pread(from, step, want, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "read the bytes of a blob");
        if (got == 0)
            return error_set(err, ERR_INVALID, "the bytes of the blob end early");
        struct str bytes = {step, (size_t)got};
        sha256_update(&hash, bytes);
        if (to >= 0 && !fd_write_all(to, bytes, err))
            return error_wrap(err, "writing a blob");
        offset += (uint64_t)got;
        len -= (uint64_t)got;
    }
    sha256_take(&hash, id);
    return true;
}

static void shard_of(const char *id, char shard[SHARD_LEN + 1])
{
    memcpy(shard, id, SHARD_LEN);
    shard[SHARD_LEN] = '\0';
}

static void path_of(const char *id, char path[SHARD_LEN + 1 + BLOB_ID])
{
    snprintf(path, SHARD_LEN + 1 + BLOB_ID, "%.2s/%.64s", id, id);
}

static bool publish(struct blob_store *store, const char *name, const char *id, struct error *err)
{
    char shard[SHARD_LEN + 1];
    shard_of(id, shard);
    bool is_new = mkdirat(store->blobs_fd, shard, 0700) == 0;
    if (is_new && fsync(store->blobs_fd) != 0)
        return error_errno(err, "sync the store");

    AUTO_FD int directory = open_directory(store->blobs_fd, shard, err);
    if (directory < 0)
        return false;
    if (renameat(store->temporary_fd, name, directory, id) != 0)
        return error_errno(err, "publish the blob %s", id);
    return fsync(directory) == 0 || error_errno(err, "sync the store");
}

/* Somebody can do something about a full disk: it is told as that. */
bool blob_explain(struct error *err)
{
    if (err->sys == ENOSPC || err->sys == EDQUOT)
        return error_set(err, ERR_UNAVAILABLE, "the store's disk is full: free some space");
    return false;
}

bool blob_nameless(const struct blob_store *store, int *fd, struct error *err)
{
    int made = openat(store->temporary_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    /* Some file systems have none; a file that lost its name is copied later instead. */
    if (made < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        char name[ID_TEXT];
        id_make(name);
        made = openat(store->temporary_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (made >= 0)
            (void)unlinkat(store->temporary_fd, name, 0);
    }
    if (made < 0) {
        error_errno(err, "make a blob");
        return blob_explain(err);
    }
    *fd = made;
    return true;
}

/* A whole file that has no name yet, on this disk, becomes the draft itself: it is given one
 * instead of being copied. */
static bool adopt(struct blob_store *store, int from, uint64_t offset, uint64_t len,
                  const char *name)
{
    struct stat facts;
    char path[32];

    if (offset != 0 || fstat(from, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_nlink != 0 ||
        (uint64_t)facts.st_size != len)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", from);
    return linkat(AT_FDCWD, path, store->temporary_fd, name, AT_SYMLINK_FOLLOW) == 0;
}

static bool fill_draft(int to, int from, uint64_t offset, uint64_t len, const char *expected,
                       struct blob_draft *draft, struct error *err)
{
    if (!copy_and_hash(from, offset, len, to, draft->id, err))
        return false;
    if (expected && strcmp(expected, draft->id) != 0)
        return error_set(err, ERR_CONTENT_HASH, "the bytes hash to sha256:%s", draft->id);
    return fsync(to >= 0 ? to : from) == 0 || error_errno(err, "sync a blob");
}

bool blob_stage_fd(struct blob_store *store, int fd, uint64_t offset, uint64_t len,
                   const char *expected, struct blob_draft *draft, struct error *err)
{
    struct blob_draft made;
    AUTO_FD int to = -1;

    id_make(made.name);
    if (!adopt(store, fd, offset, len, made.name)) {
        to = openat(store->temporary_fd, made.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (to < 0) {
            error_errno(err, "make a blob");
            return blob_explain(err);
        }
    }
    if (!fill_draft(to, fd, offset, len, expected, &made, err)) {
        (void)unlinkat(store->temporary_fd, made.name, 0);
        return blob_explain(err);
    }
    *draft = made;
    return true;
}

bool blob_draft_begin(struct blob_store *store, struct blob_draft *draft, int *fd,
                      struct error *err)
{
    struct blob_draft made = {0};

    id_make(made.name);
    int opened =
        openat(store->temporary_fd, made.name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (opened < 0) {
        error_errno(err, "make a blob");
        return blob_explain(err);
    }
    *draft = made;
    *fd = opened;
    return true;
}

bool blob_draft_end(struct blob_draft *draft, int fd, const char *id, struct error *err)
{
    if (fsync(fd) != 0) {
        error_errno(err, "sync a blob");
        return blob_explain(err);
    }
    snprintf(draft->id, sizeof draft->id, "%s", id);
    return true;
}

bool blob_publish(struct blob_store *store, struct blob_draft *draft, struct error *err)
{
    if (!publish(store, draft->name, draft->id, err))
        return blob_explain(err);
    draft->name[0] = '\0';
    return true;
}

void blob_discard(struct blob_store *store, struct blob_draft *draft)
{
    if (draft->name[0])
        (void)unlinkat(store->temporary_fd, draft->name, 0);
    draft->name[0] = '\0';
}

bool blob_put_fd(struct blob_store *store, int fd, uint64_t offset, uint64_t len,
                 const char *expected, char id[BLOB_ID], struct error *err)
{
    struct blob_draft draft;

    if (!blob_stage_fd(store, fd, offset, len, expected, &draft, err))
        return false;
    bool fine = blob_publish(store, &draft, err);
    blob_discard(store, &draft);
    if (fine)
        memcpy(id, draft.id, BLOB_ID);
    return fine;
}

bool blob_open(const struct blob_store *store, const char *id, int *fd, uint64_t *size,
               struct error *err)
{
    if (!blob_id_is_valid(str_of(id)))
        return error_set(err, ERR_NOT_FOUND, "no such blob");

    char path[SHARD_LEN + 1 + BLOB_ID];
    path_of(id, path);
    AUTO_FD int opened = openat(store->blobs_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (opened < 0 && errno == ENOENT)
        return error_set(err, ERR_NOT_FOUND, "no such blob");
    if (opened < 0)
        return error_errno(err, "open the blob %s", id);

    struct stat status;
    if (fstat(opened, &status) != 0)
        return error_errno(err, "look at the blob %s", id);
    *size = (uint64_t)status.st_size;
    *fd = take_fd(&opened);
    return true;
}

bool blob_has(const struct blob_store *store, const char *id)
{
    if (!blob_id_is_valid(str_of(id)))
        return false;
    char path[SHARD_LEN + 1 + BLOB_ID];
    path_of(id, path);
    return faccessat(store->blobs_fd, path, R_OK, 0) == 0;
}

bool blob_delete(struct blob_store *store, const char *id, struct error *err)
{
    if (!blob_id_is_valid(str_of(id)))
        return true;
    char path[SHARD_LEN + 1 + BLOB_ID];
    path_of(id, path);
    if (unlinkat(store->blobs_fd, path, 0) != 0 && errno != ENOENT)
        return error_errno(err, "delete the blob %s", id);
    return true;
}

/* Whether it is a blob's file and old enough. */
static bool is_listed(int shard_fd, const char *name, int64_t before_ms)
{
    struct stat status;

    return blob_id_is_valid(str_of(name)) &&
           fstatat(shard_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
           (int64_t)status.st_mtime * 1000 < before_ms;
}

bool blob_list(const struct blob_store *store, uint8_t shard, int64_t before_ms,
               char (**ids)[BLOB_ID], size_t *n, struct error *err)
{
    AUTO_FREE char(*list)[BLOB_ID] = NULL;
    size_t count = 0, room = 0;
    char name[SHARD_LEN + 1];
    struct dirent *entry;

    *ids = NULL;
    *n = 0;
    snprintf(name, sizeof name, "%02x", shard);
    AUTO_FD int fd = openat(store->blobs_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || error_errno(err, "open the directory %s", name);
    AUTO(close_directory) DIR *directory = fdopendir(fd);
    if (!directory)
        return error_errno(err, "read the directory %s", name);
    int shard_fd = take_fd(&fd);
    while ((entry = readdir(directory))) {
        if (!is_listed(shard_fd, entry->d_name, before_ms))
            continue;
        if (count == room) {
            room = room ? 2 * room : 64;
            list = alloc_more(list, room * sizeof *list);
        }
        memcpy(list[count++], entry->d_name, BLOB_ID);
    }
    *ids = TAKE(list);
    *n = count;
    return true;
}
