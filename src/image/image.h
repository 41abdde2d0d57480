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
#include "base/secret.h"

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
    char config_digest[DIGEST_TEXT];  /* of the configuration's blob */
    int64_t size, config_size;        /* of the manifest and of the configuration, in bytes */
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

/* Gives a stored image one more name, or moves the name to it. Everything of the image must be
 * here; of helmr.local/… only manifest and configuration, as the server has the layers too. */
bool image_tag(struct image_store *store, const char *reference, const char *digest,
               struct error *err) MUST_USE;
/* Takes a name away; ERR_NOT_FOUND when nothing has it. What the image consists of stays until it
 * is collected. */
bool image_untag(struct image_store *store, const char *reference, struct error *err) MUST_USE;

/* Work under way: everything that is found in the store or put into it until *fd is closed stays
 * there at least as long. Builds, pulls and whatever else takes several calls to name its result
 * begin with this. */
bool image_work(struct image_store *store, int *fd, struct error *err) MUST_USE;

/* A hold on an image, blobs and unpacked layers, until *fd is closed (or its process is dead):
 * collection and eviction leave it alone. ERR_NOT_FOUND when the manifest is not here. */
bool image_hold(struct image_store *store, const char *digest, int *fd, struct error *err) MUST_USE;
/* The same for unpacked layers, by the folders that image_unpack gave; ERR_NOT_FOUND when one of
 * them has gone meanwhile. */
bool image_hold_folders(struct image_store *store, const char *const *folders, size_t n, int *fd,
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

struct image_collected {
    int64_t blobs, layers, steps, caches, bundles, drives; /* how many went */
    int64_t bytes;                                         /* what they took */
    int64_t kept_bytes;                                    /* what is left in all */
};

struct image_collection {
    bool is_dry; /* counts only */
    bool steps;  /* finished steps of no named image go too */
};

/* Removes blobs, unpacked layers and steps that nothing reaches: no reference, no hold, no work
 * under way, no finished step. */
bool image_collect(struct image_store *store, const struct image_collection *what,
                   struct image_collected *collected, struct error *err) MUST_USE;

struct image_budget {
    int64_t bytes;              /* of blobs, unpacked layers, caches, bundles and drives together */
    int64_t idle_ms;            /* what was used within this time stays */
    const volatile bool *abort; /* or NULL; when set, no more is removed */
};

/* Makes room until all fits the budget, least recently used first: unpacked layers, caches,
 * bundles and drives that nobody uses, then layers' blobs that the server has too or a step can
 * make again. Images with a name other than helmr.local/… stay. ERR_CONFLICT when another process
 * collects or verifies. */
bool image_evict(struct image_store *store, const struct image_budget *budget,
                 struct image_collected *collected, struct error *err) MUST_USE;

enum { IMAGE_PROBLEMS_MAX = 64 };

struct image_verdict {
    int64_t blobs, bytes, references, layers, steps; /* what was looked at */
    int64_t stale_steps, stray_layers, leftovers;    /* of no use, and no damage */
    int64_t absent;    /* blobs that only the server has: fetched when needed */
    int64_t removed;   /* damaged blobs taken out of the store */
    size_t n_problems; /* may be more than are told */
    struct image_problem {
        char what[160]; /* a digest, a reference or a file */
        char text[256], cure[256];
    } problems[IMAGE_PROBLEMS_MAX];
};

/* Reads every byte back. True also when there are problems; `is_repair` takes damaged blobs out, so
 * that they are fetched or made again. */
bool image_verify(struct image_store *store, bool is_repair, image_progress *progress, void *arg,
                  struct image_verdict *verdict, struct error *err) MUST_USE;

/* Writes an image as an OCI archive: a tar file of a layout with one reference. The same image
 * gives the same bytes. */
bool image_export(struct image_store *store, const char *reference, int fd,
                  struct error *err) MUST_USE;

/* The same with every layer in gzip, under another digest: for tools that read no zstd. */
bool image_export_gzip(struct image_store *store, const char *reference, int fd,
                       struct error *err) MUST_USE;

/* Reads such an archive with one image in it and keeps that under the reference. Every digest is
 * checked; damage, another machine's image and a second image are refused. */
bool image_load(struct image_store *store, const char *reference, int fd, char digest[DIGEST_TEXT],
                struct error *err) MUST_USE;

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
    const struct image_mount { /* cache mounts: host folder on a path inside, outer ones first */
        const char *source, *target;
    } *mounts;
    size_t n_mounts;
    const struct image_secret { /* build secrets: a file 0400 of this value, never on a disk */
        const char *name, *path;
        const struct secret *value;
    } *secrets;
    size_t n_secrets;
    int64_t limit_ms; /* a duration */
};

enum image_step_status {
    IMAGE_STEP_STARTED,
    IMAGE_STEP_DONE,
    IMAGE_STEP_CACHED, /* done before, or by another build while this one waited */
    IMAGE_STEP_FAILED,
};

struct image_step_note {
    enum image_step_status status;
    size_t index, total; /* from 1 */
    const char *text;
    int64_t ms; /* since it was begun */
};

/* What a finished step left. */
struct image_step_layer {
    bool has_layer;
    struct image_layer layer; /* without a chain */
};

enum image_step_find { IMAGE_STEP_HIT, IMAGE_STEP_YOURS, IMAGE_STEP_BUSY };

/* Called from several threads at once, one per image; `ctx` is what `enter` returned for the
 * image. Only `run` must be there. */
struct image_build_hooks {
    void *(*enter)(void *arg, const char *image_id, struct error *err); /* NULL: failed */
    void (*leave)(void *ctx);
    /* ERR_UNPROCESSABLE: the step itself failed (its output was given to `log`); anything else is
     * the platform's fault and the build is tried again. */
    bool (*run)(void *ctx, const struct image_step_run *step, struct error *err);
    void (*step)(void *ctx, const struct image_step_note *note);
    void (*log)(void *ctx, struct str text);
    bool (*secret)(void *ctx, const char *name, struct secret *value, struct error *err);

    /* The steps other workers finished. `find` is asked again after a while when it says BUSY;
     * after YOURS the step is done here and told to `record`, which keeps the layer too. `fetch`
     * brings a layer that is not in the store. */
    bool (*find)(void *ctx, const char *key, enum image_step_find *found,
                 struct image_step_layer *layer, struct error *err);
    bool (*record)(void *ctx, const char *key, const struct image_step_layer *layer,
                   struct error *err);
    bool (*fetch)(void *ctx, const char *digest, int64_t size, struct error *err);
    void *arg;
};

struct registries;

struct image_search {
    struct registries *registries; /* NULL: none may be asked */
    bool is_registry_first;        /* else the local store is */
    const volatile bool *abort;    /* or NULL */
    image_progress *progress;
    void *arg;
};

/* The image a reference means, in the store with everything it consists of: found there, pulled, or
 * made here when no registry answers and it can be made. *cached: it was there already. */
bool image_obtain(struct image_store *store, const struct image_search *search,
                  const char *reference, char digest[DIGEST_TEXT], bool *cached,
                  struct error *err) MUST_USE;

struct image_build {
    struct str plans;              /* the manifest's images list: [{"id","steps":[…]}, …] as JSON */
    const char *source_dir;        /* the unpacked project */
    const char *cache_dir;         /* for cache mounts: <work dir>/caches/<project> */
    const char *scope;             /* the project's id: finished steps are found within it only */
    struct registries *registries; /* for `from`; NULL: the local store and what can be made here */
    bool no_cache;                 /* nothing done before counts, and registries are asked first */
    size_t parallel;               /* images at once; 0: one */
    int64_t step_limit_ms;         /* of one run step, a duration */
    int64_t deadline_ms;           /* boot time, 0: none */
    /* Anybody may set it: the build ends soon with ERR_CANCELLED. The first image that fails
     * sets it too, so that what is under way for the others ends. May be NULL. */
    volatile bool *abort;
};

/* Builds every plan once, those that do not wait for each other at the same time. Every layer
 * becomes an OCI blob, every step is found again by its digest, and builds that reach the same step
 * together do it once. *images has one per plan, in their order, and lives in the arena. On
 * failure err names the image and the step. */
bool image_build(struct image_store *store, const struct image_build *build,
                 const struct image_build_hooks *hooks, struct arena *arena,
                 const struct image **images, size_t *n_images, struct error *err) MUST_USE;

/* The project archive: checked and unpacked below `folder` (openat2, no escapes, no special files).
 * ERR_ARCHIVE_INVALID, ERR_ARCHIVE_TOO_LARGE. */
bool archive_unpack(int tar_fd, const char *folder, int64_t max_bytes, int64_t max_entries,
                    struct error *err) MUST_USE;

/* A folder as a deterministic tar (sorted, times and owners zeroed), for bundles. */
bool archive_pack(const char *folder, int tar_fd, struct error *err) MUST_USE;
