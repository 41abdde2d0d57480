/* Writes one sealed object to a sink, record by record, and knows its size and digest at the end.
 *
 * A zeroed writer is ready. It may write one object after the other: memory and the compressor are
 * kept until seal_writer_finish. After an error the object is void and the next may be begun.
 */
#pragma once

#include <zstd.h>

#include "base/sha256.h"
#include "blob/seal.h"

enum { SEAL_LEVEL = 3 };

struct seal_sink {
    bool (*write)(void *arg, struct str bytes, struct error *err);
    void *arg;
};

struct seal_plan {
    const struct seal_keys *keys;
    enum seal_class class;
    int level;       /* of zstd; 0: SEAL_LEVEL */
    uint32_t record; /* raw bytes of a full record; 0: SEAL_RAW_MAX */
    bool is_packed;  /* the bytes are compressed already: it is not tried again */
    bool is_unnamed; /* the object is called by something else: its digest is left empty */
};

/* What the database keeps of an object. */
struct seal_facts {
    enum seal_domain domain;
    enum seal_class class;
    char key_id[SEAL_KEY_ID_TEXT];
    char digest[SHA256_HEX]; /* of the sealed bytes: what the object is called */
    uint64_t size;
};

struct seal_writer {
    struct seal_object object;
    struct seal_sink sink;
    struct seal_facts facts; /* whole after the end */
    uint64_t n_records;
    bool is_packed, is_unnamed;
    size_t record, filled; /* size of a full record; bytes that wait in `raw` */
    uint8_t *raw, *packed, *sealed;
    ZSTD_CCtx *compressor;
    struct sha256 digest;
};

/* A sink that writes to *fd. */
struct seal_sink seal_sink_fd(const int *fd);

bool seal_writer_begin(struct seal_writer *writer, const struct seal_plan *plan,
                       struct seal_sink sink, struct error *err) MUST_USE;

/* Bytes in pieces of any size; they fill records as the plan says. */
bool seal_writer_add(struct seal_writer *writer, struct str bytes, struct error *err) MUST_USE;

/* One record of its own (at most SEAL_RAW_MAX bytes), after what was added. `flags` may have
 * SEAL_INDEX; SEAL_LAST ends the object. */
bool seal_writer_record(struct seal_writer *writer, struct str bytes, uint8_t flags,
                        struct error *err) MUST_USE;

/* Ends an object whose last record was not written by seal_writer_record. */
bool seal_writer_end(struct seal_writer *writer, struct error *err) MUST_USE;

/* Clear bytes after the last record, before the facts are taken. */
bool seal_writer_trailer(struct seal_writer *writer, struct str bytes, struct error *err) MUST_USE;

/* Of an ended object. */
void seal_writer_facts(struct seal_writer *writer, struct seal_facts *facts);

void seal_writer_finish(struct seal_writer *writer);
