/* The life of one run, as a list of legal moves.
 *
 * What the public sees (`status`) is derived: from the state, from the outcome once it is
 * finished, and while a cancel is pending from what the run was before it.
 */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum run_state {
    RUN_CREATED,
    RUN_QUEUED,
    RUN_LEASED,
    RUN_EXECUTING,
    RUN_WAITING,
    RUN_PENDING_CANCEL,
    RUN_FINISHED,
    RUN_STATE_COUNT,
};

enum run_outcome {
    RUN_OUTCOME_NONE,
    RUN_OUTCOME_SUCCEEDED,
    RUN_OUTCOME_FAILED,
    RUN_OUTCOME_CANCELLED,
    RUN_OUTCOME_EXPIRED,
    RUN_OUTCOME_DEAD_LETTERED,
    RUN_OUTCOME_COUNT,
};

enum run_status {
    RUN_STATUS_QUEUED,
    RUN_STATUS_RUNNING,
    RUN_STATUS_WAITING,
    RUN_STATUS_SUCCEEDED,
    RUN_STATUS_FAILED,
    RUN_STATUS_CANCELLED,
    RUN_STATUS_EXPIRED,
    RUN_STATUS_COUNT,
};

enum run_event {
    RUN_ENQUEUE,
    RUN_LEASE,              /* the dispatcher gave it to a worker */
    RUN_START,              /* the worker acknowledged the start */
    RUN_REJECT,             /* the worker gave it back before the start */
    RUN_PREPARATION_FAILED, /* image, guest or secret */
    RUN_WAIT,
    RUN_SETTLE_HOT,    /* the condition came while the sandbox was alive */
    RUN_SETTLE_PARKED, /* … while it was a checkpoint */
    RUN_SUCCEED,
    RUN_FAIL,  /* thrown, or a non-zero exit, and no retry is left */
    RUN_RETRY, /* failed, and the policy allows another attempt */
    RUN_RESUME_FAILED,
    RUN_CANCEL,        /* polite where a sandbox may exist */
    RUN_CANCEL_PARKED, /* of a wait that holds no sandbox */
    RUN_GONE,          /* the worker reports that the sandbox is no more */
    RUN_TTL,
    RUN_DISPATCH_LIMIT,
    RUN_LEASE_OVER, /* expired, lost or superseded: the same attempt again */
    RUN_MAX_DURATION,
    RUN_CANCEL_GRACE,
    RUN_EVENT_COUNT,
};

extern const struct machine run_machine;

/* Moves *state and, when it finishes, sets *outcome (may be NULL). False, with both left
 * alone, when the move is not legal. */
bool run_state_apply(enum run_state *state, enum run_event on, enum run_outcome *outcome);
bool run_state_is_final(enum run_state state);
bool run_event_is_expiry(enum run_event event);

/* `before` is the state a pending cancel came from; it is ignored otherwise. */
enum run_status run_status_of(enum run_state state, enum run_outcome outcome,
                              enum run_state before);

const char *run_state_name(enum run_state state);
const char *run_outcome_name(enum run_outcome outcome); /* "" for none */
const char *run_status_name(enum run_status status);
const char *run_event_name(enum run_event event);

bool run_state_parse(struct str text, enum run_state *state);
bool run_outcome_parse(struct str text, enum run_outcome *outcome);
bool run_status_parse(struct str text, enum run_status *status);
