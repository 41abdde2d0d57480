/* Sealed objects of versions that this worker made or fetched, kept so that it need not fetch them
 * again: files named by their digest in a folder, those used last kept longest.
 *
 * It is only a cache. A file gets its name when it is whole; what an earlier process left is hashed
 * before this one uses it, and every record is authenticated by whoever reads it anyway.
 */
#pragma once

#include "base/error.h"
#include "blob/object.h"

struct pack_cache;

/* At most `budget` bytes, or little more for a while. */
bool pack_cache_open(const char *folder, int64_t budget, struct pack_cache **cache,
                     struct error *err) MUST_USE;
void pack_cache_close(struct pack_cache *cache); /* accepts NULL */

/* The backend's objects through the cache, which both outlive: what is put stays here, what is
 * opened comes from here if it can. */
struct cached_backend {
    struct pack_cache *cache;
    const struct object_backend *behind;
    uint64_t n_fetched; /* objects that were not here */
};
struct object_backend object_backend_of_cache(struct cached_backend *cached);
