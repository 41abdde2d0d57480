/* Manifests and configurations: an image as the JSON documents OCI prescribes.
 *
 * What this product has no use for (labels, entry point, history) is carried along, so that an
 * image built on another keeps it.
 */
#pragma once

#include "image/store.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

#if defined(__aarch64__)
#define IMAGE_ARCHITECTURE "arm64"
#else
#define IMAGE_ARCHITECTURE "amd64"
#endif

struct image_document {
    struct image image;
    struct str labels, entrypoint, command; /* raw JSON, or empty */
    struct str history;                     /* entries of the list without its brackets */
    int64_t created_ms;
};

/* What an image consists of: manifest, configuration, layers from the lowest. */
struct manifest_blobs {
    struct manifest_blob {
        char digest[DIGEST_TEXT];
        int64_t size;
        struct str media_type;
    } *items;
    size_t n;
};

enum { BLOB_MANIFEST, BLOB_CONFIG, BLOB_LAYERS }; /* where they are in the list */

/* Of any platform's image; only the manifest itself must be here. */
bool manifest_load(struct image_store *store, const char *digest, struct arena *arena,
                   struct manifest_blobs *blobs, struct error *err) MUST_USE;

bool document_load(struct image_store *store, const char *digest, struct arena *arena,
                   struct image_document *document, struct error *err) MUST_USE;

/* The same of a manifest that is not in the store yet; its configuration is. image.digest stays
 * empty. */
bool document_read(struct image_store *store, struct str manifest, struct arena *arena,
                   struct image_document *document, struct error *err) MUST_USE;

/* Writes configuration and manifest as blobs, fills image.digest and *size (of the manifest). */
bool document_save(struct image_store *store, struct image_document *document, int64_t *size,
                   struct error *err) MUST_USE;

/* Adds a layer and its chain id; NULL adds none. Either way a line of history is written. */
void document_add(struct image_document *document, const struct image_layer *layer,
                  const char *created_by, struct arena *arena);

/* Saves under a reference; every layer must be in the store. */
bool document_publish(struct image_store *store, struct image_document *document,
                      const char *reference, struct error *err) MUST_USE;
