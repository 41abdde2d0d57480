/* Paths below an image root, walked one component at a time without following links.
 *
 * The image is hostile: a link in it must not lead the agent anywhere. Every function takes
 * clean absolute paths (see path_is_clean) that are meant inside `root`.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

enum path_kind { PATH_ABSENT, PATH_DIRECTORY, PATH_LINK, PATH_OTHER };

/* Absolute, at most 4095 bytes, without empty, `.` or `..` components and no slash at the end. */
bool path_is_clean(struct str path);

/* Opens the directory that holds the last component, making missing ones (0755, root's).
 * *name points into `path`. ERR_FORBIDDEN when a component is a link or no directory. */
bool path_parent(const char *root, const char *path, bool makes, int *parent, const char **name,
                 struct error *err) MUST_USE;

/* What is at the path itself; a missing parent counts as absent. */
bool path_kind(const char *root, const char *path, enum path_kind *kind,
               struct error *err) MUST_USE;

/* Makes the directory and its parents when absent; ERR_FORBIDDEN when it is anything else. */
bool path_make(const char *root, const char *path, mode_t mode, bool *is_new,
               struct error *err) MUST_USE;

/* Removes what is there (a file or a link) and writes a new file. */
bool path_write(const char *root, const char *path, mode_t mode, struct str text,
                struct error *err) MUST_USE;

/* A regular file's whole text, NUL-terminated, freed by the caller; ERR_NOT_FOUND when there is
 * none (a link counts as none). */
bool path_read(const char *root, const char *path, size_t limit, char **text,
               struct error *err) MUST_USE;
