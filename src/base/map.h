/* A hash map from byte strings to pointers. Keys are copied; values are borrowed.
 *
 * The hash is seeded per process, so that a peer who chooses keys cannot choose
 * collisions. Iteration order is not defined.
 */
#pragma once

#include "base/str.h"

struct map_entry;

struct map {
    struct map_entry **buckets;
    size_t n_buckets, count;
};

void map_finish(struct map *map);

/* The value stored under the key, or NULL. */
void *map_find(const struct map *map, struct str key);

/* Stores or replaces; returns the value that was there before, or NULL. */
void *map_put(struct map *map, struct str key, void *value);

/* Removes and returns the value, or NULL when there was none. */
void *map_remove(struct map *map, struct str key);

/* Walks every entry: start with *at = 0; false at the end. Not across put or remove. */
bool map_next(const struct map *map, size_t *at, struct str *key, void **value);
