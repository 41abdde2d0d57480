/* Sockets that a jailed process made in its own root.
 *
 * Its root is the process's to change, so a name there may be anything by now: it is opened
 * without following links, must be a socket, and who listens must be the jail's user.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* ERR_NOT_FOUND: not there yet, or nobody listens yet. `place`, unless NULL, gets a descriptor of
 * the socket in the tree: whoever connects through it reaches the same listener again. */
bool jailed_connect(int root, const char *name, unsigned user, int *fd, int *place,
                    struct error *err) MUST_USE;

enum { JAILED_PATH_MAX = 32 };

/* The path that a place has for this process. */
void jailed_path(int place, char path[JAILED_PATH_MAX]);

/* Waits a moment before the next try. False: the deadline has passed, or the process has ended. */
bool jailed_wait(int pidfd, int64_t deadline_ms, const char *what, struct error *err) MUST_USE;
