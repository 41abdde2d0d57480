/* The blob store: files known by the SHA-256 of their bytes, in one directory.
 *
 * A blob that can be opened is whole and durable: it is written beside, synced, renamed
 * into place, and its directory is synced. Putting the same bytes twice keeps one file.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/sha256.h"
#include "base/str.h"

enum { BLOB_ID_LEN = SHA256_HEX_LEN, BLOB_ID = SHA256_HEX }; /* lower-case hex */

struct blob_store;

/* Makes the directories that are missing and clears what writers left behind long ago. */
bool blob_store_open(const char *directory, struct blob_store **store, struct error *err) MUST_USE;
void blob_store_close(struct blob_store *store); /* accepts NULL */

/* Whether a blob could be written now. */
bool blob_store_check(const struct blob_store *store, struct error *err) MUST_USE;

bool blob_id_is_valid(struct str id);

/* A blob on its way in: written and synced beside the others, not to be found yet. */
struct blob_draft {
    char name[ID_TEXT]; /* empty once published or discarded */
    char id[BLOB_ID];
};

/* Gives an error that comes from a full disk a code and words of its own. Returns false. */
bool blob_explain(struct error *err);

/* An empty file without a name, on the disk of the store: what blob_stage_fd takes over whole. */
bool blob_nameless(const struct blob_store *store, int *fd, struct error *err) MUST_USE;

/* Takes len bytes from offset; a nameless file that is just that is taken over, not copied, and
 * must not be written to any more. With an expected id the bytes must have it (ERR_CONTENT_HASH).
 * ERR_UNAVAILABLE when the disk is full. Nothing is left behind by a failure. */
bool blob_stage_fd(struct blob_store *store, int fd, uint64_t offset, uint64_t len,
                   const char *expected, struct blob_draft *draft, struct error *err) MUST_USE;
bool blob_publish(struct blob_store *store, struct blob_draft *draft, struct error *err) MUST_USE;
void blob_discard(struct blob_store *store, struct blob_draft *draft); /* if not published */

/* A draft that the caller writes, named by something else than the hash of the file: begun empty,
 * open for writing, and synced under its id once it is whole. */
bool blob_draft_begin(struct blob_store *store, struct blob_draft *draft, int *fd,
                      struct error *err) MUST_USE;
bool blob_draft_end(struct blob_draft *draft, int fd, const char *id, struct error *err) MUST_USE;

/* Both in one. */
bool blob_put_fd(struct blob_store *store, int fd, uint64_t offset, uint64_t len,
                 const char *expected, char id[BLOB_ID], struct error *err) MUST_USE;

/* ERR_NOT_FOUND when there is none. */
bool blob_open(const struct blob_store *store, const char *id, int *fd, uint64_t *size,
               struct error *err) MUST_USE;
bool blob_has(const struct blob_store *store, const char *id);
bool blob_delete(struct blob_store *store, const char *id, struct error *err) MUST_USE;

enum { BLOB_SHARDS = 256 };

/* The blobs of one shard that were written before a time, in no order: those whose ids begin with
 * the number in hex. The array is the caller's to free. */
bool blob_list(const struct blob_store *store, uint8_t shard, int64_t before_ms,
               char (**ids)[BLOB_ID], size_t *n, struct error *err) MUST_USE;

/* Removes what writers that died left beside the blobs more than a day ago. */
void blob_clear_stale(const struct blob_store *store);
