/* A new tree made from a stored one by edits: only the directories that are touched are read, and
 * everything else is taken over by reference.
 *
 * Paths are canonical (files_path). Links are never followed: a path that leads through one is
 * ERR_FILE_NOT_DIRECTORY. Where something goes that an image may hold, too, a mark that it
 * is gone stays. After an error the edit can only be destroyed.
 */
#pragma once

#include "blob/tree_store.h"

struct tree_edit;

struct tree_edit_plan {
    struct tree_plan store;      /* with the base, or without one */
    uint64_t n_entries, n_bytes; /* of the base */
    int64_t now_ns;              /* the time of directories that are made on the way */
};

struct tree_edit *tree_edit_create(const struct tree_edit_plan *plan);
void tree_edit_destroy(struct tree_edit *edit); /* accepts NULL */

static inline void tree_edit_release(struct tree_edit **edit)
{
    tree_edit_destroy(*edit);
}
#define AUTO_TREE_EDIT AUTO(tree_edit_release) struct tree_edit *

/* How an entry takes its place. */
enum {
    EDIT_OWNER_OF_PLACE = 1, /* the owner of what it replaces, or of the directory it is in */
    EDIT_MODE_OF_PLACE = 2,  /* the mode of what it replaces, if that is of the same kind */
    EDIT_REPLACES_ANY =
        4, /* also what is of another kind, but for directories that hold anything */
};

/* Puts an entry of any kind but a whiteout in its place; directories on the way are made. A file's
 * contents follow (tree_edit_bytes). A directory that is there stays, with what is in it.
 * ERR_FILE_NOT_DIRECTORY, ERR_FILE_NOT_REGULAR when something else is there. */
bool tree_edit_put(struct tree_edit *edit, const struct tree_entry *entry, int how,
                   struct error *err) MUST_USE;
bool tree_edit_bytes(struct tree_edit *edit, struct str bytes, bool is_last,
                     struct error *err) MUST_USE;

/* Another name of a file that is there. */
bool tree_edit_link(struct tree_edit *edit, struct str path, struct str target,
                    struct error *err) MUST_USE;

/* ERR_FILE_NOT_FOUND; ERR_CONFLICT for a directory that is not empty, unless recursive. */
bool tree_edit_remove(struct tree_edit *edit, struct str path, bool is_recursive,
                      struct error *err) MUST_USE;

/* As rename(2), with directories on the way made. */
bool tree_edit_move(struct tree_edit *edit, struct str from, struct str to,
                    struct error *err) MUST_USE;

/* What is at the path by now, until the next edit. NULL: nothing. */
bool tree_edit_find(struct tree_edit *edit, struct str path, const struct node_entry **entry,
                    struct error *err) MUST_USE;

bool tree_edit_has_changes(const struct tree_edit *edit);

/* Writes the tree. ERR_ARCHIVE_TOO_LARGE when it has more than any workspace may. */
bool tree_edit_end(struct tree_edit *edit, struct tree_facts *facts, struct error *err) MUST_USE;
