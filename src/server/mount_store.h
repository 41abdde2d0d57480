/* Mounts: a workspace in a sandbox for people, without a run.
 *
 * A workspace has one writer: a run that is not over, or a mount that is not over. Whoever makes
 * either, or moves a mount, locks the workspace first and the mount after it; leases come before
 * both, programs after. A mount stands in the queue while it is mounting and no worker has it.
 */
#pragma once

#include "base/id.h"
#include "model/mount_state.h"
#include "server/context.h"
#include "server/lease.h"
#include "server/process_store.h"

struct mount_row {
    char id[ID_TEXT], environment_id[ID_TEXT], workspace_id[ID_TEXT], lane_id[ID_TEXT];
    char lease_id[ID_TEXT], worker_id[ID_TEXT]; /* empty: nobody has it */
    enum mount_state state;
    int64_t generation, dispatches, created_ms;
    bool may_be_dirty, is_asked_to_stop;
    struct str base_version_id, version_operation, version_fp; /* ptr NULL: none */
};

/* Locks the workspace, then the mount. ERR_NOT_FOUND. */
bool mount_hold(struct tx *tx, const char *id, struct arena *arena, struct mount_row *mount,
                struct error *err) MUST_USE;

/* Locks the workspace and its mount that is not over, when there is one. ERR_WORKSPACE_NOT_FOUND.
 */
bool mount_find(struct tx *tx, const char *environment_id, const char *workspace_id,
                struct arena *arena, struct mount_row *mount, bool *found,
                struct error *err) MUST_USE;

/* The same, and makes one when there is none: ERR_QUOTA when the environment has no room for what
 * it would write. ERR_WORKSPACE_INACTIVE unless the workspace is active or to be recovered;
 * ERR_WORKSPACE_WRITER while a run of it is not over. */
bool mount_want(struct tx *tx, const char *environment_id, const char *workspace_id,
                struct arena *arena, struct mount_row *mount, bool *is_new, struct wakes *wakes,
                struct error *err) MUST_USE;

/* Moves the row by the table, with what went wrong (ptr NULL: nothing); a retryable conflict when
 * the move is not legal. Programs that are left are ended as the new state says. */
bool mount_move(struct tx *tx, struct mount_row *mount, enum mount_event on, struct str error,
                struct wakes *wakes, struct error *err) MUST_USE;

/* It goes out to a worker: fenced against all before, with the programs that wait for it. */
bool mount_give(struct tx *tx, const char *id, const char *lease_id, const char *worker_id,
                struct arena *arena, bool *moved, int64_t *attempt, int64_t *sequence,
                struct wakes *wakes, struct error *err) MUST_USE;

/* Its lease ended without a word from the mount: it goes to another worker, or is lost with what
 * was not saved. */
bool mount_give_back(struct server *server, struct tx *tx, const struct lease_row *lease,
                     const struct lease_fault *fault, bool is_final, struct wakes *wakes,
                     struct error *err) MUST_USE;

/* Asks it to end, with its changes captured. One that no worker has ends at once. */
bool mount_stop(struct tx *tx, struct mount_row *mount, struct wakes *wakes,
                struct error *err) MUST_USE;

/* Asks the mount of a workspace to end, with all programs in it; *is_over when there is none. The
 * topic workspace:<id> tells when it is. */
bool mount_end(struct tx *tx, const char *environment_id, const char *workspace_id,
               struct arena *arena, bool *is_over, struct wakes *wakes, struct error *err) MUST_USE;

/* For those who write a version themselves. Locks the workspace; *is_free when nobody writes to it.
 * A mount without programs is asked to stop: commit, wait for the topic workspace:<id> and ask
 * again. ERR_WORKSPACE_WRITER while a run or a program writes. */
bool mount_make_way(struct tx *tx, const char *environment_id, const char *workspace_id,
                    struct arena *arena, bool *is_free, struct wakes *wakes,
                    struct error *err) MUST_USE;
