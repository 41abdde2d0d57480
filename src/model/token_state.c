#include "model/token_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    {TOKEN_PENDING, TOKEN_COMPLETE, TOKEN_COMPLETED, 0},
    {TOKEN_PENDING, TOKEN_CANCEL,   TOKEN_CANCELLED, 0},
    {TOKEN_PENDING, TOKEN_EXPIRE,   TOKEN_EXPIRED,   0},
};

bool token_state_apply(enum token_state *state, enum token_event on)
{
    const struct machine_move *move = machine_find(&token_machine, (int)*state, (int)on);

    if (move)
        *state = (enum token_state)move->to;
    return move;
}

const char *token_state_name(enum token_state state)
{
    switch (state) {
    case TOKEN_PENDING: return "pending";
    case TOKEN_COMPLETED: return "completed";
    case TOKEN_CANCELLED: return "cancelled";
    case TOKEN_EXPIRED: return "expired";
    case TOKEN_STATE_COUNT: break;
    }
    abort();
}

const char *token_event_name(enum token_event event)
{
    switch (event) {
    case TOKEN_COMPLETE: return "complete";
    case TOKEN_CANCEL: return "cancel";
    case TOKEN_EXPIRE: return "expire";
    case TOKEN_EVENT_COUNT: break;
    }
    abort();
}

bool token_state_parse(struct str text, enum token_state *state)
{
    for (enum token_state s = 0; s < TOKEN_STATE_COUNT; s++) {
        if (str_equal(text, str_of(token_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return token_state_name((enum token_state)state);
}

static const char *event_name(int event)
{
    return token_event_name((enum token_event)event);
}

static bool is_expiry(int event)
{
    return event == TOKEN_EXPIRE;
}

const struct machine token_machine = {
    .name = "token",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = TOKEN_STATE_COUNT,
    .n_events = TOKEN_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
