/* Objects as the server keeps them: a row, and a file that lies sealed.
 *
 * Blobs come plain, are sealed here under the store key and go out plain again; they are called by
 * the hash of what is plain. Packs and manifests come sealed by whoever wrote them, stay as they
 * are, and are called by the hash of their sealed bytes. An object keeps its class.
 */
#pragma once

#include "blob/sealed_blob.h"
#include "server/context.h"

/* An object on its way in: written and synced, not to be found yet. */
struct object_draft {
    struct blob_draft blob;
    struct seal_facts facts; /* of the file */
    uint64_t size;           /* of what readers get */
};

/* Seals len bytes of a file from offset, which must hash to the id. */
bool object_draft_blob(struct server *server, int fd, uint64_t offset, uint64_t len, const char *id,
                       struct object_draft *draft, struct error *err) MUST_USE;

/* A file of len bytes that is sealed already, of that class; the id is its hash. ERR_INVALID unless
 * it begins as such an object, under a key of the store or one of the workers'. */
bool object_draft_sealed(struct server *server, int fd, uint64_t len, const char *id,
                         enum seal_class class, struct object_draft *draft,
                         struct error *err) MUST_USE;

/* Row and file. The row is locked before the file takes its place: the collector, which removes
 * both under the same lock, comes wholly before or wholly after. */
bool object_publish(struct server *server, struct tx *tx, struct object_draft *draft,
                    struct error *err) MUST_USE;
void object_draft_discard(struct server *server, struct object_draft *draft);

const char *object_class_name(enum seal_class class);
const char *object_domain_name(enum seal_domain domain);
/* "pack" or "manifest", as workers name what they have sealed. */
bool object_class_parse(struct str name, enum seal_class *class);

/* What the row of a live object says. */
struct object_row {
    enum seal_class class;
    bool is_sealed;  /* as far as the row knows; a file may be ahead of it */
    bool is_doubted; /* it was found damaged, and not stored again since */
    uint64_t size;
};

/* ERR_NOT_FOUND when there is none; a dead one is as good as gone. */
bool object_find_row(struct tx *tx, struct str id, struct arena *arena, struct object_row *row,
                     struct error *err) MUST_USE;

/* The plain bytes of a blob. blob_reader_finish is due in any case. */
bool object_open_blob(struct server *server, const char *id, const struct object_row *row,
                      struct blob_reader *reader, struct error *err) MUST_USE;

/* Notes that an object was found damaged, or that it was not after all. */
void object_doubt(struct server *server, const char *id, bool is_damaged);
