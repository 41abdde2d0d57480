#include "image/registry_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/own.h"
#include "base/sha256.h"
#include "image/store.h"

enum {
    READ_SIZE = 1 << 20,
    FLUSH_EVERY = 8 << 20,   /* so that little is left for the last fsync */
    WORTH_KEEPING = 1 << 20, /* a shorter beginning is not worth a file */
};

struct download {
    struct batch *batch;
    const struct batch_blob *blob;
    struct registry_reply *reply;
    char name[80]; /* of the partial file */
    int fd;
    struct sha256 hash;
    int64_t done, flushed;
    bool is_answered, failed;
    struct error err;
};

static void download_finish(struct download *download)
{
    if (download->fd >= 0)
        close(download->fd);
    sha256_finish(&download->hash);
    if (download->reply)
        buf_finish(&download->reply->body);
    free(download->reply);
}

static void forget(const struct download *download)
{
    (void)unlinkat(download->batch->store->temporary_fd, download->name, 0);
}

/* Whether the locked file is still the one of that name: its last user may have published it. */
static bool is_current(int folder, const char *name, int fd)
{
    struct stat ours, theirs;

    return fstat(fd, &ours) == 0 && fstatat(folder, name, &theirs, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

/* Two pulls of one blob take turns: the second finds it published. *fd is -1 then. */
static bool open_partial(struct download *download, struct error *err)
{
    struct image_store *store = download->batch->store;

    while (!download->batch->stop) {
        AUTO_FD int fd = openat(store->temporary_fd, download->name,
                                O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
            return error_errno(err, "create %s/%s", store->temporary, download->name);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR)
                return error_errno(err, "lock %s/%s", store->temporary, download->name);
            (void)usleep(50000);
            continue;
        }
        if (!is_current(store->temporary_fd, download->name, fd))
            continue;
        if (store_has_blob(store, download->blob->digest))
            forget(download);
        else
            download->fd = take_fd(&fd);
        return true;
    }
    return error_set(err, ERR_CANCELLED, "stopped before %s", download->blob->digest);
}

static bool start_over(struct download *download, struct error *err)
{
    char ignored[SHA256_HEX];

    if (ftruncate(download->fd, 0) != 0 || lseek(download->fd, 0, SEEK_SET) != 0)
        return error_errno(err, "empty the partial file of %s", download->blob->digest);
    sha256_take(&download->hash, ignored);
    batch_progress(download->batch, -download->done);
    download->done = download->flushed = 0;
    return true;
}

/* What an earlier try left is hashed like anything else. */
static bool read_beginning(struct download *download, struct error *err)
{
    AUTO_FREE char *bytes = alloc(READ_SIZE);

    for (;;) {
        ssize_t got = read(download->fd, bytes, READ_SIZE);
        if (got < 0)
            return error_errno(err, "read the partial file of %s", download->blob->digest);
        if (got == 0)
            break;
        sha256_update(&download->hash, (struct str){bytes, (size_t)got});
        download->done += got;
        batch_progress(download->batch, got);
    }
    return download->done <= download->blob->size || start_over(download, err);
}

static bool refuse(struct download *download, enum error_code code, const char *why)
{
    download->failed = true;
    return error_set(&download->err, code, "%s gave %s %s", download->batch->endpoint->name,
                     download->blob->digest, why);
}

/* The first bytes of an answer: they continue ours, or the registry knows no ranges. */
static bool begin_answer(struct download *download)
{
    download->is_answered = true;
    if (download->reply->is_partial && download->reply->range_start != download->done)
        return refuse(download, ERR_INTERNAL, "from another place than it was asked for");
    if (!download->reply->is_partial && download->done > 0 &&
        !start_over(download, &download->err)) {
        download->failed = true;
        return false;
    }
    return true;
}

static void flush_some(struct download *download)
{
    if (download->done - download->flushed < FLUSH_EVERY)
        return;
    /* A hint only: the fsync at the end is what counts. */
    (void)sync_file_range(download->fd, download->flushed, download->done - download->flushed,
                          SYNC_FILE_RANGE_WRITE);
    download->flushed = download->done;
}

static bool take_bytes(void *arg, struct str bytes)
{
    struct download *download = arg;

    if (!download->is_answered && !begin_answer(download))
        return false;
    if ((int64_t)bytes.len > download->blob->size - download->done)
        return refuse(download, ERR_CONTENT_HASH, "with more bytes than its manifest says");
    if (!fd_write_all(download->fd, bytes, &download->err)) {
        download->failed = true;
        return error_wrap(&download->err, "writing %s", download->blob->digest);
    }
    sha256_update(&download->hash, bytes);
    download->done += (int64_t)bytes.len;
    flush_some(download);
    batch_progress(download->batch, (int64_t)bytes.len);
    return true;
}

/* One request for what is missing. True: whatever came, came in order. */
static bool ask(struct download *download, struct registry_line *line, struct error *err)
{
    char path[160], range[64];

    (void)snprintf(path, sizeof path, "blobs/%s", download->blob->digest);
    (void)snprintf(range, sizeof range, "Range: bytes=%" PRId64 "-", download->done);
    download->is_answered = false;
    struct registry_ask request = {
        .path = path,
        .header = download->done > 0 ? range : NULL,
        .http = {.method = "GET", .sink = take_bytes, .sink_arg = download, .is_bulk = true},
    };
    bool ok = registry_line_send(line, &request, download->reply, err);
    if (!download->failed)
        return ok;
    *err = download->err;
    return false;
}

enum verdict { VERDICT_WHOLE, VERDICT_AGAIN, VERDICT_FAILED };

static enum verdict judge(struct download *download, struct registry_line *line, bool ok,
                          struct error *err)
{
    int status = download->reply->status;

    if (!ok)
        return !download->failed && registry_may_retry(0, err) ? VERDICT_AGAIN : VERDICT_FAILED;
    if (status == 416 && download->done > 0)
        return start_over(download, err) ? VERDICT_AGAIN : VERDICT_FAILED;
    if (status != 200 && status != 206) {
        (void)registry_line_refused(line, download->blob->digest, download->reply, err);
        return registry_may_retry(status, err) ? VERDICT_AGAIN : VERDICT_FAILED;
    }
    if (download->done == download->blob->size)
        return VERDICT_WHOLE;
    (void)error_set(err, ERR_CONTENT_HASH,
                    "%s gave %" PRId64 " bytes for %s, its manifest says %" PRId64,
                    line->endpoint->name, download->done, download->blob->digest,
                    download->blob->size);
    return VERDICT_AGAIN;
}

static bool fetch(struct download *download, struct registry_line *line, struct error *err)
{
    struct error why;

    for (int tries = 1;; tries++) {
        int64_t before = download->done;
        if (before == download->blob->size && before > 0)
            return true;
        enum verdict verdict = judge(download, line, ask(download, line, &why), &why);
        if (verdict == VERDICT_WHOLE)
            return true;
        /* A large blob over a poor connection may take more tries, as long as each brings some. */
        if (download->done - before >= WORTH_KEEPING)
            tries = 1;
        if (verdict == VERDICT_FAILED || tries == LINE_TRIES)
            break;
        if (!registry_line_rest(line, tries, download->reply->retry_after_ms, &why))
            break;
    }
    *err = why;
    if (err->code == ERR_TIMEOUT)
        err->code = ERR_UNAVAILABLE;
    return false;
}

static bool publish(struct download *download, struct error *err)
{
    struct image_store *store = download->batch->store;
    char digest[DIGEST_TEXT];

    digest_take(&download->hash, digest);
    if (strcmp(digest, download->blob->digest) != 0) {
        forget(download);
        return error_set(err, ERR_CONTENT_HASH, "%s gave other bytes for %s: they hash to %s",
                         download->batch->endpoint->name, download->blob->digest, digest);
    }
    if (!disk_sync(download->fd, "a blob", err))
        return false;
    /* The folder is synced with the manifest, which is published after all of its blobs. */
    return renameat(store->temporary_fd, download->name, store->blobs_fd, digest_hex(digest)) ==
               0 ||
           error_errno(err, "publish the blob %s", digest);
}

static bool check_size(struct batch *batch, const struct batch_blob *blob, struct error *err)
{
    AUTO_FD int fd = -1;
    struct stat facts;

    if (!store_open_blob(batch->store, blob->digest, &fd, err))
        return false;
    if (fstat(fd, &facts) != 0)
        return error_errno(err, "look at the blob %s", blob->digest);
    if (facts.st_size != blob->size)
        return error_set(err, ERR_CONTENT_HASH,
                         "%s has %" PRId64 " bytes, its manifest says "
                         "%" PRId64,
                         blob->digest, (int64_t)facts.st_size, blob->size);
    batch_progress(batch, blob->size);
    return true;
}

bool registry_blob_get(struct batch *batch, struct registry_line *line,
                       const struct batch_blob *blob, struct error *err)
{
    AUTO(download_finish) struct download download = {.batch = batch, .blob = blob, .fd = -1};

    if (store_has_blob(batch->store, blob->digest))
        return check_size(batch, blob, err);
    sha256_init(&download.hash);
    download.reply = alloc(sizeof *download.reply);
    *download.reply = (struct registry_reply){.body.max = MIB(1)};
    (void)snprintf(download.name, sizeof download.name, ".part-%s", digest_hex(blob->digest));
    if (!open_partial(&download, err))
        return false;
    if (download.fd < 0)
        return check_size(batch, blob, err);
    if (read_beginning(&download, err) && fetch(&download, line, err))
        return publish(&download, err);
    if (download.failed || download.done < WORTH_KEEPING)
        forget(&download);
    return false;
}
