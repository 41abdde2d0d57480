/* Saves byte streams: cut into chunks, those of the parent manifest and of this one stored once,
 * the others packed, sealed and put into a backend, and all of it listed in one manifest.
 *
 *     saver_create(&plan, &saver);
 *     saver_stream(saver, "memory", source, &err) && saver_fact(saver, "run", id, &err) &&
 *         saver_end(saver, &saved, &err);
 *     saver_destroy(saver);
 *
 * After an error the saver can only be destroyed; packs that were put already are garbage nobody
 * refers to. Plain bytes stay in memory, which is wiped.
 */
#pragma once

#include "blob/manifest.h"
#include "blob/object.h"

struct saver;

struct saver_plan {
    const struct object_backend *backend; /* borrowed, as all of these */
    const struct seal_keys *keys;
    const char *kind;
    const struct manifest *parent; /* NULL: none */
    const char *parent_digest;
    struct chunk_sizes sizes; /* zeroed: chunk_sizes_file */
    int level;                /* of zstd; 0: SEAL_LEVEL */
};

struct saver_source {
    /* Up to `room` bytes; *got == 0 is the end. */
    bool (*read)(void *arg, void *bytes, size_t room, size_t *got, struct error *err);
    void *arg;
};

struct saved {
    char manifest[SHA256_HEX];
    const char (*packs)[SHA256_HEX]; /* all it refers to; the saver's until it is destroyed */
    size_t n_packs;
    size_t n_new_packs; /* the last of them, which were put now */
    uint64_t raw;       /* bytes of all streams */
    uint64_t raw_new;   /* of chunks that were nowhere yet */
    uint64_t stored;    /* sealed bytes put, with the manifest */
    uint64_t manifest_size;
};

/* A source that reads *fd to its end. */
struct saver_source saver_source_fd(const int *fd);
struct saver_source saver_source_memory(struct str *rest);

void saver_create(const struct saver_plan *plan, struct saver **saver);
bool saver_stream(struct saver *saver, const char *name, struct saver_source source,
                  struct error *err) MUST_USE;
bool saver_fact(struct saver *saver, const char *name, struct str value,
                struct error *err) MUST_USE;
bool saver_end(struct saver *saver, struct saved *saved, struct error *err) MUST_USE;
void saver_destroy(struct saver *saver); /* accepts NULL */
