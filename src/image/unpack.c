/* Images found in the store, and their layers unpacked below layers/<chain id>. */
#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "image/config.h"
#include "image/reference.h"
#include "image/usage.h"

/* An entry takes about this much besides its content. */
enum { BLOCK = 1024 };

bool index_resolve(struct image_store *store, const char *reference, char digest[DIGEST_TEXT],
                   char name[REFERENCE_TEXT], struct error *err)
{
    struct reference parsed;
    struct error ignored;

    name[0] = '\0';
    if (digest_is_valid(str_of(reference))) {
        memcpy(digest, reference, DIGEST_TEXT);
        return true;
    }
    if (!reference_parse(str_of(reference), &parsed, err))
        return false;
    reference_format(&parsed, name);
    if (!parsed.digest[0])
        return index_find(store, name, digest, err);
    /* It may be the digest of a list of images: then the name stands for this platform's. */
    if (!index_find(store, name, digest, &ignored))
        memcpy(digest, parsed.digest, DIGEST_TEXT);
    name[0] = '\0';
    return true;
}

bool image_find(struct image_store *store, const char *reference, struct arena *arena,
                struct image *image, struct error *err)
{
    char digest[DIGEST_TEXT] = "", name[REFERENCE_TEXT];
    struct image_document document;

    if (!index_resolve(store, reference, digest, name, err) ||
        !document_load(store, digest, arena, &document, err))
        return false;
    *image = document.image;
    return true;
}

/* What later tells how much the layer takes and when it was used last: the note's own time. */
static bool put_note(struct image_store *store, const struct image_layer *layer, int64_t bytes,
                     struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = 1024};
    AUTO_FREE char *path = NULL;
    struct json_writer writer = json_begin(&out);

    json_open(&writer, NULL);
    json_string(&writer, "digest", layer->digest);
    json_string(&writer, "diff_id", layer->diff_id);
    json_int(&writer, "bytes", bytes);
    json_close(&writer);
    if (asprintf(&path, "%s/%s", store->unpacked, layer->chain) < 0)
        abort();
    return json_end(&writer, err) && file_publish(path, buf_str(&out), 0600, err);
}

/* Also marks it as used. */
static bool has_layer(struct image_store *store, const struct image_layer *layer, bool *is_there,
                      struct error *err)
{
    AUTO_FD int removal = -1;

    if (!store_lock_removal(store, true, &removal, err))
        return false;
    *is_there = disk_has(store->layers_fd, layer->chain);
    if (!*is_there || utimensat(store->unpacked_fd, layer->chain, NULL, 0) == 0)
        return true;
    /* Unpacked by an older version. */
    return put_note(store, layer, usage_of(store->layers_fd, layer->chain), err);
}

struct unpack {
    struct image_store *store;
    const struct image *image;
    const char *const *folders;
    struct tar_budget budget;
};

static bool fill_layer(struct unpack *unpack, size_t at, int folder, struct error *err)
{
    const struct image_layer *layer = &unpack->image->layers[at];
    AUTO(view_finish) struct view below = {0};
    AUTO_FD int blob = -1;

    return view_open(unpack->folders, at, &below, err) &&
           store_open_blob(unpack->store, layer->digest, &blob, err) &&
           layer_apply(layer, blob, folder, &below, &unpack->budget, err) &&
           (syncfs(folder) == 0 || error_errno(err, "sync a layer"));
}

static bool fill_folder(struct unpack *unpack, size_t at, const char *name, struct error *err)
{
    int parent = unpack->store->temporary_fd;
    AUTO_FD int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder < 0 || fchmod(folder, 0755) != 0)
        return error_errno(err, "open %s/%s", unpack->store->temporary, name);
    return fill_layer(unpack, at, folder, err);
}

/* Whole or not at all: unpacked aside, synced, renamed. */
static bool unpack_layer(struct unpack *unpack, size_t at, struct error *err)
{
    struct image_store *store = unpack->store;
    const struct image_layer *layer = &unpack->image->layers[at];
    char name[DISK_TEMPORARY];
    struct error ignored;

    int64_t bytes = unpack->budget.bytes, entries = unpack->budget.entries;
    disk_temporary(name);
    /* The root of a layer without an entry for it is what an image's root normally is. */
    if (mkdirat(store->temporary_fd, name, 0755) != 0)
        return error_errno(err, "mkdir %s/%s", store->temporary, name);
    bool ok =
        fill_folder(unpack, at, name, err) &&
        put_note(store, layer,
                 bytes - unpack->budget.bytes + (entries - unpack->budget.entries) * BLOCK, err) &&
        (renameat(store->temporary_fd, name, store->layers_fd, layer->chain) == 0 ||
         error_errno(err, "publish the layer %s", layer->chain));
    if (!ok) {
        (void)!tree_remove(store->temporary_fd, name, &ignored);
        return error_wrap(err, "unpacking layer %s", layer->digest);
    }
    return disk_sync(store->layers_fd, store->layers, err);
}

static bool unpack_missing(struct unpack *unpack, struct error *err)
{
    AUTO_FD int lock = -1, work = -1;
    bool is_there;

    /* One at a time: two images mostly share the layers that are missing. Looking at a layer below
     * keeps it until the work is done. */
    if (!disk_lock(unpack->store->oci_fd, "unpack-lock", false, &lock, err) ||
        !image_work(unpack->store, &work, err))
        return false;
    for (size_t i = 0; i < unpack->image->n_layers; i++)
        if (!has_layer(unpack->store, &unpack->image->layers[i], &is_there, err) ||
            (!is_there && !unpack_layer(unpack, i, err)))
            return false;
    return true;
}

bool image_unpack(struct image_store *store, const struct image *image, struct arena *arena,
                  const char *const **folders, struct error *err)
{
    const char **paths = arena_array(arena, image->n_layers + 1, sizeof *paths);
    bool is_whole = true, is_there;

    if (image->n_layers > VIEW_LAYERS_MAX)
        return error_set(err, ERR_TOO_LARGE, "the image has over %d layers", VIEW_LAYERS_MAX);
    for (size_t i = 0; i < image->n_layers; i++) {
        paths[i] = arena_printf(arena, "%s/%s", store->layers, image->layers[i].chain);
        if (!has_layer(store, &image->layers[i], &is_there, err))
            return false;
        is_whole = is_whole && is_there;
    }
    struct unpack unpack = {
        store, image, paths, {TAR_BYTES_MAX, TAR_ENTRIES_MAX}
    };
    if (!is_whole && !unpack_missing(&unpack, err))
        return false;
    *folders = paths;
    return true;
}
