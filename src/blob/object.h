/* Where sealed objects are kept, as the rest of the store sees it: they are put once, never change,
 * and are opened by the SHA-256 of their sealed bytes. A directory is one such place, the server's
 * object routes another.
 */
#pragma once

#include "blob/blob.h"
#include "blob/seal_reader.h"
#include "blob/seal_writer.h"

struct object_backend {
    void *arg;
    /* An empty file without a name that can be written and read; NULL: it will be in memory. */
    bool (*draft)(void *arg, int *fd, struct error *err);
    /* Keeps the whole file; durable when it returns. An object that is there already is kept. */
    bool (*put)(void *arg, const struct seal_facts *facts, int fd, struct error *err);
    /* ERR_NOT_FOUND when there is none. The caller owns the descriptor, and reads at offsets. */
    bool (*open)(void *arg, const char *digest, int *fd, struct error *err);
};

/* Objects as files of a blob store. */
struct object_backend object_backend_of(struct blob_store *store);

bool object_draft(const struct object_backend *backend, int *fd, struct error *err) MUST_USE;

/* Reads every byte: the digest unless it is NULL, each record, and each chunk of a pack. */
bool object_verify(const struct seal_keys *keys, enum seal_class class, const char *digest,
                   struct seal_source source, struct error *err) MUST_USE;
