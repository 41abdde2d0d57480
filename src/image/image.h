/* Images: a local store of OCI blobs and references, unpacked layers, and build steps.
 *
 * The store lies below <work dir>/oci (blobs/sha256/<hex>, index.json) and unpacked layers below
 * <work dir>/layers/<chain id>, immutable once published. Every function may be called from
 * several threads and processes at once: what changes the list of references holds the store's
 * lock, everything else is published under the name of its content.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum { DIGEST_TEXT = 72 }; /* sha256:<64 hex> and NUL */

struct image_store;

enum layer_coding { LAYER_TAR, LAYER_GZIP, LAYER_ZSTD };

struct image_layer {
    char digest[DIGEST_TEXT];  /* of the blob */
    char diff_id[DIGEST_TEXT]; /* of the tar */
    char chain[65];            /* hex chain id: the folder's name below layers/ */
    int64_t size;
    enum layer_coding coding;
};

struct image_config {
    struct str workdir;    /* "/" when none */
    struct str user;       /* empty: root */
    const struct str *env; /* NAME=value */
    size_t n_env;
};

struct image {
    char digest[DIGEST_TEXT];         /* of the manifest */
    const struct image_layer *layers; /* lowest first */
    size_t n_layers;
    struct image_config config;
};

bool image_store_open(const char *work_dir, struct image_store **store, struct error *err) MUST_USE;
void image_store_close(struct image_store *store);

/* A reference ("node:24-bookworm-slim") or digest of the local store. ERR_NOT_FOUND otherwise. */
bool image_find(struct image_store *store, const char *reference, struct arena *arena,
                struct image *image, struct error *err) MUST_USE;

/* Makes sure every layer is unpacked; paths (absolute, lowest first) go to *folders. */
bool image_unpack(struct image_store *store, const struct image *image, struct arena *arena,
                  const char *const **folders, struct error *err) MUST_USE;

/* Makes an image of one layer from a folder and stores it under the reference. `config` may be
 * NULL. */
bool image_import_directory(struct image_store *store, const char *reference, const char *folder,
                            const struct image_config *config, char digest[DIGEST_TEXT],
                            struct error *err) MUST_USE;

/* Every reference, for `helmr image list`. */
struct image_entry {
    struct str reference;
    char digest[DIGEST_TEXT];
    int64_t size;
    int64_t created_ms;
};
bool image_list(struct image_store *store, struct arena *arena, const struct image_entry **entries,
                size_t *n, struct error *err) MUST_USE;

typedef void image_progress(void *arg, const char *line);

/* Makes node:… or debian:… locally (execution.md §7.5). Idempotent unless force. */
bool image_bootstrap(struct image_store *store, const char *reference, bool force,
                     image_progress *progress, void *arg, char digest[DIGEST_TEXT],
                     struct error *err) MUST_USE;

/* One run step inside a sandbox: the worker knows engines, this layer does not. */
struct image_step_run {
    const char *const *layers; /* below, lowest first */
    size_t n_layers;
    const char *upper; /* empty directory for what the step changes */
    const char *const *argv;
    const char *const *env; /* NAME=value */
    const char *workdir, *user;
    const struct image_mount { /* cache mounts: host folder on a path inside */
        const char *source, *target;
    } *mounts;
    size_t n_mounts;
};

struct image_build_hooks {
    /* ERR_UNPROCESSABLE: the step itself failed (its output was given to `log`); anything else is
     * the platform's fault and the build is tried again. */
    bool (*run)(void *arg, const struct image_step_run *step, struct error *err);
    /* Progress: step index of total, its text, whether it came from the cache, started or done. */
    void (*step)(void *arg, const char *image_id, size_t index, size_t total, const char *text,
                 bool cached, bool done, int64_t ms);
    void (*log)(void *arg, const char *image_id, struct str text);
    void *arg;
};

struct image_build {
    struct str plan;        /* the manifest's image object: {"id","steps":[…]} as JSON */
    struct str all_plans;   /* the manifest's images list, for copy from another image */
    const char *source_dir; /* the unpacked project */
    const char *cache_dir;  /* for cache mounts: <work dir>/caches/<project> */
    bool no_cache;
};

/* Runs the plan; every layer becomes an OCI blob, every step is found again by its digest. On
 * failure err names the step. */
bool image_build(struct image_store *store, const struct image_build *build,
                 const struct image_build_hooks *hooks, struct arena *arena, struct image *image,
                 struct error *err) MUST_USE;

/* The project archive: checked and unpacked below `folder` (openat2, no escapes, no special files).
 * ERR_ARCHIVE_INVALID, ERR_ARCHIVE_TOO_LARGE. */
bool archive_unpack(int tar_fd, const char *folder, int64_t max_bytes, int64_t max_entries,
                    struct error *err) MUST_USE;

/* A folder as a deterministic tar (sorted, times and owners zeroed), for bundles. */
bool archive_pack(const char *folder, int tar_fd, struct error *err) MUST_USE;
