/* A directory of a stored tree as bytes: its entries in the order of their names, each with the
 * chunks of its contents or of its own node.
 *
 * `u32 entries`, then for each a head of fixed length, name, target, attributes, digests, chunks.
 * What was decoded is in order, has names a file system could have, and lengths that agree. Two
 * digests sum a directory up with everything below it: the tree digest leaves times and link
 * groups out, so that equal content has an equal one; the root digest has both.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "blob/chunk.h"
#include "protocol/tree.h"

enum { NODE_BYTES_MAX = 1 << 30, NODE_CHUNK_LEN = CHUNK_ID_LEN + 4 };

struct node_chunk {
    uint8_t id[CHUNK_ID_LEN];
    uint32_t len;
};

struct node_entry {
    struct str name;
    enum tree_kind kind;
    uint32_t mode, uid, gid;
    int64_t mtime_ns;
    uint64_t size, link_group;
    struct str target, xattrs;
    bool is_opaque;
    bool is_cover;               /* the image has something at this path, too; part of no digest */
    uint8_t digest[BLAKE2B_LEN]; /* of a file's bytes; the tree digest of a directory */
    uint8_t root[BLAKE2B_LEN];   /* the root digest of a directory */
    bool is_plain; /* of a directory: no file below has another name, and these count what is; part
                    * of no digest */
    uint64_t n_below, bytes_below;
    const struct node_chunk *chunks;
    size_t n_chunks;
};

struct node {
    struct node_entry *entries;
    size_t n;
};

/* What an entry says of the directory it stands for: digests, and whether and what is below. Where
 * it is stored is not part of that. */
void node_sum_up(const struct node *node, struct node_entry *entry);

/* The entry of that name, or NULL. */
const struct node_entry *node_find(const struct node *node, struct str name);

bool node_encode(const struct node *node, struct buf *out, struct error *err) MUST_USE;
/* ERR_DAMAGED for whatever node_encode does not write. Texts are borrowed from the bytes. */
bool node_decode(struct str bytes, struct arena *arena, struct node *node,
                 struct error *err) MUST_USE;

/* The list of chunks alone, as an entry has it. */
bool node_chunks_encode(const struct node_chunk *chunks, size_t n, struct buf *out,
                        struct error *err) MUST_USE;
bool node_chunks_decode(struct str bytes, struct arena *arena, const struct node_chunk **chunks,
                        size_t *n, struct error *err) MUST_USE;
