#include "base/own.h"
#include "blob/pack.h"
#include "blob/pack_index.h"
#include "blob/sealing.h"

bool pack_writer_begin(struct pack_writer *writer, struct seal_writer *seal,
                       const struct seal_plan *plan, struct seal_sink sink, struct error *err)
{
    if (!writer->sealing) {
        writer->chunks = alloc(PACK_CHUNKS_MAX * sizeof *writer->chunks);
        writer->records = alloc(PACK_CHUNKS_MAX * sizeof *writer->records);
    }
    /* Of a pack that was given up, a record may still be under way. */
    sealing_destroy(writer->sealing);
    writer->sealing = sealing_create(seal, writer->records);
    writer->seal = seal;
    writer->n_gathered = writer->n_chunks = writer->n_records = 0;
    return seal_writer_begin(seal, plan, sink, err);
}

static bool flush(struct pack_writer *writer, struct error *err)
{
    size_t len = writer->n_gathered;

    writer->n_gathered = 0;
    writer->n_records++;
    return sealing_give(writer->sealing, len, err);
}

bool pack_writer_add(struct pack_writer *writer, const uint8_t id[CHUNK_ID_LEN], struct str bytes,
                     struct error *err)
{
    if (bytes.len == 0 || bytes.len > CHUNK_MAX || writer->n_chunks == PACK_CHUNKS_MAX)
        return error_set(err, ERR_TOO_LARGE, "the pack cannot take this chunk");
    size_t most = writer->record_max ? writer->record_max : SEAL_RAW_MAX;
    if (writer->n_gathered > 0 && writer->n_gathered + bytes.len > most && !flush(writer, err))
        return false;

    struct pack_chunk *chunk = &writer->chunks[writer->n_chunks++];
    memcpy(chunk->id, id, CHUNK_ID_LEN);
    chunk->record = (uint32_t)writer->n_records;
    chunk->offset = (uint32_t)writer->n_gathered;
    chunk->len = (uint32_t)bytes.len;
    memcpy(sealing_buffer(writer->sealing) + writer->n_gathered, bytes.ptr, bytes.len);
    writer->n_gathered += bytes.len;
    return true;
}

bool pack_writer_is_full(const struct pack_writer *writer)
{
    return writer->n_chunks == PACK_CHUNKS_MAX || sealing_size(writer->sealing) >= PACK_TARGET;
}

/* The last record need not wait for the thread to wake: it is sealed here. */
static bool end_records(struct pack_writer *writer, struct error *err)
{
    struct str raw = {(const char *)sealing_buffer(writer->sealing), writer->n_gathered};

    if (!sealing_end(writer->sealing, err))
        return false;
    return raw.len == 0 ||
           sealing_record(writer->seal, raw, &writer->records[writer->n_records++], err);
}

bool pack_writer_end(struct pack_writer *writer, struct seal_facts *facts, struct error *err)
{
    uint8_t trailer[SEAL_TRAILER_LEN];

    if (!end_records(writer, err))
        return false;
    uint64_t offset = writer->seal->facts.size, number = writer->seal->n_records;
    struct pack_index index = {writer->chunks, writer->records, writer->n_chunks,
                               writer->n_records};
    AUTO_FREE uint8_t *bytes = alloc(pack_index_len(&index));
    pack_index_encode(&index, bytes);
    pack_trailer_encode(offset, number, trailer);
    if (!seal_writer_record(writer->seal, (struct str){(const char *)bytes, pack_index_len(&index)},
                            SEAL_INDEX | SEAL_LAST, err) ||
        !seal_writer_trailer(writer->seal, (struct str){(const char *)trailer, sizeof trailer},
                             err))
        return false;
    seal_writer_facts(writer->seal, facts);
    return true;
}

void pack_writer_finish(struct pack_writer *writer)
{
    sealing_destroy(writer->sealing);
    free(writer->chunks);
    free(writer->records);
    *writer = (struct pack_writer){0};
}
