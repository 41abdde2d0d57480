#include "model/wait_state.h"

#include <stdlib.h>

#include "base/attr.h"

static const struct machine_move condition_moves[] = {
    {WAIT_PENDING, CONDITION_COMPLETE, WAIT_COMPLETED, 0},
    {WAIT_PENDING, CONDITION_EXPIRE,   WAIT_EXPIRED,   0},
    {WAIT_PENDING, CONDITION_CANCEL,   WAIT_CANCELLED, 0},
    {WAIT_PENDING, CONDITION_FAIL,     WAIT_FAILED,    0},
};

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move suspension_moves[] = {
    /* answered in place */
    {SUSPENSION_HOT,            WAIT_DELIVER,             SUSPENSION_RELEASED,       0},

    /* a checkpoint and the way back from it */
    {SUSPENSION_HOT,            WAIT_CHECKPOINT,          SUSPENSION_CHECKPOINTING,  0},
    {SUSPENSION_CHECKPOINTING,  WAIT_CHECKPOINT_FAIL,     SUSPENSION_HOT,            0},
    {SUSPENSION_CHECKPOINTING,  WAIT_CHECKPOINT_DEADLINE, SUSPENSION_HOT,            0},
    {SUSPENSION_CHECKPOINTING,  WAIT_PARK,                SUSPENSION_PARKED,         0},
    {SUSPENSION_CHECKPOINTING,  WAIT_PARK_SETTLED,        SUSPENSION_RESUME_PENDING, 0},

    /* answered while there was no sandbox */
    {SUSPENSION_PARKED,         WAIT_SETTLE,              SUSPENSION_RESUME_PENDING, 0},
    {SUSPENSION_RESUME_PENDING, WAIT_TAKE,                SUSPENSION_RESUMING,       0},
    {SUSPENSION_RESUMING,       WAIT_ACKNOWLEDGE,         SUSPENSION_RELEASED,       0},
    {SUSPENSION_RESUMING,       WAIT_RESUME_LOST,         SUSPENSION_RESUME_PENDING, 0},
    {SUSPENSION_RESUMING,       WAIT_RESUME_FAIL,         SUSPENSION_FAILED,         0},
    {SUSPENSION_RESUME_PENDING, WAIT_RESUME_FAIL,         SUSPENSION_FAILED,         0},

    /* a worker went away */
    {SUSPENSION_HOT,            WAIT_LEASE_LOST,          SUSPENSION_CANCELLED,      0},
    {SUSPENSION_CHECKPOINTING,  WAIT_LEASE_LOST,          SUSPENSION_CANCELLED,      0},
    {SUSPENSION_RELEASED,       WAIT_REDELIVER,           SUSPENSION_RESUME_PENDING, 0},

    /* nobody waits any more */
    {SUSPENSION_HOT,            WAIT_RUN_OVER,            SUSPENSION_CANCELLED,      0},
    {SUSPENSION_CHECKPOINTING,  WAIT_RUN_OVER,            SUSPENSION_CANCELLED,      0},
    {SUSPENSION_PARKED,         WAIT_RUN_OVER,            SUSPENSION_CANCELLED,      0},
    {SUSPENSION_RESUME_PENDING, WAIT_RUN_OVER,            SUSPENSION_CANCELLED,      0},
    {SUSPENSION_RESUMING,       WAIT_RUN_OVER,            SUSPENSION_CANCELLED,      0},
};

bool wait_condition_apply(enum wait_condition *condition, enum condition_event on)
{
    const struct machine_move *move =
        machine_find(&wait_condition_machine, (int)*condition, (int)on);

    if (move)
        *condition = (enum wait_condition)move->to;
    return move;
}

bool wait_suspension_apply(enum wait_suspension *suspension, enum wait_event on)
{
    const struct machine_move *move =
        machine_find(&wait_suspension_machine, (int)*suspension, (int)on);

    if (move)
        *suspension = (enum wait_suspension)move->to;
    return move;
}

bool wait_suspension_is_live(enum wait_suspension suspension)
{
    return suspension <= SUSPENSION_RESUMING;
}

bool wait_pair_is_legal(enum wait_condition condition, enum wait_suspension suspension)
{
    /* Who is parked waits; who waits has not been answered. */
    if (condition == WAIT_PENDING)
        return suspension <= SUSPENSION_PARKED;
    return suspension != SUSPENSION_PARKED;
}

const char *wait_kind_name(enum wait_kind kind)
{
    switch (kind) {
    case WAIT_STREAM: return "stream";
    case WAIT_TOKEN: return "token";
    case WAIT_TIMER: return "timer";
    case WAIT_KIND_COUNT: break;
    }
    abort();
}

const char *wait_condition_name(enum wait_condition condition)
{
    switch (condition) {
    case WAIT_PENDING: return "pending";
    case WAIT_COMPLETED: return "completed";
    case WAIT_EXPIRED: return "expired";
    case WAIT_CANCELLED: return "cancelled";
    case WAIT_FAILED: return "failed";
    case WAIT_CONDITION_COUNT: break;
    }
    abort();
}

const char *wait_suspension_name(enum wait_suspension suspension)
{
    switch (suspension) {
    case SUSPENSION_HOT: return "hot";
    case SUSPENSION_CHECKPOINTING: return "checkpointing";
    case SUSPENSION_PARKED: return "parked";
    case SUSPENSION_RESUME_PENDING: return "resume_pending";
    case SUSPENSION_RESUMING: return "resuming";
    case SUSPENSION_RELEASED: return "released";
    case SUSPENSION_FAILED: return "failed";
    case SUSPENSION_CANCELLED: return "cancelled";
    case SUSPENSION_COUNT: break;
    }
    abort();
}

const char *condition_event_name(enum condition_event event)
{
    switch (event) {
    case CONDITION_COMPLETE: return "complete";
    case CONDITION_EXPIRE: return "expire";
    case CONDITION_CANCEL: return "cancel";
    case CONDITION_FAIL: return "fail";
    case CONDITION_EVENT_COUNT: break;
    }
    abort();
}

const char *wait_event_name(enum wait_event event)
{
    switch (event) {
    case WAIT_CHECKPOINT: return "checkpoint";
    case WAIT_DELIVER: return "deliver";
    case WAIT_PARK: return "park";
    case WAIT_PARK_SETTLED: return "park_settled";
    case WAIT_CHECKPOINT_FAIL: return "checkpoint_fail";
    case WAIT_CHECKPOINT_DEADLINE: return "checkpoint_deadline";
    case WAIT_SETTLE: return "settle";
    case WAIT_TAKE: return "take";
    case WAIT_ACKNOWLEDGE: return "acknowledge";
    case WAIT_RESUME_LOST: return "resume_lost";
    case WAIT_RESUME_FAIL: return "resume_fail";
    case WAIT_LEASE_LOST: return "lease_lost";
    case WAIT_REDELIVER: return "redeliver";
    case WAIT_RUN_OVER: return "run_over";
    case WAIT_EVENT_COUNT: break;
    }
    abort();
}

bool wait_kind_parse(struct str text, enum wait_kind *kind)
{
    for (enum wait_kind k = 0; k < WAIT_KIND_COUNT; k++) {
        if (str_equal(text, str_of(wait_kind_name(k)))) {
            *kind = k;
            return true;
        }
    }
    return false;
}

bool wait_condition_parse(struct str text, enum wait_condition *condition)
{
    for (enum wait_condition c = 0; c < WAIT_CONDITION_COUNT; c++) {
        if (str_equal(text, str_of(wait_condition_name(c)))) {
            *condition = c;
            return true;
        }
    }
    return false;
}

bool wait_suspension_parse(struct str text, enum wait_suspension *suspension)
{
    for (enum wait_suspension s = 0; s < SUSPENSION_COUNT; s++) {
        if (str_equal(text, str_of(wait_suspension_name(s)))) {
            *suspension = s;
            return true;
        }
    }
    return false;
}

static const char *condition_state(int state)
{
    return wait_condition_name((enum wait_condition)state);
}

static const char *condition_event(int event)
{
    return condition_event_name((enum condition_event)event);
}

static bool condition_expires(int event)
{
    return event == CONDITION_EXPIRE;
}

static const char *suspension_state(int state)
{
    return wait_suspension_name((enum wait_suspension)state);
}

static const char *suspension_event(int event)
{
    return wait_event_name((enum wait_event)event);
}

static bool suspension_expires(int event)
{
    return event == WAIT_CHECKPOINT_DEADLINE || event == WAIT_RESUME_LOST ||
           event == WAIT_LEASE_LOST || event == WAIT_REDELIVER;
}

const struct machine wait_condition_machine = {
    .name = "wait_condition",
    .moves = condition_moves,
    .n_moves = COUNT_OF(condition_moves),
    .n_states = WAIT_CONDITION_COUNT,
    .n_events = CONDITION_EVENT_COUNT,
    .state_name = condition_state,
    .event_name = condition_event,
    .is_expiry = condition_expires,
};

const struct machine wait_suspension_machine = {
    .name = "wait_suspension",
    .moves = suspension_moves,
    .n_moves = COUNT_OF(suspension_moves),
    .n_states = SUSPENSION_COUNT,
    .n_events = WAIT_EVENT_COUNT,
    .state_name = suspension_state,
    .event_name = suspension_event,
    .is_expiry = suspension_expires,
};
