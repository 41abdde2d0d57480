/* Layers as a worker handles them, for the figures layer_make, layer_apply and ext4_write and for
 * the tests against other tools.
 *
 *   layer make WORK REFERENCE FOLDER...   an image in the store at WORK: the first folder is a
 *                                         whole root, the others are upper folders of overlayfs
 *   layer recode WORK REFERENCE NEW       the image with gzip layers, under another reference
 *   layer apply WORK REFERENCE            its layers, unpacked anew if they were already
 *   layer drive WORK REFERENCE FILE       its layers merged into a file system, until it is on the
 *                                         disk
 *
 * One JSON object goes to stdout; its seconds are those of the work itself.
 */
#include <fcntl.h>
#include <stdio.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "image/config.h"
#include "image/ext4.h"
#include "image/recode.h"

static double seconds_since(int64_t begun_ns)
{
    return (double)(time_boot_ns() - begun_ns) / 1e9;
}

static bool write_layer(struct image_store *store, const char *folder, enum layer_tree kind,
                        struct image_layer *layer, struct error *err)
{
    AUTO(store_layer_finish) struct store_layer writing = {0};
    AUTO_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", folder);
    return store_layer_begin(store, &writing, err) &&
           layer_write_tree(&writing.writer, fd, kind, 0, err) &&
           store_layer_commit(&writing, layer, err);
}

static bool make(struct image_store *store, const char *reference, char **folders, int n,
                 struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct image_document document = {0};
    double seconds = 0;

    for (int i = 0; i < n; i++) {
        enum layer_tree kind = i == 0 ? LAYER_OF_ROOT : LAYER_OF_OVERLAY;
        struct image_layer layer;
        /* What others wrote before is not to be counted. */
        sync();
        int64_t begun = time_boot_ns();
        if (!write_layer(store, folders[i], kind, &layer, err))
            return false;
        seconds += seconds_since(begun);
        document_add(&document, &layer, "layer make", &arena);
    }
    if (!document_publish(store, &document, reference, err))
        return false;
    printf("{\"seconds\":%.6f,\"digest\":\"%s\",\"blob\":\"%s/%s\"}\n", seconds,
           document.image.digest, store->blobs, digest_hex(document.image.layers[0].digest));
    return true;
}

static bool recode(struct image_store *store, const char *reference, char **to, int n,
                   struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    char digest[DIGEST_TEXT];
    struct image image;

    if (n != 1)
        return error_set(err, ERR_INVALID, "recode needs one new reference");
    int64_t begun = time_boot_ns();
    if (!image_find(store, reference, &arena, &image, err) ||
        !image_recode(store, image.digest, LAYER_GZIP, digest, err) ||
        !image_tag(store, to[0], digest, err))
        return false;
    printf("{\"seconds\":%.6f,\"digest\":\"%s\"}\n", seconds_since(begun), digest);
    return true;
}

static bool apply(struct image_store *store, const char *reference, char **none, int n,
                  struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *const *folders;
    struct image image;

    (void)none;
    (void)n;
    if (!image_find(store, reference, &arena, &image, err))
        return false;
    for (size_t i = 0; i < image.n_layers; i++)
        if (!tree_remove(store->layers_fd, image.layers[i].chain, err))
            return false;
    sync();
    int64_t begun = time_boot_ns();
    if (!image_unpack(store, &image, &arena, &folders, err))
        return false;
    printf("{\"seconds\":%.6f,\"folders\":[", seconds_since(begun));
    for (size_t i = 0; i < image.n_layers; i++)
        printf("%s\"%s\"", i ? "," : "", folders[i]);
    printf("]}\n");
    return true;
}

static bool drive(struct image_store *store, const char *reference, char **to, int n,
                  struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *const *folders;
    struct image image;

    if (n != 1)
        return error_set(err, ERR_INVALID, "drive needs a file");
    AUTO_FD int fd = open(to[0], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "create %s", to[0]);
    if (!image_find(store, reference, &arena, &image, err) ||
        !image_unpack(store, &image, &arena, &folders, err))
        return false;
    const struct ext4_plan plan = {.layers = folders,
                                   .n_layers = image.n_layers,
                                   .seed = str_of(image.digest)};
    sync();
    int64_t begun = time_boot_ns();
    if (!ext4_write(&plan, fd, err))
        return false;
    if (fsync(fd) != 0)
        return error_errno(err, "sync %s", to[0]);
    printf("{\"seconds\":%.6f}\n", seconds_since(begun));
    return true;
}

static const struct {
    const char *name;
    bool (*run)(struct image_store *store, const char *reference, char **more, int n,
                struct error *err);
} commands[] = {
    {"make",   make  },
    {"recode", recode},
    {"apply",  apply },
    {"drive",  drive },
};

int main(int argc, char **argv)
{
    struct image_store *store = NULL;
    struct error err;
    bool ok =
        error_set(&err, ERR_INVALID, "usage: layer make|recode|apply|drive WORK REFERENCE ...");

    for (size_t i = 0; argc >= 4 && i < COUNT_OF(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            ok = image_store_open(argv[2], &store, &err) &&
                 commands[i].run(store, argv[3], argv + 4, argc - 4, &err);
    image_store_close(store);
    if (!ok)
        (void)fprintf(stderr, "layer: %s\n", err.text);
    return ok ? 0 : 1;
}
