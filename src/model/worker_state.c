#include "model/worker_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    /* the way forward */
    {WORKER_REGISTERING, WORKER_ACTIVATE,              WORKER_ACTIVE,      0},
    {WORKER_ACTIVE,      WORKER_DRAIN,                 WORKER_DRAINING,    0},
    {WORKER_DRAINING,    WORKER_DRAINED,               WORKER_DISABLED,    0},

    /* the way back */
    {WORKER_DRAINING,    WORKER_UNDRAIN,               WORKER_ACTIVE,      0},
    {WORKER_LOST,        WORKER_REGISTER,              WORKER_REGISTERING, 0},

    /* it is silent */
    {WORKER_REGISTERING, WORKER_HEARTBEAT_LOST,        WORKER_LOST,        0},
    {WORKER_ACTIVE,      WORKER_HEARTBEAT_LOST,        WORKER_LOST,        0},
    {WORKER_DRAINING,    WORKER_HEARTBEAT_LOST,        WORKER_LOST,        0},
    {WORKER_DISABLED,    WORKER_HEARTBEAT_LOST,        WORKER_LOST,        0},
    {WORKER_REGISTERING, WORKER_REGISTRATION_DEADLINE, WORKER_LOST,        0},
};

bool worker_state_apply(enum worker_state *state, enum worker_event on)
{
    const struct machine_move *move = machine_find(&worker_machine, (int)*state, (int)on);

    if (move)
        *state = (enum worker_state)move->to;
    return move;
}

bool worker_state_is_final(enum worker_state state)
{
    return machine_is_dead_end(&worker_machine, (int)state);
}

bool worker_event_is_expiry(enum worker_event event)
{
    return event == WORKER_HEARTBEAT_LOST || event == WORKER_REGISTRATION_DEADLINE;
}

const char *worker_state_name(enum worker_state state)
{
    switch (state) {
    case WORKER_REGISTERING: return "registering";
    case WORKER_ACTIVE: return "active";
    case WORKER_DRAINING: return "draining";
    case WORKER_DISABLED: return "disabled";
    case WORKER_LOST: return "lost";
    case WORKER_STATE_COUNT: break;
    }
    abort();
}

const char *worker_event_name(enum worker_event event)
{
    switch (event) {
    case WORKER_REGISTER: return "register";
    case WORKER_ACTIVATE: return "activate";
    case WORKER_DRAIN: return "drain";
    case WORKER_UNDRAIN: return "undrain";
    case WORKER_DRAINED: return "drained";
    case WORKER_HEARTBEAT_LOST: return "heartbeat_lost";
    case WORKER_REGISTRATION_DEADLINE: return "registration_deadline";
    case WORKER_EVENT_COUNT: break;
    }
    abort();
}

bool worker_state_parse(struct str text, enum worker_state *state)
{
    for (enum worker_state s = 0; s < WORKER_STATE_COUNT; s++) {
        if (str_equal(text, str_of(worker_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return worker_state_name((enum worker_state)state);
}

static const char *event_name(int event)
{
    return worker_event_name((enum worker_event)event);
}

static bool is_expiry(int event)
{
    return worker_event_is_expiry((enum worker_event)event);
}

const struct machine worker_machine = {
    .name = "worker",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = WORKER_STATE_COUNT,
    .n_events = WORKER_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
