/* What the host knows of a workspace: every path of a tree that it has, and what was touched since.
 *
 * Each directory that programs see is watched (inotify), those of the image too. What no event
 * named is as it was; in a directory with events, size, times and inode must say so as well. Times
 * alone would not do: where files are in memory, writing through a mapping changes none. Events
 * name whoever opens a file, so while programs live, what they ever opened counts as touched.
 *
 * Without watches, or past its bounds, there is no table: `lack` says why, and whoever asks for
 * a difference is told everything.
 */
#pragma once

#include <sys/stat.h>

#include "base/map.h"
#include "protocol/tree.h"

enum { SEEN_BYTES_MAX = 40 << 20, SEEN_NAMES_MAX = 100000, SEEN_MARK = 65 };

struct seen_folder;

struct seen_entry {
    const char *name;           /* the folder's */
    uint64_t print;             /* of everything that stat says of it */
    struct seen_folder *folder; /* of a directory */
    enum tree_kind kind;
    bool is_linked; /* it has other names */
};

struct seen_folder {
    struct seen_folder *parent;
    struct seen_folder *more;   /* the next of its parent's `below` */
    struct seen_folder *below;  /* directories that only the image has */
    const char *name;           /* owned; "" for the root */
    struct seen_entry *entries; /* in order of names */
    size_t n, room;
    uint64_t inode;
    int watch;      /* -1: none, or not any more */
    bool has_links; /* in it or below it */
    /* The last life of the table in which something happened here, or further down. */
    uint32_t touched, opened, touched_below, opened_below;
};

struct seen {
    int root_fd;              /* borrowed: the workspace as programs see it; -1: none */
    int watch_fd;             /* -1: none */
    struct seen_folder *root; /* NULL: no table */
    char mark[SEEN_MARK];     /* what the host calls the tree that the table is of */
    struct map names;         /* watch and name of what was touched or opened → what it was */
    struct seen_watches *watches;
    uint32_t life;      /* everything that was noted in an earlier one is forgotten */
    bool counts_opened; /* what was opened may have been written since */
    bool is_inside;     /* the workspace is the working directory, so that paths begin there */
    size_t n_bytes;
    const char *lack;
};

void seen_init(struct seen *seen);
void seen_finish(struct seen *seen);

/* Gives up the table and its watches; `lack` is a literal. */
void seen_forget(struct seen *seen, const char *lack);

/* A table of a new tree, whose folders are made with seen_folder_make and told with seen_commit;
 * false when nothing can be watched. Until then the old one stays for comparison. */
bool seen_begin(struct seen *seen, int root_fd);
/* Puts the new table in the place of the old. While programs live, nothing that they touched or
 * opened is forgotten. */
void seen_commit(struct seen *seen, struct seen_folder *root, const char *mark, bool is_live);

/* `path` is relative to the workspace and names the folder; "" is the root. NULL when it cannot be
 * watched: then the table is given up. */
struct seen_folder *seen_folder_make(struct seen *seen, struct seen_folder *parent,
                                     const char *path, uint64_t inode);
/* The same for all directories of the image below `lower_fd` that the folder lacks by now. */
void seen_watch_below(struct seen *seen, struct seen_folder *folder, const char *path,
                      int lower_fd);
void seen_folder_destroy(struct seen *seen, struct seen_folder *folder); /* accepts NULL */
/* After folders were made, before anything else is done: the working directory is / again. */
void seen_leave(struct seen *seen);

/* What happened inside is known further up. */
void seen_pass_up(const struct seen_folder *from, struct seen_folder *to);

/* Names are added in order. An old folder may be given to a new one whole. */
void seen_add(struct seen *seen, struct seen_folder *folder, const char *name,
              const struct seen_entry *entry);
const struct seen_entry *seen_find(const struct seen_folder *folder, const char *name);

/* Takes the events that are there. */
void seen_drain(struct seen *seen);

bool seen_is_named(const struct seen *seen, const struct seen_folder *folder, const char *name,
                   bool is_live);
/* Whether something happened in the folder itself; in it or anywhere below. */
bool seen_is_touched(const struct seen *seen, const struct seen_folder *folder, bool is_live);
bool seen_is_clean(const struct seen *seen, const struct seen_folder *folder, bool is_live);
/* Whether a touched file has other names now, or had: those were not named. */
bool seen_links_are_touched(const struct seen *seen, int upper_fd);

uint64_t seen_print(const struct stat *info);
