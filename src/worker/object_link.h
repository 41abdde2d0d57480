/* The server's object routes as a place where sealed objects are kept, for workers that have no
 * other way to the store. Objects on their way are in memory only.
 */
#pragma once

#include "blob/object.h"
#include "worker/link.h"

struct object_backend object_backend_of_line(struct line *line);
