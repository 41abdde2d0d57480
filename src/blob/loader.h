/* Reads back what a saver saved. The manifest must be the one that was asked for, and every chunk
 * that is fetched is checked against its id before a byte of it is handed on.
 */
#pragma once

#include "blob/manifest.h"
#include "blob/object.h"

struct loader;

/* Reads the manifest. Backend and keys are borrowed until the loader is destroyed. */
bool loader_create(const struct object_backend *backend, const struct seal_keys *keys,
                   const char *digest, struct loader **loader, struct error *err) MUST_USE;
void loader_destroy(struct loader *loader); /* accepts NULL */

/* Whether the chunk is at hand: bytes that are known to be its own, good until the next call. What
 * is at hand is neither fetched nor checked. */
typedef bool loader_find(void *arg, const uint8_t id[CHUNK_ID_LEN], size_t len, struct str *bytes);
void loader_use(struct loader *loader, loader_find *find, void *arg);

const struct manifest *loader_manifest(const struct loader *loader);

/* The whole stream, in order. ERR_NOT_FOUND when the manifest has none of that name or an object
 * is gone; ERR_DAMAGED, ERR_KEY_MISSING. What the sink got before an error is right as far as it
 * goes, and not all. */
bool loader_stream(struct loader *loader, const char *name, struct seal_sink sink,
                   struct error *err) MUST_USE;
