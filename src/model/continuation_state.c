#include "model/continuation_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    {CONTINUATION_ACCEPTED, CONTINUATION_CLAIM,      CONTINUATION_CLAIMED,  0},
    {CONTINUATION_CLAIMED,  CONTINUATION_CREATE,     CONTINUATION_CREATED,  0},
    {CONTINUATION_CLAIMED,  CONTINUATION_SKIP,       CONTINUATION_SKIPPED,  0},
    {CONTINUATION_CLAIMED,  CONTINUATION_FAIL,       CONTINUATION_FAILED,   0},

    /* whoever claimed it is gone, or found the workspace taken */
    {CONTINUATION_CLAIMED,  CONTINUATION_CLAIM_OVER, CONTINUATION_ACCEPTED, 0},
};

bool continuation_state_apply(enum continuation_state *state, enum continuation_event on)
{
    const struct machine_move *move = machine_find(&continuation_machine, (int)*state, (int)on);

    if (move)
        *state = (enum continuation_state)move->to;
    return move;
}

const char *continuation_state_name(enum continuation_state state)
{
    switch (state) {
    case CONTINUATION_ACCEPTED: return "accepted";
    case CONTINUATION_CLAIMED: return "claimed";
    case CONTINUATION_CREATED: return "created";
    case CONTINUATION_SKIPPED: return "skipped";
    case CONTINUATION_FAILED: return "failed";
    case CONTINUATION_STATE_COUNT: break;
    }
    abort();
}

const char *continuation_event_name(enum continuation_event event)
{
    switch (event) {
    case CONTINUATION_CLAIM: return "claim";
    case CONTINUATION_CREATE: return "create";
    case CONTINUATION_SKIP: return "skip";
    case CONTINUATION_FAIL: return "fail";
    case CONTINUATION_CLAIM_OVER: return "claim_over";
    case CONTINUATION_EVENT_COUNT: break;
    }
    abort();
}

bool continuation_state_parse(struct str text, enum continuation_state *state)
{
    for (enum continuation_state s = 0; s < CONTINUATION_STATE_COUNT; s++) {
        if (str_equal(text, str_of(continuation_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return continuation_state_name((enum continuation_state)state);
}

static const char *event_name(int event)
{
    return continuation_event_name((enum continuation_event)event);
}

static bool is_expiry(int event)
{
    return event == CONTINUATION_CLAIM_OVER;
}

const struct machine continuation_machine = {
    .name = "continuation",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = CONTINUATION_STATE_COUNT,
    .n_events = CONTINUATION_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
