/* The chunks of a stored template, at hand in its memory: a checkpoint that grew from it needs not
 * fetch them. For any number of threads.
 */
#pragma once

#include "blob/manifest.h"
#include "engine/engine.h"

struct template_chunks;

/* The manifest is that of the image, the stream of that name its own. ERR_UNSUPPORTED when the
 * image cannot be looked into. */
bool template_chunks_make(const struct saved_image *image, const struct manifest *manifest,
                          const char *stream, struct template_chunks **chunks,
                          struct error *err) MUST_USE;
void template_chunks_destroy(struct template_chunks *chunks); /* accepts NULL */

/* What one reader of them has for itself; blob/loader.h wants it so. */
struct chunk_finder {
    const struct template_chunks *chunks;
    char room[CHUNK_MAX];
};
bool chunk_finder_find(void *arg, const uint8_t id[CHUNK_ID_LEN], size_t len, struct str *bytes);
