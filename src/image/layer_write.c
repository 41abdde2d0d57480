/* The tar writer of image/layer.h. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "image/aside.h"
#include "image/layer.h"

enum { PACKED = 256 * 1024, CHUNK = 1 << 20, PROBE = 512, FLUSH = 8 << 20 };

/* The disk begins while the rest is made, so that the sync at the end is short. A descriptor that
 * cannot do that needs it not. */
static void start_writing(const struct layer_writer *writer, int64_t before)
{
    int64_t done = before / FLUSH * FLUSH, full = writer->size / FLUSH * FLUSH;

    if (full > done)
        (void)sync_file_range(writer->fd, done, full - done, SYNC_FILE_RANGE_WRITE);
}

static la_ssize_t keep(struct layer_writer *writer, struct str bytes)
{
    int64_t before = writer->size;

    sha256_update(&writer->blob, bytes);
    writer->size += (int64_t)bytes.len;
    if (fd_write_all(writer->fd, bytes, &writer->err)) {
        start_writing(writer, before);
        return 0;
    }
    writer->failed = true;
    return -1;
}

static la_ssize_t compress(struct layer_writer *writer, struct str bytes, ZSTD_EndDirective end)
{
    ZSTD_inBuffer in = {bytes.ptr, bytes.len, 0};

    for (size_t left = 1; left != 0 || in.pos < in.size;) {
        ZSTD_outBuffer out = {writer->packed, PACKED, 0};
        left = ZSTD_compressStream2(writer->zstd, &out, &in, end);
        if (ZSTD_isError(left)) {
            writer->failed = true;
            (void)error_set(&writer->err, ERR_INTERNAL, "zstd: %s", ZSTD_getErrorName(left));
            return -1;
        }
        if (keep(writer, (struct str){writer->packed, out.pos}) != 0)
            return -1;
        if (end == ZSTD_e_continue && in.pos == in.size)
            break;
    }
    return 0;
}

static la_ssize_t take_tar(struct archive *archive, void *arg, const void *bytes, size_t len)
{
    struct layer_writer *writer = arg;
    struct str tar = {bytes, len};

    (void)archive;
    if (writer->is_dropped)
        return (la_ssize_t)len;
    sha256_update(&writer->diff, tar);
    if ((writer->is_compressed ? compress(writer, tar, ZSTD_e_continue) : keep(writer, tar)) != 0)
        return -1;
    return (la_ssize_t)len;
}

static bool fail(struct layer_writer *writer, struct error *err)
{
    if (writer->failed) {
        *err = writer->err;
        return false;
    }
    const char *why = archive_error_string(writer->tar);
    return error_set(err, ERR_INTERNAL, "writing a tar: %s", why ? why : "failed");
}

/* Zstandard at level 1: somebody waits for the layer, level 3 takes half as much time again for a
 * tenth less of it, and either unpacks faster than gzip by far. Threads of the library do it,
 * beside the one that reads and hashes; more of them than cores keep each other supplied on a busy
 * machine. Where they cut the input depends on its length alone, so the bytes are the same every
 * time. */
static bool set_up_zstd(ZSTD_CCtx *zstd, struct error *err)
{
    static const struct {
        ZSTD_cParameter name;
        int value;
    } parameters[] = {
        {ZSTD_c_compressionLevel, 1},
        {ZSTD_c_checksumFlag,     1},
        {ZSTD_c_nbWorkers,        4},
    };

    for (size_t i = 0; i < COUNT_OF(parameters); i++)
        if (ZSTD_isError(ZSTD_CCtx_setParameter(zstd, parameters[i].name, parameters[i].value)))
            return error_set(err, ERR_INTERNAL, "zstd refuses its parameters");
    return true;
}

bool layer_writer_init(struct layer_writer *writer, int fd, bool is_compressed, struct error *err)
{
    *writer = (struct layer_writer){.fd = fd, .is_compressed = is_compressed};
    sha256_init(&writer->blob);
    sha256_init(&writer->diff);
    writer->packed = alloc(PACKED);
    writer->tar = archive_write_new();
    writer->zstd = is_compressed ? ZSTD_createCCtx() : NULL;
    if (!writer->tar || (is_compressed && !writer->zstd))
        abort();
    if (is_compressed && !set_up_zstd(writer->zstd, err))
        return false;
    if (archive_write_set_format_pax_restricted(writer->tar) != ARCHIVE_OK ||
        archive_write_set_format_option(writer->tar, "pax", "xattrheader", "SCHILY") !=
            ARCHIVE_OK ||
        archive_write_set_bytes_per_block(writer->tar, CHUNK) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(writer->tar, 1) != ARCHIVE_OK ||
        archive_write_open(writer->tar, writer, NULL, take_tar, NULL) != ARCHIVE_OK)
        return fail(writer, err);
    return true;
}

void layer_writer_finish(struct layer_writer *writer)
{
    /* Unless it was closed, freeing writes the end of a tar that nobody wants. */
    writer->is_dropped = true;
    if (writer->tar)
        archive_write_free(writer->tar);
    ZSTD_freeCCtx(writer->zstd);
    sha256_finish(&writer->blob);
    sha256_finish(&writer->diff);
    free(writer->packed);
    *writer = (struct layer_writer){.fd = -1};
}

static bool put_content(struct layer_writer *writer, int64_t size, int content, struct error *err)
{
    AUTO_FREE char *buffer = alloc(CHUNK);

    while (size > 0) {
        ssize_t n = read(content, buffer, size < CHUNK ? (size_t)size : CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "read a file");
        if (n == 0)
            return error_set(err, ERR_INTERNAL, "a file became shorter while it was read");
        if (archive_write_data(writer->tar, buffer, (size_t)n) != n)
            return fail(writer, err);
        size -= n;
    }
    return true;
}

void layer_entry_free(struct archive_entry **entry)
{
    archive_entry_free(*entry);
}

bool layer_entry_link(struct archive_entry *entry, int folder, const char *name, struct error *err)
{
    char target[TAR_PATH];
    ssize_t len = aside_readlink(folder, name, target, TAR_PATH_MAX);

    if (len < 0)
        return error_errno(err, "read the link %s", name);
    target[len] = '\0';
    archive_entry_copy_symlink(entry, target);
    return true;
}

static bool is_zero(const char *bytes, size_t len)
{
    return bytes[0] == '\0' && memcmp(bytes, bytes + 1, len - 1) == 0;
}

/* A look at the start of the block tells most of them apart. */
static bool is_hole(int content, int64_t at, char *buffer)
{
    return pread(content, buffer, PROBE, at) == PROBE && is_zero(buffer, PROBE) &&
           pread(content, buffer, CHUNK, at) == CHUNK && is_zero(buffer, CHUNK);
}

/* Long runs of zeros are told in the header and not written. It is the content that decides, not
 * what the disk has of it, so that the same file gives the same bytes. */
static void mark_holes(struct archive_entry *entry, int content)
{
    AUTO_FREE char *buffer = alloc(CHUNK);
    int64_t size = archive_entry_size(entry), data = 0;
    bool has_holes = false;

    for (int64_t at = 0; at + CHUNK <= size; at += CHUNK) {
        if (!is_hole(content, at, buffer))
            continue;
        if (at > data)
            archive_entry_sparse_add_entry(entry, data, at - data);
        data = at + CHUNK;
        has_holes = true;
    }
    if (has_holes)
        archive_entry_sparse_add_entry(entry, data, size - data);
}

bool layer_writer_put(struct layer_writer *writer, struct archive_entry *entry, int content,
                      struct error *err)
{
    TAR_UTF8_SCOPE;

    if (++writer->entries > TAR_ENTRIES_MAX)
        return error_set(err, ERR_TOO_LARGE, "a layer has over %d entries", TAR_ENTRIES_MAX);
    if (content >= 0 && archive_entry_size(entry) >= CHUNK)
        mark_holes(entry, content);
    /* A warning is a name that is no UTF-8, which then goes out as it is. */
    int result = archive_write_header(writer->tar, entry);
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
        return fail(writer, err);
    return content < 0 || put_content(writer, archive_entry_size(entry), content, err);
}

bool layer_writer_folder(struct layer_writer *writer, const char *path, mode_t mode,
                         struct error *err)
{
    AUTO(layer_entry_free) struct archive_entry *entry = archive_entry_new();

    if (!entry)
        abort();
    archive_entry_copy_pathname(entry, path);
    archive_entry_set_filetype(entry, AE_IFDIR);
    archive_entry_set_perm(entry, mode);
    archive_entry_set_mtime(entry, 0, 0);
    return layer_writer_put(writer, entry, -1, err);
}

bool layer_writer_end(struct layer_writer *writer, struct image_layer *layer, struct error *err)
{
    if (archive_write_close(writer->tar) != ARCHIVE_OK ||
        (writer->is_compressed && compress(writer, (struct str){0}, ZSTD_e_end) != 0))
        return fail(writer, err);
    digest_take(&writer->blob, layer->digest);
    digest_take(&writer->diff, layer->diff_id);
    layer->size = writer->size;
    return true;
}
