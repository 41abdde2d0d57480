#include "base/own.h"
#include "blob/pack.h"
#include "blob/pack_index.h"

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

bool pack_reader_begin(struct pack_reader *reader, const struct seal_keys *keys,
                       struct seal_source source, struct error *err)
{
    free(TAKE(reader->chunks));
    free(TAKE(reader->records));
    reader->n_chunks = reader->n_records = reader->current = 0;
    if (!seal_reader_begin(&reader->seal, keys, SEAL_PACK, source, err))
        return false;
    chunk_key_init(&reader->key, reader->seal.object.domain);
    return read_index(reader, err);
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
    reader->at_hand = record.bytes;
    reader->current = number;
    return true;
}

bool pack_reader_chunk(struct pack_reader *reader, const uint8_t id[CHUNK_ID_LEN],
                       struct str *bytes, struct error *err)
{
    const struct pack_chunk *chunk = find(reader, id);
    uint8_t real[CHUNK_ID_LEN];

    if (!chunk)
        return error_set(err, ERR_DAMAGED, "a chunk is not in its pack");
    if (!load_record(reader, chunk->record, err))
        return false;
    struct str found = {reader->at_hand.ptr + chunk->offset, chunk->len};
    chunk_id(&reader->key, found, real);
    if (memcmp(real, id, CHUNK_ID_LEN) != 0)
        return error_set(err, ERR_DAMAGED, "a chunk is not what its id says");
    *bytes = found;
    return true;
}

void pack_reader_finish(struct pack_reader *reader)
{
    seal_reader_finish(&reader->seal);
    chunk_key_finish(&reader->key);
    free(reader->chunks);
    free(reader->records);
    *reader = (struct pack_reader){0};
}
