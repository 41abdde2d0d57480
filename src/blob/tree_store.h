/* Where the chunks of a tree go while it is written: into packs and, while there are few, into the
 * manifest itself; those that a base tree holds already are left where they are.
 *
 * Whoever writes a tree says which chunks of the base it still needs, or that it may need all.
 * Packs of the base that nothing needs are not in the new manifest, and when there would be more
 * than TREE_PACKS_MAX, what is live in small ones moves into a new one. Directories are in packs
 * apart from files and in short records, so that reading a few unseals little.
 */
#pragma once

#include "blob/tree_reader.h"

enum { TREE_PACKS_MAX = 64, TREE_PACKS_MORE = 32, TREE_PACK_SMALL = 4 << 20 };

/* All are borrowed. */
struct tree_plan {
    const struct object_backend *backend;
    const struct seal_keys *keys;
    struct tree_reader *base; /* NULL: none */
    /* Where full packs are put by a thread while others are filled; NULL: they are not. */
    const struct object_backend *beside;
};

struct tree_object {
    char digest[SHA256_HEX];
    uint64_t size; /* 0: it was there before */
};

/* What was written. The objects are the store's. */
struct tree_facts {
    char manifest[SHA256_HEX];
    char tree_digest[SHA256_HEX], root_digest[SHA256_HEX]; /* BLAKE2b-256 */
    uint64_t n_entries, n_bytes;                           /* n_bytes: of all files */
    const struct tree_object *objects; /* all it is made of; the manifest is one of them */
    size_t n_objects;
    size_t n_new;       /* of them, which were put now */
    uint64_t bytes_new; /* of those */
};

struct tree_store;

struct tree_store *tree_store_create(const struct tree_plan *plan);
void tree_store_destroy(struct tree_store *store); /* accepts NULL */

/* Cuts chunks off the front of *bytes and stores them, and leaves what may yet become a longer one
 * unless that is all there is. */
bool tree_store_cut(struct tree_store *store, struct str *bytes, bool is_last,
                    struct error *err) MUST_USE;

/* Whole files at once, each with the chunks it was cut into. */
struct tree_contents {
    struct str bytes;
    struct node_chunk *chunks; /* the arena's, as tree_store_files makes them */
    size_t n_chunks;
};
bool tree_store_files(struct tree_store *store, struct tree_contents *files, size_t n,
                      struct arena *arena, struct error *err) MUST_USE;

/* All of a node. */
bool tree_store_node(struct tree_store *store, const struct node *node, struct error *err) MUST_USE;

/* The chunks that were cut since the last time. */
struct node_chunk *tree_store_take(struct tree_store *store, struct arena *arena, size_t *n);

/* These chunks of the base belong to the new tree. */
bool tree_store_keep(struct tree_store *store, const struct node_chunk *chunks, size_t n,
                     struct error *err) MUST_USE;
/* Any chunk of the base may. */
bool tree_store_keep_all(struct tree_store *store, struct error *err) MUST_USE;

/* Whether so many packs would be listed that it is time to say exactly which are needed: over
 * TREE_PACKS_MAX, and TREE_PACKS_MORE more than the last time that was said. */
bool tree_store_is_crowded(const struct tree_store *store);

/* Ends the tree whose root is this node. Digests and objects are filled in, counts are the
 * caller's. */
bool tree_store_end(struct tree_store *store, const struct node *root, struct tree_facts *facts,
                    struct error *err) MUST_USE;
