/* A tree of files (protocol/tree.h) written below a directory.
 *
 * The tree's order and paths were checked by its decoder; every folder on the way is opened
 * without following links, so nothing in the image leads anywhere else.
 */
#pragma once

#include "base/arena.h"
#include "protocol/tree.h"

struct placed_folder; /* whose times are set at the end */

struct place_tree {
    int root_fd;       /* owned */
    int folder_fd;     /* of the last entry's parent, or -1: the root */
    struct buf folder; /* its path */
    int file_fd;       /* whose contents are on their way, or -1 */
    struct tree_entry file;
    struct buf file_path, file_xattrs; /* what `file` refers to */
    struct arena arena;                /* folders and groups */
    struct placed_folder *folders;     /* the last one first */
    struct str *groups;                /* path of the first name of each link group */
    size_t n_groups, groups_cap;
    uint64_t n_entries, n_bytes;
};

/* Takes the descriptor. */
void place_tree_init(struct place_tree *tree, int root_fd);
void place_tree_finish(struct place_tree *tree);

/* As tree_on_entry and tree_on_bytes, with the tree as arg. */
bool place_tree_entry(void *tree, const struct tree_entry *entry, struct error *err) MUST_USE;
bool place_tree_bytes(void *tree, struct str bytes, bool is_last, struct error *err) MUST_USE;

/* When everything is there: folders get the times they had. */
bool place_tree_end(struct place_tree *tree, struct error *err) MUST_USE;
