#include "base/own.h"
#include "blob/pack.h"
#include "blob/pack_index.h"

enum { CHECKED_AT_ONCE = 64 };

static bool read_index(struct pack_reader *reader, struct error *err)
{
    const struct seal_source *source = &reader->seal.source;
    uint8_t trailer[SEAL_TRAILER_LEN];
    struct seal_record_view record;
    struct pack_index index;
    uint64_t offset, number;

    if (source->size < SEAL_HEADER_LEN + SEAL_TRAILER_LEN)
        return error_set(err, ERR_DAMAGED, "the pack ends early");
    uint64_t end = source->size - SEAL_TRAILER_LEN;
    if (!source->read(source->arg, end, trailer, sizeof trailer, err) ||
        !pack_trailer_decode(trailer, &offset, &number, err) ||
        !seal_reader_record(&reader->seal, offset, number, &record, err))
        return false;
    if (!(record.flags & SEAL_INDEX) || !(record.flags & SEAL_LAST) || record.end != end)
        return error_set(err, ERR_DAMAGED, "the pack does not end with its index");
    if (!pack_index_decode(record.bytes, offset, &index, err))
        return false;
    reader->chunks = index.chunks;
    reader->records = index.records;
    reader->n_chunks = index.n_chunks;
    reader->n_records = reader->current = index.n_records;
    return index.n_records == number ||
           error_set(err, ERR_DAMAGED, "the pack has records that its index does not know");
}

/* The chunks of each record, so that they can be checked together when it is read. */
static void group_chunks(struct pack_reader *reader)
{
    uint32_t *first = alloc((reader->n_records + 2) * sizeof *first);

    memset(first, 0, (reader->n_records + 2) * sizeof *first);
    for (size_t i = 0; i < reader->n_chunks; i++)
        first[reader->chunks[i].record + 2]++;
    for (size_t i = 2; i < reader->n_records + 2; i++)
        first[i] += first[i - 1];
    reader->by_record = alloc((reader->n_chunks + 1) * sizeof *reader->by_record);
    for (size_t i = 0; i < reader->n_chunks; i++)
        reader->by_record[first[reader->chunks[i].record + 1]++] = (uint32_t)i;
    reader->first = first;
}

static void forget_index(struct pack_reader *reader)
{
    free(TAKE(reader->chunks));
    free(TAKE(reader->records));
    free(TAKE(reader->by_record));
    free(TAKE(reader->first));
    reader->n_chunks = reader->n_records = reader->current = 0;
}

bool pack_reader_begin(struct pack_reader *reader, const struct seal_keys *keys,
                       struct seal_source source, struct error *err)
{
    forget_index(reader);
    if (!seal_reader_begin(&reader->seal, keys, SEAL_PACK, source, err))
        return false;
    chunk_key_init(&reader->key, reader->seal.object.domain);
    if (!read_index(reader, err))
        return false;
    group_chunks(reader);
    return true;
}

static int compare_id(const void *id, const void *chunk)
{
    return memcmp(id, ((const struct pack_chunk *)chunk)->id, CHUNK_ID_LEN);
}

static const struct pack_chunk *find(const struct pack_reader *reader,
                                     const uint8_t id[CHUNK_ID_LEN])
{
    if (reader->n_chunks == 0)
        return NULL;
    return bsearch(id, reader->chunks, reader->n_chunks, sizeof *reader->chunks, compare_id);
}

bool pack_reader_has(const struct pack_reader *reader, const uint8_t id[CHUNK_ID_LEN])
{
    return find(reader, id) != NULL;
}

static bool check_chunks(const struct pack_reader *reader, size_t number, struct str raw,
                         struct error *err)
{
    struct str chunks[CHECKED_AT_ONCE];
    uint8_t real[CHECKED_AT_ONCE][CHUNK_ID_LEN];
    uint32_t end = reader->first[number + 1];

    for (uint32_t at = reader->first[number]; at < end;) {
        size_t n = end - at < CHECKED_AT_ONCE ? end - at : CHECKED_AT_ONCE;
        const uint32_t *which = reader->by_record + at;
        for (size_t i = 0; i < n; i++) {
            const struct pack_chunk *chunk = &reader->chunks[which[i]];
            chunks[i] = (struct str){raw.ptr + chunk->offset, chunk->len};
        }
        chunk_ids(&reader->key, chunks, n, real);
        for (size_t i = 0; i < n; i++) {
            if (memcmp(real[i], reader->chunks[which[i]].id, CHUNK_ID_LEN) != 0)
                return error_set(err, ERR_DAMAGED, "a chunk is not what its id says");
        }
        at += (uint32_t)n;
    }
    return true;
}

/* Neighbours are mostly asked for one after the other, so the last record stays at hand. */
static bool load_record(struct pack_reader *reader, size_t number, struct error *err)
{
    const struct pack_record *wanted = &reader->records[number];
    struct seal_record_view record;

    if (reader->current == number)
        return true;
    reader->current = reader->n_records;
    if (!seal_reader_record(&reader->seal, wanted->offset, number, &record, err))
        return false;
    if (record.bytes.len != wanted->raw || (record.flags & (SEAL_INDEX | SEAL_LAST)))
        return error_set(err, ERR_DAMAGED, "a record of the pack is not what its index says");
    if (!check_chunks(reader, number, record.bytes, err))
        return false;
    reader->at_hand = record.bytes;
    reader->current = number;
    return true;
}

bool pack_reader_chunk(struct pack_reader *reader, const uint8_t id[CHUNK_ID_LEN],
                       struct str *bytes, struct error *err)
{
    const struct pack_chunk *chunk = find(reader, id);

    if (!chunk)
        return error_set(err, ERR_DAMAGED, "a chunk is not in its pack");
    if (!load_record(reader, chunk->record, err))
        return false;
    *bytes = (struct str){reader->at_hand.ptr + chunk->offset, chunk->len};
    return true;
}

bool pack_reader_verify(struct pack_reader *reader, struct error *err)
{
    for (size_t i = 0; i < reader->n_records; i++) {
        if (!load_record(reader, i, err))
            return false;
    }
    return true;
}

void pack_reader_finish(struct pack_reader *reader)
{
    seal_reader_finish(&reader->seal);
    chunk_key_finish(&reader->key);
    forget_index(reader);
    *reader = (struct pack_reader){0};
}
