/* image_load: an OCI archive, as image_export writes it, into the store. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "image/archive.h"
#include "image/config.h"
#include "image/digest.h"
#include "image/reference.h"

enum { INDEX_MAX = 1024 * 1024, CHUNK = 256 * 1024, ENTRIES_MAX = 1024 };

static bool hash_file(int fd, char digest[DIGEST_TEXT], struct error *err)
{
    AUTO_FREE char *buffer = alloc(CHUNK);
    AUTO(sha256_finish) struct sha256 state;

    sha256_init(&state);
    for (;;) {
        ssize_t n = read(fd, buffer, CHUNK);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "reading the archive's files");
        if (n == 0)
            break;
        sha256_update(&state, (struct str){buffer, (size_t)n});
    }
    digest_take(&state, digest);
    return true;
}

/* A blob is what its name says before it is among ours. */
static bool adopt(struct image_store *store, const char *layout, const char *digest,
                  struct arena *arena, struct error *err)
{
    const char *path = arena_printf(arena, "%s/blobs/sha256/%s", layout, digest_hex(digest));
    AUTO_FD int fd = -1, removal = -1;
    char found[DIGEST_TEXT];

    if (store_has_blob(store, digest))
        return true;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set(err, ERR_INVALID, "the archive lacks %s", digest);
    if (!hash_file(fd, found, err))
        return false;
    if (strcmp(found, digest) != 0)
        return error_set(err, ERR_INVALID, "the archive is damaged: %s is %s", digest, found);
    /* Its time is that of its last use, which is now. */
    if (fchmod(fd, 0644) != 0 || futimens(fd, NULL) != 0)
        return error_errno(err, "keeping %s", digest);
    if (!disk_sync(fd, "a blob", err) || !store_lock_removal(store, true, &removal, err))
        return false;
    if (renameat(AT_FDCWD, path, store->blobs_fd, digest_hex(digest)) != 0)
        return error_errno(err, "keeping %s", digest);
    close(take_fd(&removal));
    return disk_sync(store->blobs_fd, "the blobs", err);
}

static bool read_index(const char *layout, struct arena *arena, char digest[DIGEST_TEXT],
                       struct error *err)
{
    AUTO_FREE char *text = NULL;
    struct str found;

    if (!file_read(arena_printf(arena, "%s/index.json", layout), INDEX_MAX, &text, err))
        return error_set(err, ERR_INVALID, "this is no OCI archive: it has no index.json");
    size_t n = json_count(str_of(text), "manifests");
    if (n != 1)
        return error_set(err, ERR_INVALID, "the archive holds %zu images, not one", n);
    if (!json_find_text(str_of(text), "manifests.0.digest", arena, &found) ||
        !digest_is_valid(found))
        return error_set(err, ERR_INVALID, "the archive's index names no image");
    snprintf(digest, DIGEST_TEXT, "%.*s", (int)found.len, found.ptr);
    return true;
}

static bool take_over(struct image_store *store, const char *layout, const char *reference,
                      struct arena *arena, char digest[DIGEST_TEXT], struct error *err)
{
    struct manifest_blobs blobs;
    struct image_document document;
    AUTO_FD int lock = -1;

    if (!read_index(layout, arena, digest, err) || !adopt(store, layout, digest, arena, err) ||
        !manifest_load(store, digest, arena, &blobs, err))
        return false;
    for (size_t i = BLOB_CONFIG; i < blobs.n; i++) {
        if (!adopt(store, layout, blobs.items[i].digest, arena, err))
            return false;
    }
    /* Also whether it is for this machine. */
    return document_load(store, digest, arena, &document, err) && store_lock(store, &lock, err) &&
           index_put(store, reference, digest, blobs.items[BLOB_MANIFEST].size, time_now_ms(), err);
}

bool image_load(struct image_store *store, const char *reference, int fd, char digest[DIGEST_TEXT],
                struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int work = -1;
    struct reference parsed;
    char name[REFERENCE_TEXT], *layout;

    if (!reference_parse(str_of(reference), &parsed, err) || !image_work(store, &work, err) ||
        !store_scratch(store, &arena, &layout, err))
        return false;
    reference_format(&parsed, name);
    bool ok = archive_extract(fd, TAR_ONLY, layout, (struct tar_budget){TAR_BYTES_MAX, ENTRIES_MAX},
                              err) &&
              take_over(store, layout, name, &arena, digest, err);
    store_drop_scratch(store, layout);
    return ok;
}
