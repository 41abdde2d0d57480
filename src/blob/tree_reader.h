/* Reads a tree that tree_writer wrote: directories and contents by their chunks, from the manifest
 * itself or from the packs it lists, each opened when it is first needed.
 *
 * Everything read is checked against what names it; ERR_DAMAGED when it is not that.
 */
#pragma once

#include "blob/manifest.h"
#include "blob/node.h"
#include "blob/object.h"
#include "blob/pack.h"

#define TREE_MANIFEST_KIND "tree"

struct tree_reader {
    const struct object_backend *backend;
    const struct seal_keys *keys;
    struct arena arena;
    struct manifest manifest;
    struct tree_pack *packs; /* as many as the manifest lists */
    const struct node_chunk *root;
    size_t n_root;
    size_t last;  /* the pack of the last chunk: mostly the next one is there, too */
    bool has_key; /* sealed with the key that new trees are sealed with */
    char tree_digest[SHA256_HEX];
};

/* Reads the manifest of that digest. Backend and keys are borrowed. What it allocates
 * tree_reader_finish releases, also after a failure. */
bool tree_reader_init(struct tree_reader *reader, const struct object_backend *backend,
                      const struct seal_keys *keys, const char *manifest,
                      struct error *err) MUST_USE;
void tree_reader_finish(struct tree_reader *reader);

/* The directory that these chunks are, into the arena. */
bool tree_reader_node(struct tree_reader *reader, const struct node_chunk *chunks, size_t n,
                      struct arena *arena, struct node *node, struct error *err) MUST_USE;

/* One chunk of a file's contents, borrowed until the next call. */
bool tree_reader_chunk(struct tree_reader *reader, const struct node_chunk *chunk,
                       struct str *bytes, struct error *err) MUST_USE;

/* Which pack of the manifest has the chunk, or TREE_LOOSE: the manifest itself. */
#define TREE_LOOSE SIZE_MAX
bool tree_reader_locate(struct tree_reader *reader, const struct node_chunk *chunk, size_t *pack,
                        bool *found, struct error *err) MUST_USE;
/* Sealed bytes of a pack in which something was located. */
uint64_t tree_reader_pack_size(const struct tree_reader *reader, size_t pack);

/* Cuts one off the front of chunks that are in a manifest; false at the end. */
bool tree_loose_next(struct str *rest, struct node_chunk *chunk, struct str *bytes);

/* Appends the contents of a file. */
bool tree_reader_file(struct tree_reader *reader, const struct node_entry *entry, struct buf *out,
                      struct error *err) MUST_USE;
