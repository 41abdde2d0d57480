/* The local store inside this folder: an OCI image layout with our temporary files beside it.
 *
 *     oci/oci-layout index.json blobs/sha256/<hex>   the layout, readable by any OCI tool
 *     oci/steps/<project>/<digest>.json              finished build steps
 *     oci/locks/<project>.<digest>                   of steps that are done now
 *     oci/tmp/                                       unfinished work, wiped when nobody has it open
 *     oci/unpacked/<chain id>                        about an unpacked layer; its time: last use
 *     oci/holds/                                     what live processes use, see hold.c
 *     layers/<chain id>/                             unpacked layers
 *     caches/<project>/<cache id>/  bundles/<hex>/  drives/<hex>.ext4
 *                                                    not ours, but under the same budget
 *
 * The time of a blob, a step and a note in unpacked/ is when it was last used. Users look and touch
 * under the shared removal lock; a collector removes under the exclusive one, and only what has the
 * time it had when the collector decided. Nothing is removed in place: it is renamed into tmp/.
 */
#pragma once

#include "image/layer.h"
#include "image/reference.h"

struct image_store {
    char *work, *oci, *blobs, *temporary, *layers, *steps; /* paths */
    char *unpacked, *holds;
    int oci_fd, blobs_fd, temporary_fd, layers_fd, steps_fd;
    int unpacked_fd, holds_fd;
    int in_use; /* shared lock: unfinished work may be live */
};

/* The lock of whoever changes references; closing *fd gives it back. */
bool store_lock(struct image_store *store, int *fd, struct error *err) MUST_USE;

/* Shared by whoever finds and uses something, exclusive for whoever removes. Held for moments. */
bool store_lock_removal(struct image_store *store, bool is_shared, int *fd,
                        struct error *err) MUST_USE;

/* Whether the blob is here; to look is to use it. */
bool store_has_blob(struct image_store *store, const char *digest);

/* The facts about a blob, without using it; false when it is not here. */
bool store_look(struct image_store *store, const char *digest, struct stat *facts);

/* Marks folder/name as used now; false when it is not there. */
bool store_touch(struct image_store *store, int folder, const char *name);
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
/* What a reference or a digest means here; the canonical name, or "" for a digest. */
bool index_resolve(struct image_store *store, const char *reference, char digest[DIGEST_TEXT],
                   char name[REFERENCE_TEXT], struct error *err) MUST_USE;
bool index_put(struct image_store *store, const char *reference, const char *digest, int64_t size,
               int64_t created_ms, struct error *err) MUST_USE;
bool index_drop(struct image_store *store, const char *reference, struct error *err) MUST_USE;

/* Whether the server can give the image again: a deployment's, named helmr.local/…. */
bool reference_is_local(struct str reference);
