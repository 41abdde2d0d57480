/* Chunk ids and the pack each is in. Ids are keyed hashes, so their own bytes spread them. */
#pragma once

#include "blob/chunk.h"

struct chunk_entry {
    uint8_t id[CHUNK_ID_LEN];
    uint32_t pack, len; /* len 0: a free place */
};

struct chunk_table {
    struct chunk_entry *entries;
    size_t n, cap;
};

/* NULL when it is not there. */
const struct chunk_entry *chunk_table_find(const struct chunk_table *table,
                                           const uint8_t id[CHUNK_ID_LEN]);
/* One that is there already stays as it is. */
void chunk_table_add(struct chunk_table *table, const uint8_t id[CHUNK_ID_LEN], uint32_t pack,
                     uint32_t len);
void chunk_table_finish(struct chunk_table *table);
