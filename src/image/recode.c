#include "image/recode.h"

#include <fcntl.h>

#include "base/own.h"
#include "image/config.h"

/* A file among the unfinished; removed unless it was published. */
struct unfinished {
    struct image_store *store;
    char name[DISK_TEMPORARY];
    int fd;
};

static void unfinished_finish(struct unfinished *file)
{
    auto_close(&file->fd);
    if (file->name[0])
        (void)unlinkat(file->store->temporary_fd, file->name, 0);
}

static bool recode_layer(struct image_store *store, struct image_layer *layer,
                         enum layer_coding coding, struct error *err)
{
    AUTO(unfinished_finish) struct unfinished file = {.store = store, .fd = -1};
    struct image_layer made;
    AUTO_FD int blob = -1, removal = -1;

    disk_temporary(file.name);
    file.fd = openat(store->temporary_fd, file.name,
                     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file.fd < 0)
        return error_errno(err, "create %s/%s", store->temporary, file.name);
    if (!store_open_blob(store, layer->digest, &blob, err) ||
        !layer_recode(layer, blob, coding, file.fd, &made, err) ||
        !disk_sync(file.fd, "a layer", err))
        return false;
    /* As store_layer_commit: a collector must see the new one. */
    if (!store_lock_removal(store, true, &removal, err))
        return false;
    if (renameat(store->temporary_fd, file.name, store->blobs_fd, digest_hex(made.digest)) != 0)
        return error_errno(err, "publish the layer %s", made.digest);
    file.name[0] = '\0';
    *layer = made;
    return disk_sync(store->blobs_fd, store->blobs, err);
}

bool image_recode(struct image_store *store, const char *digest, enum layer_coding coding,
                  char made[DIGEST_TEXT], struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct image_document document;
    bool has_changed = false;
    int64_t size;

    if (!document_load(store, digest, &arena, &document, err))
        return false;
    struct image_layer *layers = arena_array(&arena, document.image.n_layers + 1, sizeof *layers);
    for (size_t i = 0; i < document.image.n_layers; i++) {
        layers[i] = document.image.layers[i];
        if (layers[i].coding == coding)
            continue;
        if (!recode_layer(store, &layers[i], coding, err))
            return error_wrap(err, "recoding layer %s", layers[i].digest);
        has_changed = true;
    }
    document.image.layers = layers;
    if (has_changed && !document_save(store, &document, &size, err))
        return false;
    memcpy(made, has_changed ? document.image.digest : digest, DIGEST_TEXT);
    return true;
}
