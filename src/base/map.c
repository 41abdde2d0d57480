#include "base/map.h"

#include <pthread.h>
#include <stdint.h>

#include "base/id.h"
#include "base/own.h"

/* Open addressing with linear probing; at most half full, so a free bucket ends every search. */
struct map_entry {
    uint64_t hash;
    void *value;
    size_t len;
    char key[];
};

static uint64_t seed[2];
static pthread_once_t seeded = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
    random_bytes(seed, sizeof seed);
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3: the cheapest hash that a chooser of keys without the seed cannot steer. */
static uint64_t hash_of(struct str key)
{
    pthread_once(&seeded, make_seed);

    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575, seed[1] ^ 0x646f72616e646f6d,
                     seed[0] ^ 0x6c7967656e657261, seed[1] ^ 0x7465646279746573};

    for (size_t at = 0; at <= key.len; at += 8) {
        size_t left = key.len - at;
        uint64_t word = left < 8 ? (uint64_t)key.len << 56 : 0;

        if (left)
            memcpy(&word, key.ptr + at, left < 8 ? left : 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void map_finish(struct map *map)
{
    for (size_t i = 0; i < map->n_buckets; i++)
        free(map->buckets[i]);
    free(map->buckets);
    *map = (struct map){0};
}

/* The bucket that holds the key, or the free one where it would go. */
static size_t seek(const struct map *map, uint64_t hash, struct str key)
{
    size_t at = hash & (map->n_buckets - 1);

    for (;; at = (at + 1) & (map->n_buckets - 1)) {
        const struct map_entry *entry = map->buckets[at];

        if (!entry)
            return at;
        if (entry->hash == hash && str_equal((struct str){entry->key, entry->len}, key))
            return at;
    }
}

static void grow(struct map *map)
{
    struct map bigger = {.n_buckets = map->n_buckets ? map->n_buckets * 2 : 16,
                         .count = map->count};

    bigger.buckets = calloc(bigger.n_buckets, sizeof(struct map_entry *));
    if (!bigger.buckets)
        abort();
    for (size_t i = 0; i < map->n_buckets; i++) {
        struct map_entry *entry = map->buckets[i];

        if (entry)
            bigger.buckets[seek(&bigger, entry->hash, (struct str){entry->key, entry->len})] =
                entry;
    }
    free(map->buckets);
    *map = bigger;
}

void *map_find(const struct map *map, struct str key)
{
    if (!map->count)
        return NULL;

    const struct map_entry *entry = map->buckets[seek(map, hash_of(key), key)];

    return entry ? entry->value : NULL;
}

void *map_put(struct map *map, struct str key, void *value)
{
    if ((map->count + 1) * 2 > map->n_buckets)
        grow(map);

    uint64_t hash = hash_of(key);
    size_t at = seek(map, hash, key);
    struct map_entry *entry = map->buckets[at];

    if (entry) {
        void *before = entry->value;

        entry->value = value;
        return before;
    }
    entry = alloc(sizeof *entry + key.len);
    *entry = (struct map_entry){.hash = hash, .value = value, .len = key.len};
    if (key.len)
        memcpy(entry->key, key.ptr, key.len);
    map->buckets[at] = entry;
    map->count++;
    return NULL;
}

/* Moves later entries of the same run back into the hole, so that searches still reach them. */
static void close_hole(struct map *map, size_t hole)
{
    size_t mask = map->n_buckets - 1;

    for (size_t at = (hole + 1) & mask; map->buckets[at]; at = (at + 1) & mask) {
        size_t home = map->buckets[at]->hash & mask;

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->buckets[hole] = map->buckets[at];
            map->buckets[at] = NULL;
            hole = at;
        }
    }
}

void *map_remove(struct map *map, struct str key)
{
    if (!map->count)
        return NULL;

    size_t at = seek(map, hash_of(key), key);
    struct map_entry *entry = map->buckets[at];

    if (!entry)
        return NULL;

    void *value = entry->value;

    free(entry);
    map->buckets[at] = NULL;
    map->count--;
    close_hole(map, at);
    return value;
}

bool map_next(const struct map *map, size_t *at, struct str *key, void **value)
{
    for (; *at < map->n_buckets; (*at)++) {
        const struct map_entry *entry = map->buckets[*at];

        if (entry) {
            *key = (struct str){entry->key, entry->len};
            *value = entry->value;
            (*at)++;
            return true;
        }
    }
    return false;
}
