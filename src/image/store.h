/* The local store inside this folder: an OCI image layout with our temporary files beside it.
 *
 *     oci/oci-layout index.json blobs/sha256/<hex>   the layout, readable by any OCI tool
 *     oci/steps/<digest>.json                        finished build steps
 *     oci/tmp/                                       unfinished work, wiped when nobody has it open
 *     layers/<chain id>/                             unpacked layers
 */
#pragma once

#include "image/layer.h"

struct image_store {
    char *oci, *blobs, *temporary, *layers, *steps; /* paths */
    int oci_fd, blobs_fd, temporary_fd, layers_fd, steps_fd;
    int in_use; /* shared lock: unfinished work may be live */
};

/* The lock of whoever changes references; closing *fd gives it back. */
bool store_lock(struct image_store *store, int *fd, struct error *err) MUST_USE;

bool store_has_blob(struct image_store *store, const char *digest);
bool store_open_blob(struct image_store *store, const char *digest, int *fd,
                     struct error *err) MUST_USE;

/* A small blob, checked against its digest. ERR_NOT_FOUND when it is not here. */
bool store_read_blob(struct image_store *store, const char *digest, size_t max, struct arena *arena,
                     struct str *bytes, struct error *err) MUST_USE;
bool store_put_blob(struct image_store *store, struct str bytes, char digest[DIGEST_TEXT],
                    struct error *err) MUST_USE;

/* A fresh folder for unfinished work; its path lives in the arena. */
bool store_scratch(struct image_store *store, struct arena *arena, char **path,
                   struct error *err) MUST_USE;

/* Removes a scratch folder; a failure leaves it to the next wipe. */
void store_drop_scratch(struct image_store *store, const char *path);

/* A layer being written; commit puts it among the blobs, finish drops what was not committed. */
struct store_layer {
    struct image_store *store;
    char name[DISK_TEMPORARY];
    int fd;
    struct layer_writer writer;
};
bool store_layer_begin(struct image_store *store, struct store_layer *layer,
                       struct error *err) MUST_USE;
bool store_layer_commit(struct store_layer *layer, struct image_layer *out,
                        struct error *err) MUST_USE;
void store_layer_finish(struct store_layer *layer);

/* References. `put` replaces; the caller holds the lock. */
bool index_find(struct image_store *store, const char *reference, char digest[DIGEST_TEXT],
                struct error *err) MUST_USE;
bool index_put(struct image_store *store, const char *reference, const char *digest, int64_t size,
               int64_t created_ms, struct error *err) MUST_USE;
