#include "image/tar_reader.h"

#include <errno.h>
#include <locale.h>
#include <pthread.h>

#include "base/own.h"

enum { CHUNK = 256 * 1024 };

static locale_t utf8;

static void make_locale(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

tar_locale tar_locale_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_locale);
    return uselocale(utf8);
}

void tar_locale_leave(const tar_locale *before)
{
    (void)uselocale(*before);
}

static ssize_t fill(struct tar_source *source, char *into, size_t room)
{
    ssize_t n;

    do
        n = read(source->fd, into, room);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        source->failed = true;
        (void)error_errno(&source->err, "read the archive");
        return -1;
    }
    sha256_update(&source->blob, (struct str){into, (size_t)n});
    source->in += n;
    return n;
}

static la_ssize_t read_blob(struct archive *archive, void *arg, const void **bytes)
{
    struct tar_source *source = arg;
    ssize_t n = (ssize_t)source->held;

    (void)archive;
    source->held = 0;
    if (n == 0)
        n = fill(source, source->buffer, CHUNK);
    *bytes = source->buffer;
    return n;
}

static la_ssize_t count_tar(struct tar_source *source, const void *bytes, la_ssize_t n)
{
    if (n <= 0)
        return n;
    source->out += n;
    if (source->out > source->max_out || !tar_ratio_is_sane(source->in, source->out)) {
        source->failed = true;
        (void)error_set(&source->err, ERR_ARCHIVE_TOO_LARGE,
                        source->out > source->max_out
                            ? "the archive unpacks to more than is allowed"
                            : "the archive unpacks to over 200 times its size");
        return -1;
    }
    sha256_update(&source->diff, (struct str){bytes, (size_t)n});
    return n;
}

static la_ssize_t read_tar(struct archive *archive, void *arg, const void **bytes)
{
    struct tar_source *source = arg;

    if (!source->inflate)
        return count_tar(source, source->buffer, read_blob(archive, arg, bytes));

    /* The bytes must outlive this call, so libarchive's own block is handed on. */
    size_t len = 0;
    la_int64_t offset = 0;
    int result = archive_read_data_block(source->inflate, bytes, &len, &offset);
    if (result == ARCHIVE_EOF)
        return 0;
    if (result != ARCHIVE_OK) {
        if (!source->failed)
            (void)error_set(&source->err, ERR_ARCHIVE_INVALID, "the archive cannot be inflated: %s",
                            archive_error_string(source->inflate));
        source->failed = true;
        return -1;
    }
    return count_tar(source, *bytes, (la_ssize_t)len);
}

static bool fail(struct tar_reader *reader, struct archive *archive, struct error *err)
{
    if (reader->source.failed) {
        *err = reader->source.err;
        return false;
    }
    const char *why = archive_error_string(archive);
    return error_set(err, ERR_ARCHIVE_INVALID, "the archive cannot be read: %s",
                     why ? why : "it is damaged");
}

/* Sets the decompressor up when the first bytes say that one is needed. */
static bool open_inflate(struct tar_reader *reader, struct error *err)
{
    struct tar_source *source = &reader->source;
    const char *head = source->buffer;
    bool is_gzip = source->held > 2 && memcmp(head, "\x1f\x8b", 2) == 0;
    bool is_zstd = source->held > 4 && memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0;
    struct archive_entry *entry;

    if (!is_gzip && !is_zstd)
        return true;
    source->inflate = archive_read_new();
    if (!source->inflate)
        abort();
    int result = is_gzip ? archive_read_support_filter_gzip(source->inflate)
                         : archive_read_support_filter_zstd(source->inflate);
    if (result != ARCHIVE_OK || archive_read_support_format_raw(source->inflate) != ARCHIVE_OK ||
        archive_read_open(source->inflate, source, NULL, read_blob, NULL) != ARCHIVE_OK ||
        archive_read_next_header(source->inflate, &entry) != ARCHIVE_OK)
        return fail(reader, source->inflate, err);
    return true;
}

/* libarchive guesses the compression from a full first block, so read until there is one. */
static bool read_head(struct tar_source *source)
{
    while (source->held < CHUNK) {
        ssize_t n = fill(source, source->buffer + source->held, CHUNK - source->held);
        if (n < 0)
            return false;
        if (n == 0)
            break;
        source->held += (size_t)n;
    }
    return true;
}

bool tar_reader_open(struct tar_reader *reader, int fd, enum tar_coding coding, int64_t max_bytes,
                     struct error *err)
{
    struct tar_source *source = &reader->source;

    *reader = (struct tar_reader){
        .source = {.fd = fd, .max_out = max_bytes}
    };
    sha256_init(&source->blob);
    sha256_init(&source->diff);
    source->buffer = alloc(CHUNK);
    if (!read_head(source)) {
        *err = source->err;
        return false;
    }
    if (coding == TAR_MAY_BE_COMPRESSED && !open_inflate(reader, err))
        return false;

    reader->tar = archive_read_new();
    if (!reader->tar)
        abort();
    if (archive_read_support_format_tar(reader->tar) != ARCHIVE_OK ||
        archive_read_support_format_empty(reader->tar) != ARCHIVE_OK ||
        archive_read_open(reader->tar, source, NULL, read_tar, NULL) != ARCHIVE_OK)
        return fail(reader, reader->tar, err);
    return true;
}

void tar_reader_finish(struct tar_reader *reader)
{
    if (reader->tar)
        archive_read_free(reader->tar);
    if (reader->source.inflate)
        archive_read_free(reader->source.inflate);
    sha256_finish(&reader->source.blob);
    sha256_finish(&reader->source.diff);
    free(reader->source.buffer);
    *reader = (struct tar_reader){0};
}

bool tar_reader_next(struct tar_reader *reader, struct archive_entry **entry, struct error *err)
{
    int result = archive_read_next_header(reader->tar, entry);

    if (result == ARCHIVE_EOF) {
        *entry = NULL;
        return true;
    }
    /* A warning means that libarchive gave something up: a name, an attribute, a part. */
    return result == ARCHIVE_OK || fail(reader, reader->tar, err);
}

bool tar_reader_data(struct tar_reader *reader, struct str *bytes, int64_t *offset,
                     struct error *err)
{
    const void *block = NULL;
    size_t len = 0;
    la_int64_t at = 0;
    int result;

    do
        result = archive_read_data_block(reader->tar, &block, &len, &at);
    while (result == ARCHIVE_OK && len == 0);
    if (result != ARCHIVE_OK && result != ARCHIVE_EOF)
        return fail(reader, reader->tar, err);
    if (result == ARCHIVE_EOF)
        *bytes = (struct str){0};
    else
        *bytes = (struct str){block, len};
    *offset = at;
    return true;
}

bool tar_reader_end(struct tar_reader *reader, char blob[DIGEST_TEXT], char diff[DIGEST_TEXT],
                    struct error *err)
{
    struct tar_source *source = &reader->source;
    const void *bytes;
    la_ssize_t n;

    while ((n = read_tar(reader->tar, source, &bytes)) > 0)
        ;
    /* Bytes behind the compressed stream are part of the blob too. */
    while (n == 0 && !source->failed && fill(source, source->buffer, CHUNK) > 0)
        ;
    if (n < 0 || source->failed) {
        *err = source->err;
        return false;
    }
    digest_take(&source->blob, blob);
    digest_take(&source->diff, diff);
    return true;
}
