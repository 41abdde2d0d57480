/* A run and the workspace it writes to: there is one writer at a time.
 *
 * A run is the writer from its creation to its end, also while it is parked. Its row is the
 * record of that, so whoever makes one for a workspace that others may know locks the workspace
 * first, and asks then.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "store/store.h"

/* What a task brings along to a workspace. */
struct workspace_guest {
    const char *environment_id;
    struct str deployment_id;
    struct str fingerprint; /* of its sandbox */
    int64_t cpu_millis, memory_mib, disk_mib;
};

/* Locks the workspace and leaves in *version what the run begins with (ptr NULL: nothing yet).
 * ERR_SANDBOX_NOT_DEPLOYED when the task's deployment lacks the workspace's sandbox;
 * ERR_WORKSPACE_NOT_FOUND, _INACTIVE; _SANDBOX when the sandbox is another; _RESOURCES when it has
 * less than the workspace was made for; _WRITER while another run or a mount of it is not over;
 * _RECOVERY while changes that were lost are not acknowledged by a mount. */
bool workspace_join(struct tx *tx, const char *workspace_id, const struct workspace_guest *guest,
                    struct arena *arena, struct str *version, struct error *err) MUST_USE;
