/* What a sandbox holds right now: asked of its worker, which captures it as a system's version.
 *
 * A call asks, parks, and runs again when the version is there, as for files (files_ask.h), whose
 * rows carry this question too. Whoever asks before the sandbox is held shares the version; one
 * that nobody waits for any more is not published.
 */
#pragma once

#include "base/id.h"
#include "server/context.h"

enum { SNAPSHOT_MS = 30 * 1000 };

struct snapshot {
    bool is_there;            /* false: the response is parked */
    char version_id[ID_TEXT]; /* empty: what the image alone holds */
};

/* Of a run, or of a workspace that is mounted or has a run. ERR_NOT_MOUNTED when it is in no
 * sandbox, or that does not answer or cannot stand still; ERR_QUOTA when there is no room for it.
 */
bool snapshot_ask(struct call *call, const char *subject_id, struct snapshot *snapshot,
                  struct response *res, struct error *err) MUST_USE;
