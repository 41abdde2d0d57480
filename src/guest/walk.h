/* A walk over a directory that a program filled, as the bytes of a tree (protocol/tree.h).
 *
 * Each part of a path is opened from its directory's descriptor and never through a link, and
 * other file systems are not entered: nothing the program left there leads anywhere else. The
 * walk is done in small steps, so that whoever walks stays responsive.
 *
 * With a table (guest/seen.h) it can tell only what differs from what that is of, and make the
 * table of what it walks over.
 */
#pragma once

#include <sys/types.h>

#include "base/arena.h"
#include "base/map.h"
#include "guest/seen.h"
#include "protocol/tree.h"

/* Whether the path is not to be in the tree; a `folder` that is may still hold things that are. */
enum walk_verdict { WALK_TAKE, WALK_LEAVE, WALK_LEAVE_WHEN_EMPTY };
typedef enum walk_verdict walk_judge(void *arg, struct str path);

/* Contents of a file, or an entry with everything an entry can have. */
enum { WALK_STEP_MAX = 262144 };
_Static_assert(WALK_STEP_MAX >= TREE_HEADER_LEN + TREE_PATH_MAX + TREE_TARGET_MAX + TREE_XATTRS_MAX,
               "an entry is one step");

struct walk_folder;

struct walk {
    int root_fd;  /* borrowed */
    int lower_fd; /* borrowed: what the directory is laid over, or -1; set after walk_init */
    dev_t device; /* the walk stays on it */
    struct walk_folder *folder;
    struct buf path;
    struct buf listing; /* room for what the kernel says of a directory */
    struct map links;   /* device and inode of files with many names → group */
    walk_judge *judge;
    void *arg;
    int file_fd; /* whose contents are on their way, or -1 */
    uint64_t file_left;
    int spent, n_spent; /* descriptors of files that were read, from this one on, to be closed */
    uint64_t n_entries, n_bytes, n_skipped; /* skipped: sockets and devices */
    uint64_t n_names_missing;               /* of files with many, that were not come across yet */
    uint64_t n_read, bytes_read;            /* of files whose contents were told */
    bool has_begun, is_done;

    /* Set after walk_init. */
    struct seen *seen;
    bool is_difference;  /* from what `seen` is of */
    bool is_live;        /* programs are only frozen */
    bool is_remembering; /* makes a table of it: `made`, when it is done */
    bool is_silent;      /* and that is all it does */
    struct seen_folder *made;
};

/* `judge` may be NULL. */
void walk_init(struct walk *walk, int root_fd, walk_judge *judge, void *arg);
void walk_finish(struct walk *walk);

/* The names in a directory but "." and "..", in order, in the arena. The descriptor is at its
 * beginning; `room` has 64 KiB and stays empty. */
bool walk_names(int folder, struct buf *room, struct arena *arena, const char ***names, size_t *n,
                struct error *err) MUST_USE;

/* Appends the attributes of an open file that a tree holds. */
bool walk_xattrs(int fd, struct buf *out, struct error *err) MUST_USE;

/* ERR_CONFLICT with is_difference: it cannot be told; all of it can.
 *
 * Appends a piece of the tree to `out`, at most WALK_STEP_MAX; nothing more to come: is_done. */
bool walk_step(struct walk *walk, struct buf *out, struct error *err) MUST_USE;
