#include "server/caller_cache.h"

#include <stdlib.h>

#include "base/own.h"
#include "base/time.h"
#include "server/caller.h"

enum { FRESH_MS = 1000, ENTRIES_MAX = 8192 };

struct entry {
    struct caller caller;
    int64_t known_ms; /* boot time */
};

void caller_cache_init(struct caller_cache *cache)
{
    *cache = (struct caller_cache){0};
    pthread_mutex_init(&cache->lock, NULL);
}

static void drop_all(struct caller_cache *cache)
{
    size_t at = 0;
    struct str key;
    void *entry;
    while (map_next(&cache->entries, &at, &key, &entry))
        free(entry);
    map_finish(&cache->entries);
    cache->entries = (struct map){0};
}

void caller_cache_finish(struct caller_cache *cache)
{
    drop_all(cache);
    pthread_mutex_destroy(&cache->lock);
}

static struct str key_of(const uint8_t hash[BLAKE2B_LEN])
{
    return (struct str){(const char *)hash, BLAKE2B_LEN};
}

bool caller_cache_find(struct caller_cache *cache, const uint8_t hash[BLAKE2B_LEN],
                       struct caller *caller)
{
    pthread_mutex_lock(&cache->lock);
    const struct entry *entry = map_find(&cache->entries, key_of(hash));
    bool found = entry && time_boot_ms() - entry->known_ms < FRESH_MS;
    if (found)
        *caller = entry->caller;
    pthread_mutex_unlock(&cache->lock);
    return found;
}

uint64_t caller_cache_generation(struct caller_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    uint64_t generation = cache->generation;
    pthread_mutex_unlock(&cache->lock);
    return generation;
}

void caller_cache_put(struct caller_cache *cache, const uint8_t hash[BLAKE2B_LEN],
                      const struct caller *caller, uint64_t generation)
{
    struct entry *entry = alloc(sizeof *entry);
    *entry = (struct entry){*caller, time_boot_ms()};

    pthread_mutex_lock(&cache->lock);
    if (cache->entries.count >= ENTRIES_MAX)
        drop_all(cache);
    if (cache->generation == generation)
        free(map_put(&cache->entries, key_of(hash), entry));
    else
        free(entry);
    pthread_mutex_unlock(&cache->lock);
}

void caller_cache_clear(struct caller_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    drop_all(cache);
    cache->generation++;
    pthread_mutex_unlock(&cache->lock);
}
