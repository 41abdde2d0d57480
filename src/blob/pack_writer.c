#include "base/own.h"
#include "base/secret.h"
#include "blob/bytes.h"
#include "blob/pack.h"
#include "blob/pack_index.h"

bool pack_writer_begin(struct pack_writer *writer, struct seal_writer *seal,
                       const struct seal_plan *plan, struct seal_sink sink, struct error *err)
{
    writer->seal = seal;
    writer->n_gathered = writer->n_chunks = writer->n_records = 0;
    if (!writer->gathered) {
        writer->gathered = alloc(SEAL_RAW_MAX);
        writer->chunks = alloc(PACK_CHUNKS_MAX * sizeof *writer->chunks);
        writer->records = alloc(PACK_CHUNKS_MAX * sizeof *writer->records);
    }
    return seal_writer_begin(seal, plan, sink, err);
}

static bool flush(struct pack_writer *writer, struct error *err)
{
    uint64_t offset = writer->seal->facts.size;
    struct str raw = {(const char *)writer->gathered, writer->n_gathered};

    if (raw.len == 0)
        return true;
    if (!seal_writer_record(writer->seal, raw, 0, err))
        return false;
    writer->records[writer->n_records++] =
        (struct pack_record){offset, (uint32_t)(writer->seal->facts.size - offset - SEAL_HEAD_LEN),
                             (uint32_t)raw.len};
    writer->n_gathered = 0;
    return true;
}

bool pack_writer_add(struct pack_writer *writer, const uint8_t id[CHUNK_ID_LEN], struct str bytes,
                     struct error *err)
{
    if (bytes.len == 0 || bytes.len > CHUNK_MAX || writer->n_chunks == PACK_CHUNKS_MAX)
        return error_set(err, ERR_TOO_LARGE, "the pack cannot take this chunk");
    if (writer->n_gathered + bytes.len > SEAL_RAW_MAX && !flush(writer, err))
        return false;

    struct pack_chunk *chunk = &writer->chunks[writer->n_chunks++];
    memcpy(chunk->id, id, CHUNK_ID_LEN);
    chunk->record = (uint32_t)writer->n_records;
    chunk->offset = (uint32_t)writer->n_gathered;
    chunk->len = (uint32_t)bytes.len;
    memcpy(writer->gathered + writer->n_gathered, bytes.ptr, bytes.len);
    writer->n_gathered += bytes.len;
    return true;
}

bool pack_writer_is_full(const struct pack_writer *writer)
{
    return writer->n_chunks == PACK_CHUNKS_MAX || writer->seal->facts.size >= PACK_TARGET;
}

bool pack_writer_end(struct pack_writer *writer, struct seal_facts *facts, struct error *err)
{
    uint8_t trailer[SEAL_TRAILER_LEN];

    if (!flush(writer, err))
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
    if (writer->gathered)
        bytes_wipe(writer->gathered, SEAL_RAW_MAX);
    free(writer->gathered);
    free(writer->chunks);
    free(writer->records);
    *writer = (struct pack_writer){0};
}
