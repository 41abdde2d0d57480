/* image_export: an OCI archive, a tar file of a layout with one image in it. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "image/config.h"
#include "image/recode.h"
#include "image/reference.h"

enum { CHUNK = 256 * 1024, INDEX_TEXT = 16 * 1024 };

struct exporter {
    struct image_store *store;
    struct archive *tar;
    int fd;
    struct error err; /* why writing failed: libarchive keeps only a number */
    char *buffer;
};

static void exporter_finish(struct exporter *exporter)
{
    if (exporter->tar)
        archive_write_free(exporter->tar);
    free(exporter->buffer);
}

static la_ssize_t keep(struct archive *archive, void *arg, const void *bytes, size_t len)
{
    struct exporter *exporter = arg;

    (void)archive;
    /* After a failure freeing the archive would write its end. */
    if (exporter->err.text[0] ||
        !fd_write_all(exporter->fd, (struct str){bytes, len}, &exporter->err))
        return -1;
    return (la_ssize_t)len;
}

static bool fail(const struct exporter *exporter, struct error *err)
{
    if (exporter->err.text[0]) {
        *err = exporter->err;
        return false;
    }
    const char *why = archive_error_string(exporter->tar);
    return error_set(err, ERR_INTERNAL, "writing a tar: %s", why ? why : "failed");
}

static bool begin(struct exporter *exporter, struct error *err)
{
    exporter->buffer = alloc(CHUNK);
    exporter->tar = archive_write_new();
    if (!exporter->tar)
        abort();
    return (archive_write_set_format_pax_restricted(exporter->tar) == ARCHIVE_OK &&
            archive_write_set_bytes_per_block(exporter->tar, CHUNK) == ARCHIVE_OK &&
            archive_write_set_bytes_in_last_block(exporter->tar, 1) == ARCHIVE_OK &&
            archive_write_open(exporter->tar, exporter, NULL, keep, NULL) == ARCHIVE_OK) ||
           fail(exporter, err);
}

static void entry_free(struct archive_entry **entry)
{
    archive_entry_free(*entry);
}

static bool put_header(struct exporter *exporter, const char *path, int64_t size, struct error *err)
{
    AUTO(entry_free) struct archive_entry *entry = archive_entry_new();
    bool is_folder = size < 0;

    if (!entry)
        abort();
    archive_entry_copy_pathname(entry, path);
    archive_entry_set_filetype(entry, is_folder ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, is_folder ? 0755 : 0644);
    archive_entry_set_mtime(entry, 0, 0);
    if (!is_folder)
        archive_entry_set_size(entry, size);
    return archive_write_header(exporter->tar, entry) == ARCHIVE_OK || fail(exporter, err);
}

static bool put_text(struct exporter *exporter, const char *path, struct str text,
                     struct error *err)
{
    return put_header(exporter, path, (int64_t)text.len, err) &&
           (archive_write_data(exporter->tar, text.ptr, text.len) == (la_ssize_t)text.len ||
            fail(exporter, err));
}

/* A damaged blob ends the export: half of what was written is no archive. */
static bool put_content(struct exporter *exporter, int fd, const struct manifest_blob *blob,
                        struct error *err)
{
    AUTO(sha256_finish) struct sha256 hash;
    char found[DIGEST_TEXT];
    int64_t left = blob->size;

    sha256_init(&hash);
    while (left > 0) {
        ssize_t n = read(fd, exporter->buffer, left < CHUNK ? (size_t)left : CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "read %s", blob->digest);
        if (n == 0)
            break;
        sha256_update(&hash, (struct str){exporter->buffer, (size_t)n});
        if (archive_write_data(exporter->tar, exporter->buffer, (size_t)n) != n)
            return fail(exporter, err);
        left -= n;
    }
    digest_take(&hash, found);
    return strcmp(found, blob->digest) == 0 ||
           error_set(err, ERR_CONTENT_HASH, "the stored blob %s is damaged: it hashes to %s",
                     blob->digest, found);
}

static bool put_blob(struct exporter *exporter, const struct manifest_blob *blob,
                     struct arena *arena, struct error *err)
{
    AUTO_FD int fd = -1;
    struct stat facts;

    if (!store_open_blob(exporter->store, blob->digest, &fd, err))
        return false;
    if (fstat(fd, &facts) != 0)
        return error_errno(err, "look at %s", blob->digest);
    if (facts.st_size != blob->size)
        return error_set(err, ERR_CONTENT_HASH, "the stored blob %s has %lld bytes, not %lld",
                         blob->digest, (long long)facts.st_size, (long long)blob->size);
    return put_header(exporter, arena_printf(arena, "blobs/sha256/%s", digest_hex(blob->digest)),
                      blob->size, err) &&
           put_content(exporter, fd, blob, err);
}

static int by_digest(const void *a, const void *b)
{
    return strcmp(((const struct manifest_blob *)a)->digest,
                  ((const struct manifest_blob *)b)->digest);
}

static bool put_blobs(struct exporter *exporter, struct manifest_blobs *blobs, struct arena *arena,
                      struct error *err)
{
    qsort(blobs->items, blobs->n, sizeof *blobs->items, by_digest);
    for (size_t i = 0; i < blobs->n; i++)
        if ((i == 0 || by_digest(&blobs->items[i - 1], &blobs->items[i]) != 0) &&
            !put_blob(exporter, &blobs->items[i], arena, err))
            return false;
    return true;
}

/* The name is in the annotation that other tools look at. */
static bool write_index(struct buf *out, const struct manifest_blob *manifest, const char *name,
                        struct error *err)
{
    struct json_writer writer = json_begin(out);

    json_open(&writer, NULL);
    json_int(&writer, "schemaVersion", 2);
    json_string(&writer, "mediaType", "application/vnd.oci.image.index.v1+json");
    json_open_list(&writer, "manifests");
    json_open(&writer, NULL);
    json_text(&writer, "mediaType", manifest->media_type);
    json_string(&writer, "digest", manifest->digest);
    json_int(&writer, "size", manifest->size);
    if (name[0] && !strchr(name, '@')) {
        json_open(&writer, "annotations");
        json_string(&writer, "io.containerd.image.name", name);
        json_string(&writer, "org.opencontainers.image.ref.name", name);
        json_close(&writer);
    }
    json_close(&writer);
    json_close_list(&writer);
    json_close(&writer);
    return json_end(&writer, err);
}

static bool write_archive(struct exporter *exporter, const char *name, const char *digest,
                          struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf index = {.max = INDEX_TEXT};
    struct manifest_blobs blobs;

    return manifest_load(exporter->store, digest, &arena, &blobs, err) &&
           write_index(&index, &blobs.items[BLOB_MANIFEST], name, err) && begin(exporter, err) &&
           put_text(exporter, "oci-layout", STR("{\"imageLayoutVersion\":\"1.0.0\"}\n"), err) &&
           put_text(exporter, "index.json", buf_str(&index), err) &&
           put_header(exporter, "blobs/", -1, err) &&
           put_header(exporter, "blobs/sha256/", -1, err) &&
           put_blobs(exporter, &blobs, &arena, err) &&
           (archive_write_close(exporter->tar) == ARCHIVE_OK || fail(exporter, err));
}

static bool export(struct image_store *store, const char *reference, const char *name,
                   const char *digest, int fd, struct error *err)
{
    AUTO(exporter_finish) struct exporter exporter = {.store = store, .fd = fd};

    bool ok = write_archive(&exporter, name, digest, err);
    if (!ok && !exporter.err.text[0])
        exporter.err = *err; /* so that nothing more is written */
    return ok || error_wrap(err, "exporting %s", reference);
}

bool image_export(struct image_store *store, const char *reference, int fd, struct error *err)
{
    AUTO_FD int hold = -1;
    char digest[DIGEST_TEXT], name[REFERENCE_TEXT];

    return index_resolve(store, reference, digest, name, err) &&
           image_hold(store, digest, &hold, err) && export(store, reference, name, digest, fd, err);
}

bool image_export_gzip(struct image_store *store, const char *reference, int fd, struct error *err)
{
    AUTO_FD int work = -1;
    char digest[DIGEST_TEXT], made[DIGEST_TEXT], name[REFERENCE_TEXT];

    return image_work(store, &work, err) && index_resolve(store, reference, digest, name, err) &&
           image_recode(store, digest, LAYER_GZIP, made, err) &&
           export(store, reference, name, made, fd, err);
}
