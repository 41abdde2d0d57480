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
    int64_t blobs, layers, steps, caches, bundles; /* how many went */
    int64_t bytes;                                 /* what they took */
    int64_t kept_bytes;                            /* what is left in all */
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
    int64_t bytes;   /* of blobs, unpacked layers, caches and bundles together */
    int64_t idle_ms; /* what was used within this time stays */
};

/* Makes room until all fits the budget, least recently used first: unpacked layers, caches and
 * bundles that nobody uses, then layers' blobs that the server has too or a step can make again.
 * Images with a name other than helmr.local/… stay. */
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
