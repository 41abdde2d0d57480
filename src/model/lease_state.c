#include "model/lease_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    /* the way forward */
    {LEASE_ASSIGNED,      LEASE_BEGIN,            LEASE_STARTING,      0},
    {LEASE_STARTING,      LEASE_START,            LEASE_RUNNING,       0},
    {LEASE_RUNNING,       LEASE_SUCCEED,          LEASE_COMPLETED,     0},
    {LEASE_RUNNING,       LEASE_FAIL,             LEASE_FAILED,        0},

    /* a checkpoint and the way back from it */
    {LEASE_RUNNING,       LEASE_CHECKPOINT_BEGIN, LEASE_CHECKPOINTING, 0},
    {LEASE_CHECKPOINTING, LEASE_CHECKPOINT_ABORT, LEASE_RUNNING,       0},
    {LEASE_CHECKPOINTING, LEASE_CHECKPOINT_READY, LEASE_CHECKPOINTED,  0},
    {LEASE_CHECKPOINTING, LEASE_FAIL,             LEASE_FAILED,        0},

    /* given back */
    {LEASE_ASSIGNED,      LEASE_REJECT,           LEASE_REJECTED,      0},
    {LEASE_STARTING,      LEASE_REJECT,           LEASE_REJECTED,      0},
    {LEASE_STARTING,      LEASE_REJECT_FINAL,     LEASE_FAILED,        0},

    /* cancelled, obeyed or not */
    {LEASE_ASSIGNED,      LEASE_CANCEL,           LEASE_CANCELLED,     0},
    {LEASE_STARTING,      LEASE_CANCEL,           LEASE_CANCELLED,     0},
    {LEASE_RUNNING,       LEASE_CANCEL,           LEASE_CANCELLED,     0},
    {LEASE_CHECKPOINTING, LEASE_CANCEL,           LEASE_CANCELLED,     0},
    {LEASE_ASSIGNED,      LEASE_CANCEL_GRACE,     LEASE_CANCELLED,     0},
    {LEASE_STARTING,      LEASE_CANCEL_GRACE,     LEASE_CANCELLED,     0},
    {LEASE_RUNNING,       LEASE_CANCEL_GRACE,     LEASE_CANCELLED,     0},
    {LEASE_CHECKPOINTING, LEASE_CANCEL_GRACE,     LEASE_CANCELLED,     0},

    /* before the program ran nothing is lost: the lease has merely expired */
    {LEASE_ASSIGNED,      LEASE_EXPIRE,           LEASE_EXPIRED,       0},
    {LEASE_STARTING,      LEASE_EXPIRE,           LEASE_EXPIRED,       0},
    {LEASE_ASSIGNED,      LEASE_STATE_DEADLINE,   LEASE_EXPIRED,       0},
    {LEASE_STARTING,      LEASE_STATE_DEADLINE,   LEASE_EXPIRED,       0},

    /* after that the work of the attempt is */
    {LEASE_RUNNING,       LEASE_EXPIRE,           LEASE_LOST,          0},
    {LEASE_CHECKPOINTING, LEASE_EXPIRE,           LEASE_LOST,          0},
    {LEASE_RUNNING,       LEASE_STATE_DEADLINE,   LEASE_LOST,          0},
    {LEASE_CHECKPOINTING, LEASE_STATE_DEADLINE,   LEASE_LOST,          0},

    /* the worker is gone, or the time is */
    {LEASE_ASSIGNED,      LEASE_RELEASE,          LEASE_LOST,          0},
    {LEASE_STARTING,      LEASE_RELEASE,          LEASE_LOST,          0},
    {LEASE_RUNNING,       LEASE_RELEASE,          LEASE_LOST,          0},
    {LEASE_CHECKPOINTING, LEASE_RELEASE,          LEASE_LOST,          0},
    {LEASE_ASSIGNED,      LEASE_SUPERSEDE,        LEASE_LOST,          0},
    {LEASE_STARTING,      LEASE_SUPERSEDE,        LEASE_LOST,          0},
    {LEASE_RUNNING,       LEASE_SUPERSEDE,        LEASE_LOST,          0},
    {LEASE_CHECKPOINTING, LEASE_SUPERSEDE,        LEASE_LOST,          0},
    {LEASE_ASSIGNED,      LEASE_HARD_DEADLINE,    LEASE_LOST,          0},
    {LEASE_STARTING,      LEASE_HARD_DEADLINE,    LEASE_LOST,          0},
    {LEASE_RUNNING,       LEASE_HARD_DEADLINE,    LEASE_LOST,          0},
    {LEASE_CHECKPOINTING, LEASE_HARD_DEADLINE,    LEASE_LOST,          0},
};

bool lease_state_apply(enum lease_state *state, enum lease_event on)
{
    const struct machine_move *move = machine_find(&lease_machine, (int)*state, (int)on);

    if (move)
        *state = (enum lease_state)move->to;
    return move;
}

bool lease_state_is_final(enum lease_state state)
{
    return state >= LEASE_CHECKPOINTED;
}

bool lease_event_is_expiry(enum lease_event event)
{
    return event == LEASE_EXPIRE || event == LEASE_STATE_DEADLINE || event == LEASE_SUPERSEDE ||
           event == LEASE_CANCEL_GRACE || event == LEASE_HARD_DEADLINE;
}

const char *lease_state_name(enum lease_state state)
{
    switch (state) {
    case LEASE_ASSIGNED: return "assigned";
    case LEASE_STARTING: return "starting";
    case LEASE_RUNNING: return "running";
    case LEASE_CHECKPOINTING: return "checkpointing";
    case LEASE_CHECKPOINTED: return "checkpointed";
    case LEASE_COMPLETED: return "completed";
    case LEASE_FAILED: return "failed";
    case LEASE_CANCELLED: return "cancelled";
    case LEASE_LOST: return "lost";
    case LEASE_REJECTED: return "rejected";
    case LEASE_EXPIRED: return "expired";
    case LEASE_STATE_COUNT: break;
    }
    abort();
}

const char *lease_event_name(enum lease_event event)
{
    switch (event) {
    case LEASE_BEGIN: return "begin";
    case LEASE_START: return "start";
    case LEASE_REJECT: return "reject";
    case LEASE_REJECT_FINAL: return "reject_final";
    case LEASE_CHECKPOINT_BEGIN: return "checkpoint_begin";
    case LEASE_CHECKPOINT_ABORT: return "checkpoint_abort";
    case LEASE_CHECKPOINT_READY: return "checkpoint_ready";
    case LEASE_SUCCEED: return "succeed";
    case LEASE_FAIL: return "fail";
    case LEASE_CANCEL: return "cancel";
    case LEASE_RELEASE: return "release";
    case LEASE_EXPIRE: return "expire";
    case LEASE_STATE_DEADLINE: return "state_deadline";
    case LEASE_SUPERSEDE: return "supersede";
    case LEASE_CANCEL_GRACE: return "cancel_grace";
    case LEASE_HARD_DEADLINE: return "hard_deadline";
    case LEASE_EVENT_COUNT: break;
    }
    abort();
}

bool lease_state_parse(struct str text, enum lease_state *state)
{
    for (enum lease_state s = 0; s < LEASE_STATE_COUNT; s++) {
        if (str_equal(text, str_of(lease_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return lease_state_name((enum lease_state)state);
}

static const char *event_name(int event)
{
    return lease_event_name((enum lease_event)event);
}

static bool is_expiry(int event)
{
    return lease_event_is_expiry((enum lease_event)event);
}

const struct machine lease_machine = {
    .name = "lease",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = LEASE_STATE_COUNT,
    .n_events = LEASE_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
