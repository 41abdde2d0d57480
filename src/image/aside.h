/* What the files of an unpacked layer are said to be, where they cannot be made so.
 *
 * Only root can give a file to another user, give it a capability or mark a folder for overlayfs.
 * For everybody else it is kept in attributes of the file (user.helmr.*), and all who read layers
 * read it back here: what comes of a layer, a drive or another layer, is the same bytes. A symbolic
 * link cannot have attributes: one that is not root's is kept as a file that holds its target.
 *
 * For root these are the plain calls.
 */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"

bool aside_is_needed(void);

/* Owner and mode, the kind of file included: a regular file can stand for a fifo. */
bool aside_set(int fd, mode_t mode, uid_t uid, gid_t gid, struct error *err) MUST_USE;

/* As fstat (also of what was opened with O_PATH) and fstatat without following. */
int aside_stat(int fd, struct stat *facts);
int aside_statat(int folder, const char *name, struct stat *facts);

/* As symlinkat and fchownat; as readlinkat. */
bool aside_symlink(const char *target, int folder, const char *name, uid_t uid, gid_t gid,
                   struct error *err) MUST_USE;
ssize_t aside_readlink(int folder, const char *name, char *target, size_t room);

/* Makes a fifo, or the file that stands for one, and opens it. -1 with errno. */
int aside_fifo(int folder, const char *name);

bool aside_set_opaque(int folder, struct error *err) MUST_USE;
bool aside_is_opaque(int folder);

/* Under which name an attribute is kept, and the other way: NULL for what is no attribute of the
 * file but told of it here. */
const char *aside_stored(const char *attribute);
const char *aside_attribute(const char *stored);
