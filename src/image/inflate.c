#include "image/inflate.h"

#include <archive.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "image/tar.h"

/* A multiple of a tar's blocks, so that none lies across two pieces. */
enum { SLOTS = 8, SLOT = 512 * 1024, CHUNK = 256 * 1024, WORTH_A_THREAD = 1 << 20 };

struct slot {
    char *bytes;
    size_t len;
};

struct inflate {
    int fd;
    int64_t in, out, max_out;
    struct sha256 blob, diff;
    struct archive *filter; /* NULL for a plain tar */
    char *buffer;           /* the blob's bytes; `held` of them read ahead to see what it is */
    size_t held;

    struct slot slots[SLOTS];
    size_t n_filled, n_used; /* since the beginning */
    bool is_held;            /* the slot behind n_used is being read */
    bool is_done, failed, is_stopped;
    struct error err;

    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static bool fail(struct inflate *inflate, enum error_code code, const char *text)
{
    inflate->failed = true;
    return error_set(&inflate->err, code, "%s", text);
}

static ssize_t read_blob(struct inflate *inflate, char *into, size_t room)
{
    ssize_t n;

    do
        n = read(inflate->fd, into, room);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        inflate->failed = true;
        (void)error_errno(&inflate->err, "read the archive");
        return -1;
    }
    sha256_update(&inflate->blob, (struct str){into, (size_t)n});
    inflate->in += n;
    return n;
}

static la_ssize_t feed_filter(struct archive *archive, void *arg, const void **bytes)
{
    struct inflate *inflate = arg;
    ssize_t n = (ssize_t)inflate->held;

    (void)archive;
    inflate->held = 0;
    if (n == 0)
        n = read_blob(inflate, inflate->buffer, CHUNK);
    *bytes = inflate->buffer;
    return n;
}

static bool filter_fails(struct inflate *inflate)
{
    const char *why = archive_error_string(inflate->filter);

    if (inflate->failed)
        return false;
    inflate->failed = true;
    return error_set(&inflate->err, ERR_ARCHIVE_INVALID, "the archive cannot be inflated: %s",
                     why ? why : "it is damaged");
}

/* libarchive stops at the end of a gzip stream and says nothing of what lies behind it. */
static bool check_end(struct inflate *inflate)
{
    char more;

    return (archive_filter_bytes(inflate->filter, -1) == inflate->in &&
            read_blob(inflate, &more, 1) == 0) ||
           inflate->failed ||
           fail(inflate, ERR_ARCHIVE_INVALID, "the archive has bytes behind its end");
}

/* Bytes of the tar, up to a full slot; fewer only at the end. -1 on failure. */
static ssize_t read_filtered(struct inflate *inflate, char *into)
{
    la_ssize_t n = archive_read_data(inflate->filter, into, SLOT);

    if (n < 0)
        (void)filter_fails(inflate);
    else if (n < SLOT)
        (void)check_end(inflate);
    return inflate->failed ? -1 : n;
}

static ssize_t read_plain(struct inflate *inflate, char *into)
{
    size_t len = inflate->held;

    memcpy(into, inflate->buffer, len);
    inflate->held = 0;
    while (len < SLOT) {
        ssize_t n = read_blob(inflate, into + len, SLOT - len);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* Everything of a piece that needs no lock. */
static bool fill(struct inflate *inflate, struct slot *slot)
{
    if (!slot->bytes)
        slot->bytes = alloc(SLOT);
    ssize_t n =
        inflate->filter ? read_filtered(inflate, slot->bytes) : read_plain(inflate, slot->bytes);
    if (n < 0)
        return false;
    inflate->out += n;
    if (inflate->out > inflate->max_out)
        return fail(inflate, ERR_ARCHIVE_TOO_LARGE, "the archive unpacks to more than is allowed");
    if (!tar_ratio_is_sane(inflate->in, inflate->out))
        return fail(inflate, ERR_ARCHIVE_TOO_LARGE,
                    "the archive unpacks to over 200 times its size");
    slot->len = (size_t)n;
    sha256_update(&inflate->diff, (struct str){slot->bytes, slot->len});
    return true;
}

static bool wait_for_room(struct inflate *inflate)
{
    pthread_mutex_lock(&inflate->lock);
    while (!inflate->is_stopped && inflate->n_filled - inflate->n_used == SLOTS)
        pthread_cond_wait(&inflate->changed, &inflate->lock);
    bool may_go_on = !inflate->is_stopped;
    pthread_mutex_unlock(&inflate->lock);
    return may_go_on;
}

static void *work(void *arg)
{
    struct inflate *inflate = arg;

    while (!inflate->is_done && wait_for_room(inflate)) {
        struct slot *slot = &inflate->slots[inflate->n_filled % SLOTS];
        bool ok = fill(inflate, slot);
        pthread_mutex_lock(&inflate->lock);
        inflate->is_done = !ok || slot->len < SLOT;
        inflate->n_filled += ok;
        pthread_cond_signal(&inflate->changed);
        pthread_mutex_unlock(&inflate->lock);
    }
    return NULL;
}

/* Sets the decompressor up when the first bytes say that one is needed. */
static bool open_filter(struct inflate *inflate)
{
    const char *head = inflate->buffer;
    bool is_gzip = inflate->held > 2 && memcmp(head, "\x1f\x8b", 2) == 0;
    bool is_zstd = inflate->held > 4 && memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0;
    struct archive_entry *entry;

    if (!is_gzip && !is_zstd)
        return true;
    inflate->filter = archive_read_new();
    if (!inflate->filter)
        abort();
    int result = is_gzip ? archive_read_support_filter_gzip(inflate->filter)
                         : archive_read_support_filter_zstd(inflate->filter);
    if (result != ARCHIVE_OK || archive_read_support_format_raw(inflate->filter) != ARCHIVE_OK ||
        archive_read_support_format_empty(inflate->filter) != ARCHIVE_OK ||
        archive_read_open(inflate->filter, inflate, NULL, feed_filter, NULL) != ARCHIVE_OK)
        return filter_fails(inflate);
    result = archive_read_next_header(inflate->filter, &entry);
    return result == ARCHIVE_OK || result == ARCHIVE_EOF || filter_fails(inflate);
}

/* libarchive guesses the compression from a full first block, so read until there is one. */
static bool read_head(struct inflate *inflate)
{
    while (inflate->held < CHUNK) {
        ssize_t n = read_blob(inflate, inflate->buffer + inflate->held, CHUNK - inflate->held);
        if (n < 0)
            return false;
        if (n == 0)
            break;
        inflate->held += (size_t)n;
    }
    return true;
}

/* A thread that waits for a pipe could not be stopped, and small files are read before it runs. */
static bool is_worth_a_thread(int fd)
{
    struct stat facts;

    return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > WORTH_A_THREAD;
}

bool inflate_start(int fd, enum tar_coding coding, int64_t max_bytes, struct inflate **out,
                   struct error *err)
{
    struct inflate *inflate = alloc(sizeof *inflate);

    *inflate = (struct inflate){.fd = fd, .max_out = max_bytes, .buffer = alloc(CHUNK)};
    sha256_init(&inflate->blob);
    sha256_init(&inflate->diff);
    pthread_mutex_init(&inflate->lock, NULL);
    pthread_cond_init(&inflate->changed, NULL);
    if (!read_head(inflate) || (coding == TAR_MAY_BE_COMPRESSED && !open_filter(inflate))) {
        *err = inflate->err;
        inflate_stop(inflate);
        return false;
    }
    /* Without one the same is done a piece at a time. */
    inflate->has_thread =
        is_worth_a_thread(fd) && pthread_create(&inflate->thread, NULL, work, inflate) == 0;
    *out = inflate;
    return true;
}

/* Waits for the next slot of the thread; NULL at the end. */
static struct slot *take_slot(struct inflate *inflate)
{
    pthread_mutex_lock(&inflate->lock);
    if (inflate->is_held) {
        inflate->n_used++;
        pthread_cond_signal(&inflate->changed);
    }
    while (inflate->n_filled == inflate->n_used && !inflate->is_done)
        pthread_cond_wait(&inflate->changed, &inflate->lock);
    inflate->is_held = inflate->n_filled > inflate->n_used;
    pthread_mutex_unlock(&inflate->lock);
    return inflate->is_held ? &inflate->slots[inflate->n_used % SLOTS] : NULL;
}

static struct slot *fill_slot(struct inflate *inflate)
{
    struct slot *slot = &inflate->slots[0];

    if (inflate->is_done)
        return NULL;
    bool ok = fill(inflate, slot);
    inflate->is_done = !ok || slot->len < SLOT;
    return ok ? slot : NULL;
}

bool inflate_next(struct inflate *inflate, struct str *piece, struct error *err)
{
    const struct slot *slot = inflate->has_thread ? take_slot(inflate) : fill_slot(inflate);

    if (!slot && inflate->failed) {
        *err = inflate->err;
        return false;
    }
    *piece = slot ? (struct str){slot->bytes, slot->len} : (struct str){0};
    return true;
}

void inflate_digests(struct inflate *inflate, char blob[DIGEST_TEXT], char diff[DIGEST_TEXT])
{
    digest_take(&inflate->blob, blob);
    digest_take(&inflate->diff, diff);
}

void inflate_stop(struct inflate *inflate)
{
    if (!inflate)
        return;
    if (inflate->has_thread) {
        pthread_mutex_lock(&inflate->lock);
        inflate->is_stopped = true;
        pthread_cond_signal(&inflate->changed);
        pthread_mutex_unlock(&inflate->lock);
        pthread_join(inflate->thread, NULL);
    }
    if (inflate->filter)
        archive_read_free(inflate->filter);
    pthread_mutex_destroy(&inflate->lock);
    pthread_cond_destroy(&inflate->changed);
    sha256_finish(&inflate->blob);
    sha256_finish(&inflate->diff);
    for (size_t i = 0; i < SLOTS; i++)
        free(inflate->slots[i].bytes);
    free(inflate->buffer);
    free(inflate);
}
