#include "image/tar_reader.h"

#include <locale.h>
#include <pthread.h>

#include "base/own.h"

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

static la_ssize_t read_tar(struct archive *archive, void *arg, const void **bytes)
{
    struct tar_reader *reader = arg;
    struct str piece;

    (void)archive;
    if (!inflate_next(reader->source, &piece, &reader->err)) {
        reader->failed = true;
        return -1;
    }
    reader->is_ended = piece.len == 0;
    *bytes = piece.ptr;
    return (la_ssize_t)piece.len;
}

static bool fail(struct tar_reader *reader, struct error *err)
{
    if (reader->failed) {
        *err = reader->err;
        return false;
    }
    const char *why = archive_error_string(reader->tar);
    return error_set(err, ERR_ARCHIVE_INVALID, "the archive cannot be read: %s",
                     why ? why : "it is damaged");
}

bool tar_reader_open(struct tar_reader *reader, int fd, enum tar_coding coding, int64_t max_bytes,
                     struct error *err)
{
    *reader = (struct tar_reader){0};
    if (!inflate_start(fd, coding, max_bytes, &reader->source, err))
        return false;
    reader->tar = archive_read_new();
    if (!reader->tar)
        abort();
    if (archive_read_support_format_tar(reader->tar) != ARCHIVE_OK ||
        archive_read_support_format_empty(reader->tar) != ARCHIVE_OK ||
        archive_read_open(reader->tar, reader, NULL, read_tar, NULL) != ARCHIVE_OK)
        return fail(reader, err);
    return true;
}

void tar_reader_finish(struct tar_reader *reader)
{
    if (reader->tar)
        archive_read_free(reader->tar);
    inflate_stop(reader->source);
    *reader = (struct tar_reader){0};
}

bool tar_reader_next(struct tar_reader *reader, struct archive_entry **entry, struct error *err)
{
    int result = reader->is_cut ? ARCHIVE_EOF : archive_read_next_header(reader->tar, entry);

    if (result == ARCHIVE_EOF) {
        *entry = NULL;
        return true;
    }
    if (result == ARCHIVE_OK)
        reader->left = archive_entry_size(*entry);
    /* A warning means that libarchive gave something up: a name, an attribute, a part. */
    return result == ARCHIVE_OK || fail(reader, err);
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
    /* umoci ends the layers it inserts with the last byte of the last file. */
    if (result == ARCHIVE_FATAL && reader->is_ended && !reader->failed && reader->left == 0)
        reader->is_cut = true;
    else if (result != ARCHIVE_OK && result != ARCHIVE_EOF)
        return fail(reader, err);
    if (result == ARCHIVE_OK)
        *bytes = (struct str){block, len};
    else
        *bytes = (struct str){0};
    reader->left -= (int64_t)bytes->len;
    *offset = at;
    return true;
}

bool tar_reader_end(struct tar_reader *reader, char blob[DIGEST_TEXT], char diff[DIGEST_TEXT],
                    struct error *err)
{
    struct str piece;

    do
        if (!inflate_next(reader->source, &piece, err))
            return false;
    while (piece.len);
    inflate_digests(reader->source, blob, diff);
    return true;
}
