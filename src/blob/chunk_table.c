#include "blob/chunk_table.h"

#include "base/own.h"
#include "blob/bytes.h"

enum { FIRST_CAP = 1024 };

/* Where the id is, or the free place it belongs to. The table is never full. */
static struct chunk_entry *place_of(const struct chunk_table *table, const uint8_t *id)
{
    size_t at = (size_t)get_u64(id) & (table->cap - 1);

    while (table->entries[at].len > 0 && memcmp(table->entries[at].id, id, CHUNK_ID_LEN) != 0)
        at = (at + 1) & (table->cap - 1);
    return &table->entries[at];
}

const struct chunk_entry *chunk_table_find(const struct chunk_table *table,
                                           const uint8_t id[CHUNK_ID_LEN])
{
    const struct chunk_entry *entry = table->cap ? place_of(table, id) : NULL;

    return entry && entry->len > 0 ? entry : NULL;
}

static void grow(struct chunk_table *table)
{
    struct chunk_table larger = {.n = table->n, .cap = table->cap ? table->cap * 2 : FIRST_CAP};

    larger.entries = alloc(larger.cap * sizeof *larger.entries);
    memset(larger.entries, 0, larger.cap * sizeof *larger.entries);
    for (size_t i = 0; i < table->cap; i++) {
        if (table->entries[i].len > 0)
            *place_of(&larger, table->entries[i].id) = table->entries[i];
    }
    free(table->entries);
    *table = larger;
}

void chunk_table_add(struct chunk_table *table, const uint8_t id[CHUNK_ID_LEN], uint32_t pack,
                     uint32_t len)
{
    if (table->n * 2 >= table->cap)
        grow(table);
    struct chunk_entry *entry = place_of(table, id);
    if (entry->len > 0)
        return;
    memcpy(entry->id, id, CHUNK_ID_LEN);
    entry->pack = pack;
    entry->len = len;
    table->n++;
}

void chunk_table_finish(struct chunk_table *table)
{
    free(table->entries);
    *table = (struct chunk_table){0};
}
