/* Reads every object of the store back, beside a server that runs or without one.
 *
 * What is under the store's keys is opened whole; of what only workers can open, the hash of the
 * file must be its name.
 */
#pragma once

#include "blob/blob.h"
#include "server/keys.h"
#include "store/store.h"

struct store_verify {
    struct store *store;
    struct blob_store *blobs;
    const struct keys *keys;
    /* One that is damaged, missing or cannot be opened. */
    void (*complain)(void *arg, const char *id, const char *class, const char *text);
    void *arg;
    int64_t n_objects, n_bytes, n_damaged; /* bytes: of the files */
};

/* False only when the database cannot be read. */
bool store_verify_all(struct store_verify *verify, struct error *err) MUST_USE;
