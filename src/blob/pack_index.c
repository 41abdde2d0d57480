#include "blob/pack_index.h"

#include "base/own.h"
#include "blob/bytes.h"

enum { COUNTS_LEN = 8, RECORD_LEN = 16, CHUNK_LEN = CHUNK_ID_LEN + 12 };

static const char end_magic[8] = "HLMREND1";

_Static_assert(COUNTS_LEN + (RECORD_LEN + CHUNK_LEN) * PACK_CHUNKS_MAX <= SEAL_RAW_MAX,
               "the index of the fullest pack is one record");

size_t pack_index_len(const struct pack_index *index)
{
    return COUNTS_LEN + RECORD_LEN * index->n_records + CHUNK_LEN * index->n_chunks;
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(((const struct pack_chunk *)a)->id, ((const struct pack_chunk *)b)->id,
                  CHUNK_ID_LEN);
}

void pack_index_encode(struct pack_index *index, uint8_t *bytes)
{
    put_u32(bytes, (uint32_t)index->n_records);
    put_u32(bytes + 4, (uint32_t)index->n_chunks);
    bytes += COUNTS_LEN;
    for (size_t i = 0; i < index->n_records; i++, bytes += RECORD_LEN) {
        put_u64(bytes, index->records[i].offset);
        put_u32(bytes + 8, index->records[i].sealed);
        put_u32(bytes + 12, index->records[i].raw);
    }
    if (index->n_chunks > 0)
        qsort(index->chunks, index->n_chunks, sizeof *index->chunks, compare_ids);
    for (size_t i = 0; i < index->n_chunks; i++, bytes += CHUNK_LEN) {
        const struct pack_chunk *chunk = &index->chunks[i];
        memcpy(bytes, chunk->id, CHUNK_ID_LEN);
        put_u32(bytes + CHUNK_ID_LEN, chunk->record);
        put_u32(bytes + CHUNK_ID_LEN + 4, chunk->offset);
        put_u32(bytes + CHUNK_ID_LEN + 8, chunk->len);
    }
}

static bool wrong(struct error *err)
{
    return error_set(err, ERR_DAMAGED, "the index of a pack makes no sense");
}

/* Each record begins where the one before it ends. */
static bool decode_records(const uint8_t *at, uint64_t end, struct pack_index *index)
{
    uint64_t next = SEAL_HEADER_LEN;

    for (size_t i = 0; i < index->n_records; i++, at += RECORD_LEN) {
        struct pack_record record = {get_u64(at), get_u32(at + 8), get_u32(at + 12)};
        if (record.offset != next || record.raw > SEAL_RAW_MAX ||
            record.sealed > SEAL_RAW_MAX + SEAL_TAG_LEN)
            return false;
        next += SEAL_HEAD_LEN + record.sealed;
        index->records[i] = record;
    }
    return next == end;
}

static bool decode_chunks(const uint8_t *at, struct pack_index *index)
{
    for (size_t i = 0; i < index->n_chunks; i++, at += CHUNK_LEN) {
        struct pack_chunk chunk = {.record = get_u32(at + CHUNK_ID_LEN),
                                   .offset = get_u32(at + CHUNK_ID_LEN + 4),
                                   .len = get_u32(at + CHUNK_ID_LEN + 8)};
        memcpy(chunk.id, at, CHUNK_ID_LEN);
        if (chunk.record >= index->n_records || chunk.len == 0 || chunk.len > CHUNK_MAX)
            return false;
        uint32_t raw = index->records[chunk.record].raw;
        if (chunk.offset > raw || chunk.len > raw - chunk.offset)
            return false;
        if (i > 0 && compare_ids(&index->chunks[i - 1], &chunk) >= 0)
            return false;
        index->chunks[i] = chunk;
    }
    return true;
}

bool pack_index_decode(struct str bytes, uint64_t end, struct pack_index *index, struct error *err)
{
    const uint8_t *at = (const uint8_t *)bytes.ptr;

    if (bytes.len < COUNTS_LEN)
        return wrong(err);
    struct pack_index read = {.n_records = get_u32(at), .n_chunks = get_u32(at + 4)};
    if (read.n_records > PACK_CHUNKS_MAX || read.n_chunks > PACK_CHUNKS_MAX ||
        pack_index_len(&read) != bytes.len)
        return wrong(err);

    at += COUNTS_LEN;
    AUTO_FREE struct pack_record *records = alloc((read.n_records + 1) * sizeof *records);
    AUTO_FREE struct pack_chunk *chunks = alloc((read.n_chunks + 1) * sizeof *chunks);
    read.records = records;
    read.chunks = chunks;
    if (!decode_records(at, end, &read) || !decode_chunks(at + RECORD_LEN * read.n_records, &read))
        return wrong(err);
    *index = read;
    TAKE(records);
    TAKE(chunks);
    return true;
}

void pack_trailer_encode(uint64_t offset, uint64_t number, uint8_t trailer[SEAL_TRAILER_LEN])
{
    memcpy(trailer, end_magic, sizeof end_magic);
    put_u64(trailer + 8, offset);
    put_u64(trailer + 16, number);
}

bool pack_trailer_decode(const uint8_t trailer[SEAL_TRAILER_LEN], uint64_t *offset,
                         uint64_t *number, struct error *err)
{
    if (memcmp(trailer, end_magic, sizeof end_magic) != 0)
        return error_set(err, ERR_DAMAGED, "the pack has no end");
    *offset = get_u64(trailer + 8);
    *number = get_u64(trailer + 16);
    return true;
}
