/* What the parts of tree_edit share. */
#pragma once

#include "base/map.h"
#include "server/tree_edit.h"

/* An entry of a directory that was read. */
struct edit_item {
    struct node_entry entry;
    struct edit_folder *folder; /* of a directory that was read, too */
    bool is_gone;               /* it is no entry of the new tree */
};

struct edit_folder {
    struct edit_folder *above; /* NULL: the root */
    struct edit_item *self;    /* in the folder above */
    struct edit_item **items;
    size_t n, room;
    struct map names; /* of those that are not gone */
    bool is_changed;
    struct edit_folder *next; /* of all that were made */
};

struct tree_edit {
    struct tree_edit_plan plan;
    struct tree_store *store;
    struct arena arena;
    struct edit_folder *root, *all;
    struct edit_item *file; /* whose contents come */
    struct buf contents;
    struct blake2b hash;
    int64_t n_entries, n_bytes; /* with every change */
    bool must_count;            /* they are not known: files with several names went */
};

/* What lies below an item, and the bytes of itself. */
struct edit_sum {
    uint64_t n_entries, n_bytes;
    size_t depth, path_len; /* of the longest way down */
    bool has_links;
};

/* The directory's entries, read from the base when it is first needed. */
bool edit_folder_load(struct tree_edit *edit, struct edit_item *item, struct edit_folder *above,
                      struct error *err) MUST_USE;

bool edit_sum(struct tree_edit *edit, const struct edit_item *item, struct edit_sum *sum,
              struct error *err) MUST_USE;
