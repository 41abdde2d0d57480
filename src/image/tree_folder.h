/* A tree of files as a machine sends and takes it (protocol/tree.h), and folders of this host.
 *
 * What a machine sends is placed with openat2 and never through a symbolic link. The decoder has
 * checked the order and the names; nothing is written outside the folder whatever the tree says.
 */
#pragma once

#include "base/buf.h"
#include "protocol/tree.h"

/* --- from a machine --- */

enum tree_unpack_kind {
    TREE_OF_PROJECT, /* plain files, folders and links; who owns them is not asked */
    TREE_OF_LAYER,   /* the upper folder of an overlay: owners, modes, attributes, whiteouts */
};

struct tree_unpack_spec {
    enum tree_unpack_kind kind;
    int root;                   /* an empty folder, borrowed */
    const char *below;          /* of the tree: what is under this path; "": all of it */
    const char *const *without; /* paths of the tree that are left out */
    size_t n_without;
};

struct tree_unpack;

struct tree_unpack *tree_unpack_create(const struct tree_unpack_spec *spec);
void tree_unpack_destroy(struct tree_unpack *unpack); /* accepts NULL */

/* As tree_on_entry and tree_on_bytes, to be given to a decoder with it as arg. */
bool tree_unpack_entry(void *unpack, const struct tree_entry *entry, struct error *err) MUST_USE;
bool tree_unpack_bytes(void *unpack, struct str bytes, bool is_last, struct error *err) MUST_USE;

/* After the last entry: times of folders, which every entry in them changed. */
bool tree_unpack_end(struct tree_unpack *unpack, struct error *err) MUST_USE;

/* --- to a machine --- */

/* Folders of a project, each under a name of its own, in the order of their names. */
struct tree_part {
    const char *name;
    int folder; /* borrowed */
};

enum { TREE_PACK_PIECE = 256 * 1024 };

struct tree_pack;

bool tree_pack_create(const struct tree_part *parts, size_t n, struct tree_pack **pack,
                      struct error *err) MUST_USE;
void tree_pack_destroy(struct tree_pack *pack); /* accepts NULL */

/* Appends the next bytes, at most TREE_PACK_PIECE, and says when they are the last. */
bool tree_pack_step(struct tree_pack *pack, struct buf *out, bool *is_last,
                    struct error *err) MUST_USE;
