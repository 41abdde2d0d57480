/* A tree of files (protocol/tree.h) written below a directory.
 *
 * The tree's order and paths were checked by its decoder; every folder on the way is opened
 * without following links, so nothing in the image leads anywhere else.
 */
#pragma once

#include <sys/types.h>

#include "base/arena.h"
#include "protocol/tree.h"

enum { PLACE_WRITE = 262144 }; /* bytes of a file that are written at once */

/* A folder that is open: what is in it still comes. */
struct placed_folder {
    int fd;
    size_t path_len;  /* of the tree's path of it; 0: the root */
    bool gives_group; /* new files are of its group */
    bool has_time;    /* to be set when nothing more comes */
    int64_t mtime_ns;
};

struct place_tree {
    struct placed_folder *folders; /* the root, and each in the one before */
    size_t n_folders;
    struct buf folder; /* path of the last of them */
    unsigned mask;     /* bits that new files do not get */
    uid_t uid;         /* whose new files are */
    gid_t gid;
    int file_fd; /* whose contents are on their way, or -1 */
    struct tree_entry file;
    bool has_facts;                    /* it was made with the owner and mode it is to have */
    struct buf file_path, file_xattrs; /* what `file` refers to */
    struct buf contents;               /* of it, not written yet */
    struct arena arena;                /* of the groups */
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

/* When everything is there: the folders that are still open get the times they had. */
bool place_tree_end(struct place_tree *tree, struct error *err) MUST_USE;
