/* Registries: images brought here and sent there by the OCI distribution API.
 *
 * Nothing is used before its digest was verified: a blob is published under its name only when
 * whole, the manifest after its blobs, the reference after the manifest. Credentials go to the
 * host they were given for, or to a token service of the same domain, and are in no error text.
 */
#pragma once

#include "image/image.h"

/* Credentials, mirrors, certificate authorities and tokens; safe for several threads. */
struct registries;

struct registry_settings {
    const char *auth_file; /* Docker's config.json */
    const char *ca_file;   /* PEM, instead of the system's authorities */
    const char *mirrors;   /* "docker.io=https://one,docker.io=https://two", tried in order */
}; /* NULL or "": none */

/* ERR_INVALID names the setting that cannot be used. */
bool registries_open(const struct registry_settings *settings, struct registries **registries,
                     struct error *err) MUST_USE;
void registries_close(struct registries *registries);

struct image_transfer {
    struct registries *registries;
    const volatile bool *abort; /* or NULL; when set to true the transfer ends: ERR_CANCELLED */
    /* One line for people, a few per second at most, from any thread but one at a time:
     * "node:24: 3 of 5 layers, 41.2 of 88.0 MiB". Or NULL. */
    image_progress *progress;
    void *arg;
};

/* Errors of all three: ERR_UNAVAILABLE: no registry answered (DNS, connection, TLS, silence), and
 * only then; ERR_NOT_FOUND; ERR_UNAUTHENTICATED; ERR_FORBIDDEN; ERR_LIMIT: asked to wait for too
 * long; ERR_CONTENT_HASH: a digest or size is not as promised; ERR_TOO_LARGE; ERR_UNSUPPORTED: a
 * kind of image that is not taken, or none for this platform; ERR_CANCELLED; ERR_INTERNAL: the
 * registry failed, or this host's disk. */

/* The digest of this platform's manifest, asked of mirrors, then of the registry. */
bool image_resolve(struct image_store *store, const struct image_transfer *transfer,
                   const char *reference, char digest[DIGEST_TEXT], struct error *err) MUST_USE;

/* Brings the whole image into the store and records the canonical reference. */
bool image_pull(struct image_store *store, const struct image_transfer *transfer,
                const char *reference, char digest[DIGEST_TEXT], struct error *err) MUST_USE;

/* Sends a local image (reference or digest) to host/repository:tag. */
bool image_push(struct image_store *store, const struct image_transfer *transfer,
                const char *reference, const char *destination, char digest[DIGEST_TEXT],
                struct error *err) MUST_USE;
