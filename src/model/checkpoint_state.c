#include "model/checkpoint_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    /* the way forward */
    {CHECKPOINT_CREATING, CHECKPOINT_STAGE,      CHECKPOINT_STAGED,  0},
    {CHECKPOINT_STAGED,   CHECKPOINT_FENCE,      CHECKPOINT_READY,   0},
    {CHECKPOINT_STAGED,   CHECKPOINT_LEASE_OVER, CHECKPOINT_READY,   0},
    {CHECKPOINT_READY,    CHECKPOINT_RETENTION,  CHECKPOINT_DELETED, 0},

    /* it came to nothing */
    {CHECKPOINT_CREATING, CHECKPOINT_ABORT,      CHECKPOINT_INVALID, 0},
    {CHECKPOINT_STAGED,   CHECKPOINT_ABORT,      CHECKPOINT_INVALID, 0},
    {CHECKPOINT_CREATING, CHECKPOINT_LEASE_OVER, CHECKPOINT_INVALID, 0},
    {CHECKPOINT_CREATING, CHECKPOINT_DEADLINE,   CHECKPOINT_INVALID, 0},
    {CHECKPOINT_READY,    CHECKPOINT_DAMAGE,     CHECKPOINT_INVALID, 0},
};

bool checkpoint_state_apply(enum checkpoint_state *state, enum checkpoint_event on)
{
    const struct machine_move *move = machine_find(&checkpoint_machine, (int)*state, (int)on);

    if (move)
        *state = (enum checkpoint_state)move->to;
    return move;
}

bool checkpoint_state_is_final(enum checkpoint_state state)
{
    return state == CHECKPOINT_INVALID || state == CHECKPOINT_DELETED;
}

bool checkpoint_event_is_expiry(enum checkpoint_event event)
{
    return event == CHECKPOINT_LEASE_OVER || event == CHECKPOINT_DEADLINE ||
           event == CHECKPOINT_RETENTION;
}

const char *checkpoint_state_name(enum checkpoint_state state)
{
    switch (state) {
    case CHECKPOINT_CREATING: return "creating";
    case CHECKPOINT_STAGED: return "staged";
    case CHECKPOINT_READY: return "ready";
    case CHECKPOINT_INVALID: return "invalid";
    case CHECKPOINT_DELETED: return "deleted";
    case CHECKPOINT_STATE_COUNT: break;
    }
    abort();
}

const char *checkpoint_event_name(enum checkpoint_event event)
{
    switch (event) {
    case CHECKPOINT_STAGE: return "stage";
    case CHECKPOINT_FENCE: return "fence";
    case CHECKPOINT_ABORT: return "abort";
    case CHECKPOINT_DAMAGE: return "damage";
    case CHECKPOINT_LEASE_OVER: return "lease_over";
    case CHECKPOINT_DEADLINE: return "deadline";
    case CHECKPOINT_RETENTION: return "retention";
    case CHECKPOINT_EVENT_COUNT: break;
    }
    abort();
}

bool checkpoint_state_parse(struct str text, enum checkpoint_state *state)
{
    for (enum checkpoint_state s = 0; s < CHECKPOINT_STATE_COUNT; s++) {
        if (str_equal(text, str_of(checkpoint_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return checkpoint_state_name((enum checkpoint_state)state);
}

static const char *event_name(int event)
{
    return checkpoint_event_name((enum checkpoint_event)event);
}

static bool is_expiry(int event)
{
    return checkpoint_event_is_expiry((enum checkpoint_event)event);
}

const struct machine checkpoint_machine = {
    .name = "checkpoint",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = CHECKPOINT_STATE_COUNT,
    .n_events = CHECKPOINT_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
