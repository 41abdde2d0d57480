/* Leases as the server keeps them: locked, checked against the worker's fence, moved by the
 * model's table, with what each end means for the run or deployment behind it.
 *
 * The API of the workers and the sweeper come through here, so both use the same moves.
 */
#pragma once

#include "base/id.h"
#include "model/lease_state.h"
#include "protocol/worker_api.h"
#include "server/context.h"
#include "server/run_store.h"

enum lease_subject { SUBJECT_RUN, SUBJECT_BUILD, SUBJECT_MOUNT };

struct lease_row {
    char id[ID_TEXT], subject_id[ID_TEXT], environment_id[ID_TEXT], lane_id[ID_TEXT];
    char worker_id[ID_TEXT];
    enum lease_subject subject;
    enum lease_state state;
    int64_t attempt, sequence, epoch;
    int64_t granted_ms, started_ms, expires_ms, prev_expires_ms;
    int64_t state_deadline_ms, hard_deadline_ms;          /* 0: none */
    struct str finalize_fp, complete_fp, complete_answer; /* ptr NULL: none */
};

/* Locks the row for this transaction. ERR_LEASE_STALE when there is none. */
bool lease_load(struct tx *tx, const char *id, struct arena *arena, struct lease_row *lease,
                struct error *err) MUST_USE;

/* The lease of a worker's call: of this worker, its newest epoch, this sequence, and live.
 * With may_be_over a finished one is let through, for replays. */
bool lease_open(struct tx *tx, struct call *call, const struct wire_fence *fence, bool may_be_over,
                struct lease_row *lease, struct error *err) MUST_USE;

/* ERR_INVALID when the route is for another kind. */
bool lease_is_for(const struct lease_row *lease, enum lease_subject subject,
                  struct error *err) MUST_USE;

/* Locks the lease's run, always after the lease, so that nobody moves it meanwhile. */
bool lease_load_run(struct tx *tx, const struct lease_row *lease, struct arena *arena,
                    struct run_row *run, struct error *err) MUST_USE;

/* Moves the row by the table; ERR_LEASE_STALE when the move is not legal. */
bool lease_apply(struct tx *tx, struct lease_row *lease, enum lease_event on, int64_t deadline_ms,
                 struct error *err) MUST_USE;

/* Why a lease ended without a result, as its events name it. */
struct lease_fault {
    enum lease_event on; /* LEASE_REJECT, LEASE_RELEASE, LEASE_EXPIRE, LEASE_SUPERSEDE … */
    const char *reason;  /* rejected | lost | expired */
    const char *source;  /* of the events: worker, sweeper or control */
    const char *layer, *failure_kind; /* of the last delivery, should it be the last */
    struct str text;
    bool is_damaged; /* the checkpoint it was to go on from is no good */
};

/* Ends the lease and gives its subject back to the queue, or finishes it where that is what
 * the machines say. */
bool lease_give_back(struct server *server, struct tx *tx, struct lease_row *lease,
                     const struct lease_fault *fault, struct wakes *wakes,
                     struct error *err) MUST_USE;

/* The second half of that, for the run of a lease that is over. */
bool lease_deliver_again(struct server *server, struct tx *tx, struct lease_row *lease,
                         const struct lease_fault *fault, struct wakes *wakes,
                         struct error *err) MUST_USE;

/* Finishes the run of a lease that is over: the run, its open attempt, and a wake-up for its
 * group, where another run may have waited for the place in the queue. */
bool lease_finish_run(struct tx *tx, const struct lease_row *lease, struct run_row *run,
                      enum run_event on, const struct run_end *end, struct wakes *wakes,
                      struct error *err) MUST_USE;

/* Ends every live lease of a worker. The caller holds the lock of its group, so that none is
 * granted meanwhile. */
bool lease_end_all(struct server *server, struct tx *tx, const char *worker_id,
                   const struct lease_fault *fault, struct wakes *wakes,
                   struct error *err) MUST_USE;

bool lease_released_event(struct tx *tx, const struct lease_row *lease, const char *outcome,
                          struct error *err) MUST_USE;
