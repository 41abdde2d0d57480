/* A tree on its way into a file system: layers merged into one list of inodes.
 *
 * The walk goes folder by folder, each sorted, without recursion; content is written while the walk
 * is there, and what an inode will say is kept. Inodes are numbered in the order they are met.
 */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "image/ext4_out.h"
#include "image/view.h"

enum { EXT4_ROOT_INODE = 2, EXT4_FIRST_INODE = 11 };

struct ext4_attribute {
    const char *name;
    struct str value;
};

struct ext4_entry {
    const char *name;
    struct ext4_node *node;
};

struct ext4_node {
    uint32_t inode, links, uid, gid;
    uint16_t mode; /* with the kind */
    bool is_text;  /* a symbolic link whose target is in the inode itself */
    int64_t size;
    struct timespec modified;
    struct ext4_map map;
    const struct ext4_attribute *attributes;
    size_t n_attributes;

    /* Of a folder. */
    struct ext4_node *parent;
    const char *name;
    const uint8_t *merged; /* the layers that have it, highest first */
    size_t n_merged;
    struct ext4_entry *entries;
    size_t n_entries;
    bool is_indexed; /* its names are found by hash */
    int depth;
};

struct ext4_tree {
    struct view view;
    bool is_project; /* owners, modes and times as a project's archive has them */
    struct ext4_out out;
    struct arena arena;
    struct map links;         /* "layer:device:inode" to the node */
    struct ext4_node **nodes; /* the root first, then by inode */
    size_t n_nodes, room;
    size_t n_attributed; /* nodes with attributes */
};

void ext4_tree_finish(struct ext4_tree *tree); /* not the view */

/* Walks everything; the content is written, folders are not. */
bool ext4_tree_walk(struct ext4_tree *tree, struct error *err) MUST_USE;

/* Writes the folder's entries. The seed is the file system's. */
bool ext4_folder_write(struct ext4_out *out, struct ext4_node *folder, const uint32_t seed[4],
                       struct error *err) MUST_USE;
