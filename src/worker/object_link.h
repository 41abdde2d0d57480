/* The server's object routes as a place where sealed objects are kept, for workers that have no
 * other way to the store. Objects on their way are in memory only.
 */
#pragma once

#include "blob/object.h"
#include "worker/lease.h"
#include "worker/link.h"

/* Objects are put even while the server is away for a moment, as long as the lease is ours. */
struct object_link {
    struct line *line;
    struct lease *lease;
    int64_t until_ms; /* boot time; 0: only the lease is a limit */
};

/* The link outlives it. */
struct object_backend object_backend_of_link(struct object_link *link);
