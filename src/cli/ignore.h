/* What never goes into a source archive, wherever it is in the project, and which symbolic links
 * stay inside of it.
 */
#pragma once

#include "base/str.h"

/* One name, not a path: node_modules, .git, .helmr, .next, .env and .env.* */
bool ignore_name(struct str name);

/* Judged by the words alone: whether the target, seen from the link's directory, never leaves the
 * root. `path` is the link's own path below the root. */
bool ignore_link_stays_inside(struct str path, struct str target);
