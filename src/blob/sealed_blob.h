/* Blobs that lie sealed: the file named by the SHA-256 of some bytes holds them as a sealed object.
 *
 * Nothing is published that does not hash to its name, and no byte is handed out before its record
 * has verified.
 */
#pragma once

#include "blob/blob.h"
#include "blob/seal_reader.h"
#include "blob/seal_writer.h"

/* Seals a blob into a draft of the store. blob_sealer_finish is due after begin, whatever happens;
 * a draft that was not handed over by blob_sealer_end is discarded by it. */
struct blob_sealer {
    struct blob_store *store;
    const struct seal_keys *keys;
    struct blob_draft draft;
    int fd;
    bool has_begun;
    uint64_t size; /* plain bytes so far */
    struct seal_writer writer;
    struct sha256 plain;
};

/* Store and keys are borrowed. */
bool blob_sealer_begin(struct blob_sealer *sealer, struct blob_store *store,
                       const struct seal_keys *keys, struct error *err) MUST_USE;
bool blob_sealer_add(struct blob_sealer *sealer, struct str bytes, struct error *err) MUST_USE;
/* ERR_CONTENT_HASH unless the bytes have that id. The draft is the caller's from here on. */
bool blob_sealer_end(struct blob_sealer *sealer, const char *expected, struct blob_draft *draft,
                     struct seal_facts *facts, struct error *err) MUST_USE;
void blob_sealer_finish(struct blob_sealer *sealer);

/* All of it for len bytes of a file from offset. */
bool blob_stage_sealed(struct blob_store *store, const struct seal_keys *keys, int fd,
                       uint64_t offset, uint64_t len, const char *expected,
                       struct blob_draft *draft, struct seal_facts *facts,
                       struct error *err) MUST_USE;

/* How the file of a blob is to be taken. BLOB_EITHER is for one that a row calls plain but that may
 * have been sealed since: its header decides, by a key that we have. */
enum blob_form { BLOB_PLAIN, BLOB_SEALED, BLOB_EITHER };

/* Reads the plain bytes of a blob, in pieces of at most 1 MiB. */
struct blob_reader {
    int fd; /* owned */
    bool is_sealed;
    uint64_t at, size; /* of a plain file */
    uint8_t *piece;    /* of a plain file */
    struct seal_reader records;
};

/* Takes the descriptor over, also when it fails. blob_reader_finish is due in any case. */
bool blob_reader_open(struct blob_reader *reader, const struct seal_keys *keys, int fd,
                      enum blob_form form, struct error *err) MUST_USE;
/* Borrowed until the next. *is_last: the blob is whole; its hash is the caller's to check. */
bool blob_reader_next(struct blob_reader *reader, struct str *bytes, bool *is_last,
                      struct error *err) MUST_USE;
void blob_reader_finish(struct blob_reader *reader);

/* Reads all of it: ERR_DAMAGED unless it is the blob of that id and size. */
bool blob_reader_check(struct blob_reader *reader, const char *id, uint64_t size,
                       struct error *err) MUST_USE;
