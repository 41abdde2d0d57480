/* What a program's main process gives up before it becomes the program. Async-signal-safe. */
#pragma once

#include <stdbool.h>

#include "guest/user.h"

/* No core files, 65 536 descriptors or as many as the hard limit lets, umask 022. */
bool confine_limits(void);

/* For a look at files with the rights of a user: only effective ids and groups, and no
 * capabilities for others than root. confine_return takes them back or aborts. */
bool confine_borrow(const struct user *user);
void confine_return(void);

/* Groups, capabilities, then the user. uid 0 keeps the usual container capabilities; others keep
 * none, but set-uid files still work. */
bool confine_user(const struct user *user);

/* Limits and capabilities that all children begin with, once for all of them; the caller keeps its
 * own capabilities. Each child then needs confine_become alone. */
bool confine_children(void);
bool confine_become(const struct user *user);
