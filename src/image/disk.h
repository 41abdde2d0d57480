/* The file operations images need: openings that cannot leave a folder, sorted listings, locks.
 *
 * Paths are given below an open folder and never resolved through a symbolic link.
 */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/id.h"
#include "base/str.h"

/* Opens below `root`: no "..", no symbolic link, no other file system. Path "" is the root itself.
 * -1 with errno set on failure. */
int disk_open(int root, const char *path, int flags);

/* The folder that holds the last segment of a path, and that segment. -1 with errno on failure. */
int disk_open_parent(int root, const char *path, const char **name);

bool disk_sync(int fd, const char *what, struct error *err) MUST_USE;

/* Whether folder/name is there at all; a symbolic link is not followed. */
bool disk_has(int folder, const char *name);

/* Waits for the exclusive (or shared) lock of folder/name; closing *fd gives it back. */
bool disk_lock(int folder, const char *name, bool is_shared, int *fd, struct error *err) MUST_USE;

/* The exclusive lock when nobody holds any; *fd is -1 otherwise. */
bool disk_try_lock(int folder, const char *name, int *fd, struct error *err) MUST_USE;

/* A name for something unfinished: unique on this machine. */
enum { DISK_TEMPORARY = ID_TEXT + 8 };
void disk_temporary(char name[DISK_TEMPORARY]);

/* The entries of a folder, sorted by bytes; "." and ".." left out. ERR_TOO_LARGE over max. */
struct disk_names {
    char **names;
    size_t n;
};
bool disk_list(int folder, size_t max, struct disk_names *names, struct error *err) MUST_USE;
void disk_names_sort(struct disk_names *names);
void disk_names_finish(struct disk_names *names);
