/* Manifests as registries give them: one image, or a list with an image per platform.
 *
 * The bytes are kept as they came: their digest is the image's name.
 */
#pragma once

#include "image/registry_line.h"

enum { MANIFEST_LIMIT = 4 << 20, CONFIG_LIMIT = 8 << 20 };

struct registry_manifest {
    struct str bytes; /* in the arena */
    char digest[DIGEST_TEXT];
    char media_type[128];
    char config[DIGEST_TEXT];
    int64_t config_size;
};

/* This platform's manifest of a tag or digest. */
bool registry_manifest_get(struct registry_line *line, const struct reference *reference,
                           struct arena *arena, struct registry_manifest *manifest,
                           struct error *err) MUST_USE;

/* The same from bytes already here; `digest` is theirs. */
bool registry_manifest_read(struct str bytes, const char *digest, struct arena *arena,
                            struct registry_manifest *manifest, struct error *err) MUST_USE;
