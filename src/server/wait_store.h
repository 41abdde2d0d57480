/* Waits as the server keeps them: locked, moved by the model's tables with compare-and-set, their
 * events beside them.
 *
 * Every function works in the caller's transaction and notes whom to wake. Locks are taken in one
 * order everywhere: lease, run, wait, token. Whoever settles from outside holds no lease and
 * begins with the run.
 */
#pragma once

#include "base/id.h"
#include "model/wait_state.h"
#include "server/hub.h"
#include "server/lease.h"
#include "server/run_store.h"
#include "store/store.h"

enum {
    WAIT_DATA_MAX = 256 * 1024,                /* an answer */
    WAIT_RAW_MAX = 2 * WAIT_DATA_MAX,          /* the same, as others may write it */
    WAIT_DECISION_MAX = WAIT_DATA_MAX + 32768, /* the same, with what it came to; or a reason */
    WAIT_METADATA_MAX = 64 * 1024,
};

struct wait_row {
    char id[ID_TEXT], run_id[ID_TEXT], environment_id[ID_TEXT];
    char lease_id[ID_TEXT], token_id[ID_TEXT], checkpoint_id[ID_TEXT]; /* "": none */
    enum wait_kind kind;
    enum wait_condition condition;
    enum wait_suspension suspension;
    int64_t attempt, op, resume_version, resume_number, checkpoint_failures;
    int64_t park_at_ms, timeout_at_ms, due_ms, created_ms, settled_ms; /* 0: none */
    bool owns_token;                                      /* the token was made for this wait */
    struct str decision, params, metadata, tags, timeout; /* in the arena; ptr NULL: none */
};

/* Locks the row. ERR_NOT_FOUND when there is none. */
bool wait_load(struct tx *tx, const char *id, struct arena *arena, struct wait_row *wait,
               struct error *err) MUST_USE;

/* The run's wait in a live suspension, locked; *found false when there is none. */
bool wait_load_open(struct tx *tx, const char *run_id, struct arena *arena, struct wait_row *wait,
                    bool *found, struct error *err) MUST_USE;

/* Moves the suspension by the table. ERR_CONFLICT when that is not legal; retryable when somebody
 * else moved it meanwhile. *wait follows. */
bool wait_suspend(struct tx *tx, struct wait_row *wait, enum wait_event on, int64_t now,
                  struct error *err) MUST_USE;

/* The one way a condition settles; false only for errors, and settling twice is ERR_CONFLICT.
 * The caller has locked the run, then the wait. `decision` is what the program gets, as
 * wait_decision wrote it. By the suspension: hot → the run executes again and its worker is
 * told; parked → queued to resume; checkpointing → whoever ends the checkpoint looks. */
bool wait_settle(struct tx *tx, struct wait_row *wait, enum condition_event on, struct str decision,
                 struct wakes *wakes, struct error *err) MUST_USE;

/* The row and its event alone; what follows for suspension and run is the caller's. */
bool wait_decide_only(struct tx *tx, struct wait_row *wait, enum condition_event on,
                      struct str decision, struct error *err) MUST_USE;

/* Hands the answer of a settled wait to the program where it waits. Run and wait are locked. */
bool wait_deliver_hot(struct tx *tx, const struct wait_row *wait, struct wakes *wakes,
                      struct error *err) MUST_USE;

/* {"condition":…} with data of a completed one, a reason of a cancelled or failed one. Both may
 * be absent (ptr NULL): data is null then. */
bool wait_decision(enum condition_event on, struct str data, struct str reason, struct buf *out,
                   struct error *err) MUST_USE;

/* The run's live wait, if there is one, is over without the program: WAIT_LEASE_LOST or
 * WAIT_RUN_OVER. A pending condition is cancelled with the reason, and a token made for this
 * wait too. The caller has locked the run and moves it. */
bool wait_drop(struct tx *tx, const char *run_id, enum wait_event on, struct str reason,
               struct wakes *wakes, struct error *err) MUST_USE;

/* Active time counts while the run executes. After each move of a run to or from waiting under a
 * live lease: sets the lease's hard deadline to what is left, or to none. */
bool wait_set_deadline(struct tx *tx, struct lease_row *lease, const struct run_row *run,
                       struct error *err) MUST_USE;
