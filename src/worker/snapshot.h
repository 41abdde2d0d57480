/* What a sandbox holds right now, as a version for those who look: everything in it stands still
 * for a moment, what changed is captured, and it goes on.
 *
 * Neither the agent's table nor the base of the next capture changes by it, so the end is captured
 * as if nobody had looked. All who asked before it is held get the same version.
 */
#pragma once

#include "protocol/worker_api_mount.h"
#include "worker/guest.h"
#include "worker/link.h"

#define SNAPSHOT_MESSAGE "workspace_snapshot"

struct snapshot_wishes {
    char ids[WIRE_SNAPSHOT_WISHES][ID_TEXT]; /* of requests */
    size_t n;
};

struct snapshot_source {
    struct guest *guest;
    struct lease *lease;
    struct line *line;
    bool has_base; /* the workspace had a version */
};

/* Notes the message's request; who asks beyond the bound is left to ask again. */
void snapshot_wish(struct snapshot_wishes *wishes, const struct wire_message *message);

/* Grants all wishes, or tells why not. False when the sandbox is of no use any more. */
bool snapshot_take(struct snapshot_wishes *wishes, const struct snapshot_source *source,
                   struct error *err) MUST_USE;

void snapshot_refuse(struct snapshot_wishes *wishes, const struct snapshot_source *source,
                     const char *why);
