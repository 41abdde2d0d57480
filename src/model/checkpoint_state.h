/* The life of a checkpoint: the sealed memory and disks of a run that is parked.
 *
 * A staged one is whole but its sandbox may still be alive; it can be resumed from only when
 * it is ready, which is after that sandbox is gone for certain.
 */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum checkpoint_state {
    CHECKPOINT_CREATING,
    CHECKPOINT_STAGED,
    CHECKPOINT_READY,
    CHECKPOINT_INVALID,
    CHECKPOINT_DELETED,
    CHECKPOINT_STATE_COUNT,
};

enum checkpoint_event {
    CHECKPOINT_STAGE,      /* everything is in the store */
    CHECKPOINT_FENCE,      /* its sandbox is destroyed */
    CHECKPOINT_ABORT,      /* the program goes on where it was */
    CHECKPOINT_DAMAGE,     /* it did not verify when it was read */
    CHECKPOINT_LEASE_OVER, /* the worker is gone, and its sandbox with it */
    CHECKPOINT_DEADLINE,   /* it has been in the making for too long */
    CHECKPOINT_RETENTION,  /* nobody can need it any more */
    CHECKPOINT_EVENT_COUNT,
};

extern const struct machine checkpoint_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool checkpoint_state_apply(enum checkpoint_state *state, enum checkpoint_event on);
/* Final ones keep no object alive. */
bool checkpoint_state_is_final(enum checkpoint_state state);
bool checkpoint_event_is_expiry(enum checkpoint_event event);

const char *checkpoint_state_name(enum checkpoint_state state);
const char *checkpoint_event_name(enum checkpoint_event event);
bool checkpoint_state_parse(struct str text, enum checkpoint_state *state);
