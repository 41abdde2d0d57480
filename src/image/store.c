#include "image/store.h"

#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/own.h"

static char *path_in(const char *folder, const char *name)
{
    char *path = NULL;

    if (asprintf(&path, "%s/%s", folder, name) < 0)
        abort();
    return path;
}

static bool open_folder(const char *path, int *fd, struct error *err)
{
    if (!directory_make(path, 0700, err))
        return false;
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd >= 0 || error_errno(err, "open %s", path);
}

/* What nobody can be working on: a dead process left it. What cannot be removed now is left for
 * the next time: names are never used twice, so it is in nobody's way. */
static bool wipe_temporary(struct image_store *store, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    struct error ignored;

    if (!disk_list(store->temporary_fd, 1000000, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++)
        (void)!tree_remove(store->temporary_fd, names.names[i], &ignored);
    return true;
}

static bool open_folders(struct image_store *store, struct error *err)
{
    return open_folder(store->oci, &store->oci_fd, err) &&
           open_folder(store->blobs, &store->blobs_fd, err) &&
           open_folder(store->temporary, &store->temporary_fd, err) &&
           open_folder(store->layers, &store->layers_fd, err) &&
           open_folder(store->steps, &store->steps_fd, err) &&
           open_folder(store->unpacked, &store->unpacked_fd, err) &&
           open_folder(store->holds, &store->holds_fd, err);
}

static bool join_users(struct image_store *store, struct error *err)
{
    AUTO_FD int alone = -1;

    if (!disk_try_lock(store->oci_fd, "in-use", &alone, err) ||
        (alone >= 0 && !wipe_temporary(store, err)))
        return false;
    if (alone >= 0) {
        close(alone);
        alone = -1;
    }
    return disk_lock(store->oci_fd, "in-use", true, &store->in_use, err);
}

static bool write_layout(struct image_store *store, struct error *err)
{
    AUTO_FREE char *path = path_in(store->oci, "oci-layout");

    return disk_has(store->oci_fd, "oci-layout") ||
           file_publish(path, STR("{\"imageLayoutVersion\":\"1.0.0\"}\n"), 0644, err);
}

bool image_store_open(const char *work_dir, struct image_store **out, struct error *err)
{
    struct image_store *store = alloc(sizeof *store);
    AUTO_FREE char *blobs = path_in(work_dir, "oci/blobs");

    *store = (struct image_store){
        .work = alloc_text(work_dir),
        .oci = path_in(work_dir, "oci"),
        .blobs = path_in(blobs, "sha256"),
        .temporary = path_in(work_dir, "oci/tmp"),
        .layers = path_in(work_dir, "layers"),
        .steps = path_in(work_dir, "oci/steps"),
        .unpacked = path_in(work_dir, "oci/unpacked"),
        .holds = path_in(work_dir, "oci/holds"),
        .oci_fd = -1,
        .blobs_fd = -1,
        .temporary_fd = -1,
        .layers_fd = -1,
        .steps_fd = -1,
        .unpacked_fd = -1,
        .holds_fd = -1,
        .in_use = -1,
    };
    if (!open_folders(store, err) || !write_layout(store, err) || !join_users(store, err)) {
        image_store_close(store);
        return error_wrap(err, "opening the image store");
    }
    *out = store;
    return true;
}

void image_store_close(struct image_store *store)
{
    if (!store)
        return;
    const int fds[] = {store->oci_fd,   store->blobs_fd,    store->temporary_fd, store->layers_fd,
                       store->steps_fd, store->unpacked_fd, store->holds_fd,     store->in_use};
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(store->work);
    free(store->oci);
    free(store->blobs);
    free(store->temporary);
    free(store->layers);
    free(store->steps);
    free(store->unpacked);
    free(store->holds);
    free(store);
}

bool store_lock(struct image_store *store, int *fd, struct error *err)
{
    return disk_lock(store->oci_fd, "lock", false, fd, err);
}

bool store_lock_removal(struct image_store *store, bool is_shared, int *fd, struct error *err)
{
    return disk_lock(store->oci_fd, "removal-lock", is_shared, fd, err);
}

bool store_touch(struct image_store *store, int folder, const char *name)
{
    AUTO_FD int lock = -1;
    struct error ignored;

    /* Without the lock a collector could take it in the same moment: then it is as good as gone. */
    return store_lock_removal(store, true, &lock, &ignored) &&
           utimensat(folder, name, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

bool store_has_blob(struct image_store *store, const char *digest)
{
    return store_touch(store, store->blobs_fd, digest_hex(digest));
}

bool store_look(struct image_store *store, const char *digest, struct stat *facts)
{
    return fstatat(store->blobs_fd, digest_hex(digest), facts, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(facts->st_mode);
}

bool store_open_blob(struct image_store *store, const char *digest, int *fd, struct error *err)
{
    *fd = openat(store->blobs_fd, digest_hex(digest), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (*fd >= 0)
        return true;
    if (errno == ENOENT)
        (void)error_set(err, ERR_NOT_FOUND, "%s is not in the local image store", digest);
    else
        (void)error_errno(err, "open the blob %s", digest);
    return false;
}

bool store_read_blob(struct image_store *store, const char *digest, size_t max, struct arena *arena,
                     struct str *bytes, struct error *err)
{
    AUTO_FD int fd = -1;
    struct stat facts;
    char found[DIGEST_TEXT];

    if (!store_open_blob(store, digest, &fd, err))
        return false;
    if (fstat(fd, &facts) != 0)
        return error_errno(err, "look at the blob %s", digest);
    if (facts.st_size < 0 || (size_t)facts.st_size > max)
        return error_set(err, ERR_TOO_LARGE, "%s is over %zu bytes", digest, max);
    char *room = arena_alloc(arena, (size_t)facts.st_size + 1);
    if (!fd_read_full(fd, room, (size_t)facts.st_size, err))
        return error_wrap(err, "reading %s", digest);
    *bytes = (struct str){room, (size_t)facts.st_size};
    digest_of(*bytes, found);
    return strcmp(found, digest) == 0 ||
           error_set(err, ERR_CONTENT_HASH, "the stored blob %s is damaged: it hashes to %s",
                     digest, found);
}

bool store_put_blob(struct image_store *store, struct str bytes, char digest[DIGEST_TEXT],
                    struct error *err)
{
    char made[DIGEST_TEXT];

    digest_of(bytes, made);
    AUTO_FREE char *path = path_in(store->blobs, digest_hex(made));
    if (!store_has_blob(store, made) && !file_publish(path, bytes, 0644, err))
        return false;
    memcpy(digest, made, sizeof made);
    return true;
}

bool store_scratch(struct image_store *store, struct arena *arena, char **path, struct error *err)
{
    char name[DISK_TEMPORARY];

    disk_temporary(name);
    if (mkdirat(store->temporary_fd, name, 0700) != 0)
        return error_errno(err, "mkdir %s/%s", store->temporary, name);
    *path = arena_printf(arena, "%s/%s", store->temporary, name);
    return true;
}

void store_drop_scratch(struct image_store *store, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct error ignored;

    (void)!tree_remove(store->temporary_fd, slash ? slash + 1 : path, &ignored);
}

bool store_layer_begin(struct image_store *store, struct store_layer *layer, struct error *err)
{
    *layer = (struct store_layer){.store = store, .fd = -1};
    disk_temporary(layer->name);
    layer->fd = openat(store->temporary_fd, layer->name,
                       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (layer->fd < 0)
        return error_errno(err, "create %s/%s", store->temporary, layer->name);
    return layer_writer_init(&layer->writer, layer->fd, true, err);
}

bool store_layer_commit(struct store_layer *layer, struct image_layer *out, struct error *err)
{
    struct image_store *store = layer->store;
    struct image_layer made = {.coding = LAYER_ZSTD};
    AUTO_FD int removal = -1;

    if (!layer_writer_end(&layer->writer, &made, err) || !disk_sync(layer->fd, "a layer", err))
        return false;
    /* It may replace an equal one that a collector is about to take: then it must see the new. */
    if (!store_lock_removal(store, true, &removal, err))
        return false;
    if (renameat(store->temporary_fd, layer->name, store->blobs_fd, digest_hex(made.digest)) != 0)
        return error_errno(err, "publish the layer %s", made.digest);
    close(take_fd(&removal));
    layer->name[0] = '\0';
    if (!disk_sync(store->blobs_fd, store->blobs, err))
        return false;
    *out = made;
    return true;
}

void store_layer_finish(struct store_layer *layer)
{
    if (!layer->store)
        return;
    layer_writer_finish(&layer->writer);
    if (layer->fd >= 0)
        close(layer->fd);
    if (layer->name[0])
        (void)unlinkat(layer->store->temporary_fd, layer->name, 0);
    *layer = (struct store_layer){.fd = -1};
}
