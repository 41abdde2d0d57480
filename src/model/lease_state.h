/* The life of a lease: one delivery of a run's attempt, a build or a mount to a worker.
 *
 * Every live state ends without the worker's help: when it is not renewed, when its state has
 * lasted too long, and when the worker's epoch is superseded.
 */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum lease_state {
    LEASE_ASSIGNED,
    LEASE_STARTING,
    LEASE_RUNNING,
    LEASE_CHECKPOINTING,
    LEASE_CHECKPOINTED,
    LEASE_COMPLETED,
    LEASE_FAILED,
    LEASE_CANCELLED,
    LEASE_LOST,
    LEASE_REJECTED,
    LEASE_EXPIRED,
    LEASE_STATE_COUNT,
};

enum lease_event {
    LEASE_BEGIN,
    LEASE_START,        /* the release gate: the program may run */
    LEASE_REJECT,       /* given back before the start; try elsewhere */
    LEASE_REJECT_FINAL, /* the preparation failed for good */
    LEASE_CHECKPOINT_BEGIN,
    LEASE_CHECKPOINT_ABORT, /* the run stays hot */
    LEASE_CHECKPOINT_READY,
    LEASE_SUCCEED,
    LEASE_FAIL,
    LEASE_CANCEL,         /* the sandbox is gone on request */
    LEASE_RELEASE,        /* the worker stops, or the guest died */
    LEASE_EXPIRE,         /* not renewed */
    LEASE_STATE_DEADLINE, /* this state has lasted too long */
    LEASE_SUPERSEDE,      /* the worker has a newer epoch */
    LEASE_CANCEL_GRACE,   /* a cancel was not obeyed */
    LEASE_HARD_DEADLINE,  /* the time of the run is used up */
    LEASE_EVENT_COUNT,
};

extern const struct machine lease_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool lease_state_apply(enum lease_state *state, enum lease_event on);
/* Final leases hold no slot and accept no write. */
bool lease_state_is_final(enum lease_state state);
bool lease_event_is_expiry(enum lease_event event);

const char *lease_state_name(enum lease_state state);
const char *lease_event_name(enum lease_event event);
bool lease_state_parse(struct str text, enum lease_state *state);
