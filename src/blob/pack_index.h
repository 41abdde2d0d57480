/* The index record of a pack and the clear trailer that finds it.
 *
 * `u32 records | u32 chunks`, then records {u64 offset, u32 sealed, u32 raw} in their order, then
 * chunks {id[32], u32 record, u32 offset, u32 length} sorted by id. The trailer is "HLMREND1",
 * u64 offset and u64 number of the index record. Nothing decoded points outside the pack.
 */
#pragma once

#include "blob/pack.h"

struct pack_index {
    struct pack_chunk *chunks;
    struct pack_record *records;
    size_t n_chunks, n_records;
};

size_t pack_index_len(const struct pack_index *index);
/* Sorts the chunks. `bytes` has room for pack_index_len. */
void pack_index_encode(struct pack_index *index, uint8_t *bytes);
/* `end` is where the index record begins: the records must fill the object up to there. The
 * arrays are owned by the caller then. */
bool pack_index_decode(struct str bytes, uint64_t end, struct pack_index *index,
                       struct error *err) MUST_USE;

void pack_trailer_encode(uint64_t offset, uint64_t number, uint8_t trailer[SEAL_TRAILER_LEN]);
bool pack_trailer_decode(const uint8_t trailer[SEAL_TRAILER_LEN], uint64_t *offset,
                         uint64_t *number, struct error *err) MUST_USE;
