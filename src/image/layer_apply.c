/* layer_apply and layer_recode of image/layer.h: both read a blob whole and check it. */
#include <string.h>

#include "base/file.h"
#include "base/own.h"
#include "image/extract.h"
#include "image/layer.h"

static bool matches(const char *what, const char *got, const char *want, struct error *err)
{
    return strcmp(got, want) == 0 ||
           error_set(err, ERR_CONTENT_HASH, "a layer's %s is %s where %s was promised", what, got,
                     want);
}

bool layer_apply(const struct image_layer *layer, int blob, int folder, const struct view *below,
                 struct tar_budget *budget, struct error *err)
{
    TAR_UTF8_SCOPE;
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    struct extract_spec spec = {EXTRACT_LAYER, folder, below, budget};
    char digest[DIGEST_TEXT], diff[DIGEST_TEXT];

    /* Headers and padding come on top of the content that the budget counts. */
    int64_t most = budget->bytes + budget->entries * 2048;
    return tar_reader_open(&reader, blob, TAR_MAY_BE_COMPRESSED, most, err) &&
           extract_archive(&spec, &reader, err) && tar_reader_end(&reader, digest, diff, err) &&
           matches("digest", digest, layer->digest, err) &&
           matches("content", diff, layer->diff_id, err);
}

struct recode {
    struct inflate *from;
    struct archive *to;
    int fd;
    struct sha256 blob;
    int64_t size;
    struct error err; /* of the callback */
    bool failed;
};

static void recode_finish(struct recode *recode)
{
    inflate_stop(recode->from);
    if (recode->to)
        archive_write_free(recode->to);
    sha256_finish(&recode->blob);
}

static la_ssize_t keep(struct archive *archive, void *arg, const void *bytes, size_t len)
{
    struct recode *recode = arg;
    struct str piece = {bytes, len};

    (void)archive;
    sha256_update(&recode->blob, piece);
    recode->size += (int64_t)len;
    recode->failed = recode->failed || !fd_write_all(recode->fd, piece, &recode->err);
    return recode->failed ? -1 : (la_ssize_t)len;
}

static bool fail(struct recode *recode, struct error *err)
{
    if (recode->failed) {
        *err = recode->err;
        return false;
    }
    const char *why = archive_error_string(recode->to);
    return error_set(err, ERR_INTERNAL, "compressing a layer: %s", why ? why : "failed");
}

/* Without a time in the header, and at a level that costs a third of gzip's own. */
static bool set_coding(struct archive *to, enum layer_coding coding)
{
    switch (coding) {
    case LAYER_TAR: return true;
    case LAYER_GZIP:
        return archive_write_add_filter_gzip(to) == ARCHIVE_OK &&
               archive_write_set_options(to, "gzip:!timestamp,gzip:compression-level=4") ==
                   ARCHIVE_OK;
    case LAYER_ZSTD:
        return archive_write_add_filter_zstd(to) == ARCHIVE_OK &&
               archive_write_set_options(to, "zstd:compression-level=3") == ARCHIVE_OK;
    }
    abort();
}

static bool open_recode(struct recode *recode, enum layer_coding coding, struct error *err)
{
    AUTO(layer_entry_free) struct archive_entry *entry = archive_entry_new();

    recode->to = archive_write_new();
    if (!recode->to || !entry)
        abort();
    archive_entry_set_filetype(entry, AE_IFREG);
    return (set_coding(recode->to, coding) &&
            archive_write_set_format_raw(recode->to) == ARCHIVE_OK &&
            archive_write_set_bytes_in_last_block(recode->to, 1) == ARCHIVE_OK &&
            archive_write_open(recode->to, recode, NULL, keep, NULL) == ARCHIVE_OK &&
            archive_write_header(recode->to, entry) == ARCHIVE_OK) ||
           fail(recode, err);
}

bool layer_recode(const struct image_layer *layer, int blob, enum layer_coding coding, int out,
                  struct image_layer *made, struct error *err)
{
    AUTO(recode_finish) struct recode recode = {.fd = out};
    char digest[DIGEST_TEXT], diff[DIGEST_TEXT];
    struct str piece;

    sha256_init(&recode.blob);
    if (!inflate_start(blob, TAR_MAY_BE_COMPRESSED, TAR_BYTES_MAX, &recode.from, err) ||
        !open_recode(&recode, coding, err))
        return false;
    for (;;) {
        if (!inflate_next(recode.from, &piece, err))
            return false;
        if (!piece.len)
            break;
        if (archive_write_data(recode.to, piece.ptr, piece.len) != (la_ssize_t)piece.len)
            return fail(&recode, err);
    }
    inflate_digests(recode.from, digest, diff);
    if (!matches("digest", digest, layer->digest, err) ||
        !matches("content", diff, layer->diff_id, err))
        return false;
    if (archive_write_close(recode.to) != ARCHIVE_OK)
        return fail(&recode, err);
    *made = *layer;
    made->coding = coding;
    made->size = recode.size;
    digest_take(&recode.blob, made->digest);
    return true;
}
