/* Callers known by the hash of their token, each for at most a second.
 *
 * A revocation clears it at once in this process and, by notification, in the others; the
 * second bounds what a lost notification can cost.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/map.h"

struct caller;

struct caller_cache {
    pthread_mutex_t lock;
    struct map entries;
    uint64_t generation; /* raised by clear, so that a read begun before it is not kept */
};

void caller_cache_init(struct caller_cache *cache);
void caller_cache_finish(struct caller_cache *cache);

bool caller_cache_find(struct caller_cache *cache, const uint8_t hash[BLAKE2B_LEN],
                       struct caller *caller);

/* Taken before the database is read, handed back with what was read. */
uint64_t caller_cache_generation(struct caller_cache *cache);
void caller_cache_put(struct caller_cache *cache, const uint8_t hash[BLAKE2B_LEN],
                      const struct caller *caller, uint64_t generation);
void caller_cache_clear(struct caller_cache *cache);
