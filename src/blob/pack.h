/* Packs: sealed objects full of chunks that can be read one by one.
 *
 * Chunks share records of up to 1 MiB, because they compress badly alone. The last record is the
 * index: where every record is, and every chunk, sorted by id. A clear trailer says where it is.
 * No chunk is handed out whose bytes do not have its id.
 */
#pragma once

#include "blob/chunk.h"
#include "blob/seal_reader.h"
#include "blob/seal_writer.h"

enum {
    PACK_TARGET = 32 << 20, /* sealed bytes after which a pack is full */
    PACK_CHUNKS_MAX = 16384,
};

struct pack_chunk {
    uint8_t id[CHUNK_ID_LEN];
    uint32_t record, offset, len; /* which record, and the place inside it */
};

struct pack_record {
    uint64_t offset; /* in the object */
    uint32_t sealed, raw;
};

struct pack_writer {
    struct seal_writer *seal; /* borrowed until the end, or until the writer is finished */
    struct sealing *sealing;  /* full records are sealed beside */
    size_t record_max;        /* raw bytes after which a record is full; 0: SEAL_RAW_MAX */
    size_t n_gathered;        /* bytes of the record that is being filled */
    struct pack_chunk *chunks;
    struct pack_record *records;
    size_t n_chunks, n_records;
};

struct pack_reader {
    struct seal_reader seal;
    struct chunk_key key;
    struct pack_chunk *chunks;
    struct pack_record *records;
    size_t n_chunks, n_records;
    uint32_t *by_record; /* numbers of chunks, those of one record side by side */
    uint32_t *first;     /* where in them each record begins; one more than there are records */
    size_t current;      /* the record whose bytes are in `at_hand`; n_records: none */
    struct str at_hand;
};

/* A zeroed writer is ready, and again after an end. The plan must be one for a pack. */
bool pack_writer_begin(struct pack_writer *writer, struct seal_writer *seal,
                       const struct seal_plan *plan, struct seal_sink sink,
                       struct error *err) MUST_USE;
/* One to CHUNK_MAX bytes; the same id at most once. */
bool pack_writer_add(struct pack_writer *writer, const uint8_t id[CHUNK_ID_LEN], struct str bytes,
                     struct error *err) MUST_USE;
bool pack_writer_is_full(const struct pack_writer *writer);
bool pack_writer_end(struct pack_writer *writer, struct seal_facts *facts,
                     struct error *err) MUST_USE;
void pack_writer_finish(struct pack_writer *writer);

/* Reads and checks the index. A zeroed reader is ready; what the source borrows must stay. */
bool pack_reader_begin(struct pack_reader *reader, const struct seal_keys *keys,
                       struct seal_source source, struct error *err) MUST_USE;
/* Borrowed until the next call. ERR_DAMAGED when it is not in the pack or is not what it should
 * be. */
bool pack_reader_chunk(struct pack_reader *reader, const uint8_t id[CHUNK_ID_LEN],
                       struct str *bytes, struct error *err) MUST_USE;
/* Reads every record and checks every chunk. */
bool pack_reader_verify(struct pack_reader *reader, struct error *err) MUST_USE;
bool pack_reader_has(const struct pack_reader *reader, const uint8_t id[CHUNK_ID_LEN]);
void pack_reader_finish(struct pack_reader *reader);
