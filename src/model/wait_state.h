/* A run's blocking stop, as two machines that move independently.
 *
 * The condition says whether what it waits for has happened; it settles once. The suspension
 * says where the sandbox is. Which pairs of the two may exist is wait_pair_is_legal.
 */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum wait_kind { WAIT_STREAM, WAIT_TOKEN, WAIT_TIMER, WAIT_KIND_COUNT };

enum wait_condition {
    WAIT_PENDING,
    WAIT_COMPLETED,
    WAIT_EXPIRED,
    WAIT_CANCELLED,
    WAIT_FAILED,
    WAIT_CONDITION_COUNT,
};

enum condition_event {
    CONDITION_COMPLETE, /* a record, a token's answer, a timer that is due */
    CONDITION_EXPIRE,   /* its own timeout, or the token's */
    CONDITION_CANCEL,   /* the token was cancelled, or the run ended */
    CONDITION_FAIL,     /* the value was refused */
    CONDITION_EVENT_COUNT,
};

enum wait_suspension {
    SUSPENSION_HOT, /* the sandbox is alive */
    SUSPENSION_CHECKPOINTING,
    SUSPENSION_PARKED, /* there is a checkpoint and no sandbox */
    SUSPENSION_RESUME_PENDING,
    SUSPENSION_RESUMING,
    SUSPENSION_RELEASED, /* the program has the answer */
    SUSPENSION_FAILED,
    SUSPENSION_CANCELLED,
    SUSPENSION_COUNT,
};

enum wait_event {
    WAIT_CHECKPOINT,          /* the hot time is over and nothing came */
    WAIT_DELIVER,             /* the answer was taken in place */
    WAIT_PARK,                /* the sandbox is gone, the checkpoint ready */
    WAIT_PARK_SETTLED,        /* the same, and the condition settled meanwhile */
    WAIT_CHECKPOINT_FAIL,     /* the program goes on waiting in memory */
    WAIT_CHECKPOINT_DEADLINE, /* no word of the checkpoint */
    WAIT_SETTLE,              /* the condition settled while it was parked */
    WAIT_TAKE,                /* a worker took it to resume it */
    WAIT_ACKNOWLEDGE,         /* the resumed program has the answer */
    WAIT_RESUME_LOST,         /* the lease was lost, or the restore refused */
    WAIT_RESUME_FAIL,         /* too often, or the checkpoint is no good */
    WAIT_LEASE_LOST,          /* the sandbox is gone without a checkpoint */
    WAIT_REDELIVER,           /* lost later in the attempt: from this checkpoint again */
    WAIT_RUN_OVER,
    WAIT_EVENT_COUNT,
};

extern const struct machine wait_condition_machine, wait_suspension_machine;

/* Move; false, with the state left alone, when the move is not legal. */
bool wait_condition_apply(enum wait_condition *condition, enum condition_event on);
bool wait_suspension_apply(enum wait_suspension *suspension, enum wait_event on);

bool wait_pair_is_legal(enum wait_condition condition, enum wait_suspension suspension);
/* It holds its run's one place for a blocking wait. */
bool wait_suspension_is_live(enum wait_suspension suspension);

const char *wait_kind_name(enum wait_kind kind);
const char *wait_condition_name(enum wait_condition condition);
const char *wait_suspension_name(enum wait_suspension suspension);
const char *condition_event_name(enum condition_event event);
const char *wait_event_name(enum wait_event event);

bool wait_kind_parse(struct str text, enum wait_kind *kind);
bool wait_condition_parse(struct str text, enum wait_condition *condition);
bool wait_suspension_parse(struct str text, enum wait_suspension *suspension);
