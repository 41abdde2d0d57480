/* Versions of a workspace, made on the worker: the tree that the agent sends, chunked and sealed
 * with the store's key as it comes, and put into the store. Of a version that the agent remembers
 * only what differs comes, and is stored.
 *
 * Nothing the guest says is believed before the decoder of protocol/tree.h has checked it.
 */
#pragma once

#include "protocol/worker_api.h"
#include "worker/guest.h"
#include "worker/link.h"

struct capture {
    bool has_version; /* false: nothing was changed */
    struct wire_version version;
};

/* Texts of the version live in the arena. The guest's program is frozen or over. With `has_base` an
 * empty workspace is a change, too: everything was deleted. */
bool capture_workspace(struct guest *guest, struct lease *lease, struct line *line, bool has_base,
                       int64_t until_ms, struct arena *arena, struct capture *capture,
                       struct error *err) MUST_USE;
