/* What differs between two stored trees, by path.
 *
 * Directories whose digests are equal are not looked into, and one that is only on the way to a
 * change is none itself. What an image holds is in no version: of it is only known what
 * a version marks as gone or is laid over. Nothing but the store is read, and nothing of the trees
 * is run.
 */
#pragma once

#include "blob/tree_reader.h"

enum diff_kind {
    DIFF_ADDED,
    DIFF_MODIFIED,
    DIFF_DELETED,
    DIFF_RENAMED,
    DIFF_TYPE_CHANGED,
    DIFF_MODE_CHANGED,
};

enum { DIFF_CHANGES_MAX = 200 * 1000 };

/* before, after: NULL where there is nothing, or nothing is known. */
struct diff_change {
    enum diff_kind kind;
    struct str path, path_before; /* path_before: of what was renamed */
    const struct node_entry *before, *after;
};

struct diff {
    struct tree_reader *from, *to; /* NULL: an empty tree */
    struct str within;             /* only what is at or below this path; empty: all */
    struct arena arena;
    struct diff_change *changes; /* in the order of tree_path_order */
    size_t n, room;
    int depth; /* of the directory that is looked at */
};

/* Fills in the changes. ERR_TOO_LARGE when there are more than DIFF_CHANGES_MAX. */
bool diff_find(struct diff *diff, struct error *err) MUST_USE;
void diff_finish(struct diff *diff); /* leaves the readers alone */

const char *diff_kind_name(enum diff_kind kind);

enum diff_text { DIFF_NO_TEXT, DIFF_TEXT, DIFF_BINARY, DIFF_TOO_LARGE };

/* The change of a file's contents as a unified diff with its two headers, where both sides are
 * text and not too long. */
bool diff_patch(struct diff *diff, const struct diff_change *change, struct buf *out,
                enum diff_text *result, struct error *err) MUST_USE;
