/* A parked run on its way back: queued with its checkpoint, given out, delivered again when
 * its worker is lost.
 *
 * A run is resumed from a ready checkpoint only, so its former sandbox is gone for certain.
 * Every function works in the caller's transaction and notes whom to wake; rows are locked in
 * the order lease, run, wait, checkpoint.
 */
#pragma once

#include "server/checkpoint_store.h"
#include "server/lease.h"
#include "server/wait_store.h"

/* How often the resumption of one wait may be lost before its run fails. */
enum { RESUMES_MAX = 10 };

/* The wait has settled and there is no sandbox any more: its suspension becomes resume_pending
 * and its run is queued with the checkpoint. Run and wait are locked. */
bool resume_queue(struct tx *tx, struct wait_row *wait, struct wakes *wakes,
                  struct error *err) MUST_USE;

/* A staged checkpoint whose sandbox is gone becomes ready: the run is parked, or queued at once
 * where the wait has settled meanwhile. `on` says how one knows that it is gone. */
bool resume_park(struct tx *tx, struct wait_row *wait, struct checkpoint_row *checkpoint,
                 enum checkpoint_event on, const char *source, struct wakes *wakes,
                 struct error *err) MUST_USE;

/* A worker takes the run's wait to resume it under this lease. */
bool resume_take(struct tx *tx, const char *run_id, const char *lease_id,
                 struct error *err) MUST_USE;

/* Asks the worker of a hot wait to park it, once. Run and wait are locked. */
bool resume_ask_to_park(struct tx *tx, const struct wait_row *wait, struct arena *arena,
                        struct wakes *wakes, struct error *err) MUST_USE;

/* What comes after a lease that ended without a result. */
enum resume_next {
    NEXT_RESTART, /* the attempt begins again */
    NEXT_RESUME,  /* it goes on from a checkpoint */
    NEXT_PARKED,  /* nothing is lost: it was whole already */
    NEXT_FAILED,  /* it cannot be resumed */
};

struct resume_verdict {
    enum resume_next next;
    const char *checkpoint_id; /* to go on from, in the arena; NULL: none */
    bool was_resuming;         /* counted by the wait, not as a delivery */
};

/* Brings the waits and checkpoints of a lost lease in order and says how its run goes on, which
 * the caller moves. */
bool resume_after_loss(struct tx *tx, const struct lease_row *lease, const struct run_row *run,
                       const struct lease_fault *fault, struct arena *arena, struct wakes *wakes,
                       struct resume_verdict *verdict, struct error *err) MUST_USE;

/* Why no worker of its group takes a run that is queued with a checkpoint: by key and by facts.
 * *words is NULL when one could, or when it is not queued so; else it is in the arena. */
bool resume_obstacle(struct tx *tx, const char *run_id, struct arena *arena, const char **words,
                     struct error *err) MUST_USE;
