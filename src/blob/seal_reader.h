/* Reads one sealed object from a source that can be read at any place. Every length is checked
 * against the source before anything is allocated or read by it, and no byte is handed out before
 * its record has verified.
 *
 * A zeroed reader is ready; memory is kept from one object to the next until seal_reader_finish.
 */
#pragma once

#include <zstd.h>

#include "base/sha256.h"
#include "blob/seal.h"

struct seal_source {
    /* Exactly len bytes, which lie inside the size. */
    bool (*read)(void *arg, uint64_t offset, void *bytes, size_t len, struct error *err);
    void *arg;
    uint64_t size;
};

struct seal_record_view {
    struct str bytes; /* borrowed: valid until the next read */
    uint8_t flags;
    uint64_t end; /* offset of what follows */
};

struct seal_reader {
    struct seal_object object;
    struct seal_source source;
    uint64_t at, number; /* of the next record in order */
    uint64_t trailer;    /* clear bytes after the last record */
    bool has_ended;
    uint8_t *raw, *packed, *sealed;
    size_t raw_room, packed_room, sealed_room;
    ZSTD_DCtx *decompressor;
};

/* Sources borrow what they read from. */
bool seal_source_fd(const int *fd, struct seal_source *source, struct error *err) MUST_USE;
struct seal_source seal_source_memory(const struct str *bytes);

/* ERR_DAMAGED when it is no object of that class, ERR_KEY_MISSING when its key is not there. */
bool seal_reader_begin(struct seal_reader *reader, const struct seal_keys *keys,
                       enum seal_class class, struct seal_source source,
                       struct error *err) MUST_USE;

/* The next record in order. With *is_last the object has ended, and nothing follows in the source
 * but the trailer of its class: only then is it known to be whole. */
bool seal_reader_next(struct seal_reader *reader, struct str *bytes, bool *is_last,
                      struct error *err) MUST_USE;

/* The record of that number at that offset, out of order. */
bool seal_reader_record(struct seal_reader *reader, uint64_t offset, uint64_t number,
                        struct seal_record_view *record, struct error *err) MUST_USE;

void seal_reader_finish(struct seal_reader *reader);

/* SHA-256 of the whole source: what the sealed file is called. */
bool seal_source_digest(const struct seal_source *source, char digest[SHA256_HEX],
                        struct error *err) MUST_USE;
