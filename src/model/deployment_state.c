#include "model/deployment_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    /* the way forward */
    {DEPLOYMENT_QUEUED,   DEPLOYMENT_START,          DEPLOYMENT_BUILDING, 0},
    {DEPLOYMENT_BUILDING, DEPLOYMENT_BUILT,          DEPLOYMENT_DEPLOYED, 0},
    {DEPLOYMENT_BUILDING, DEPLOYMENT_FAIL,           DEPLOYMENT_FAILED,   0},

    /* on request */
    {DEPLOYMENT_QUEUED,   DEPLOYMENT_CANCEL,         DEPLOYMENT_FAILED,   0},
    {DEPLOYMENT_BUILDING, DEPLOYMENT_CANCEL,         DEPLOYMENT_FAILED,   0},

    /* nobody reports any more */
    {DEPLOYMENT_BUILDING, DEPLOYMENT_LEASE_LOST,     DEPLOYMENT_QUEUED,   0},
    {DEPLOYMENT_BUILDING, DEPLOYMENT_LEASES_SPENT,   DEPLOYMENT_FAILED,   0},
    {DEPLOYMENT_BUILDING, DEPLOYMENT_BUILD_DEADLINE, DEPLOYMENT_FAILED,   0},
    {DEPLOYMENT_QUEUED,   DEPLOYMENT_QUEUE_DEADLINE, DEPLOYMENT_FAILED,   0},
};

bool deployment_state_apply(enum deployment_state *state, enum deployment_event on)
{
    const struct machine_move *move = machine_find(&deployment_machine, (int)*state, (int)on);

    if (move)
        *state = (enum deployment_state)move->to;
    return move;
}

bool deployment_state_is_final(enum deployment_state state)
{
    return state == DEPLOYMENT_DEPLOYED || state == DEPLOYMENT_FAILED;
}

bool deployment_event_is_expiry(enum deployment_event event)
{
    return event == DEPLOYMENT_LEASE_LOST || event == DEPLOYMENT_LEASES_SPENT ||
           event == DEPLOYMENT_BUILD_DEADLINE || event == DEPLOYMENT_QUEUE_DEADLINE;
}

const char *deployment_state_name(enum deployment_state state)
{
    switch (state) {
    case DEPLOYMENT_QUEUED: return "queued";
    case DEPLOYMENT_BUILDING: return "building";
    case DEPLOYMENT_DEPLOYED: return "deployed";
    case DEPLOYMENT_FAILED: return "failed";
    case DEPLOYMENT_STATE_COUNT: break;
    }
    abort();
}

const char *deployment_event_name(enum deployment_event event)
{
    switch (event) {
    case DEPLOYMENT_START: return "start";
    case DEPLOYMENT_BUILT: return "built";
    case DEPLOYMENT_FAIL: return "fail";
    case DEPLOYMENT_CANCEL: return "cancel";
    case DEPLOYMENT_LEASE_LOST: return "lease_lost";
    case DEPLOYMENT_LEASES_SPENT: return "leases_spent";
    case DEPLOYMENT_BUILD_DEADLINE: return "build_deadline";
    case DEPLOYMENT_QUEUE_DEADLINE: return "queue_deadline";
    case DEPLOYMENT_EVENT_COUNT: break;
    }
    abort();
}

bool deployment_state_parse(struct str text, enum deployment_state *state)
{
    for (enum deployment_state s = 0; s < DEPLOYMENT_STATE_COUNT; s++) {
        if (str_equal(text, str_of(deployment_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return deployment_state_name((enum deployment_state)state);
}

static const char *event_name(int event)
{
    return deployment_event_name((enum deployment_event)event);
}

static bool is_expiry(int event)
{
    return deployment_event_is_expiry((enum deployment_event)event);
}

const struct machine deployment_machine = {
    .name = "deployment",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = DEPLOYMENT_STATE_COUNT,
    .n_events = DEPLOYMENT_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
