#include "model/session_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    {SESSION_OPEN, SESSION_CLOSE,  SESSION_CLOSED,    0},
    {SESSION_OPEN, SESSION_CANCEL, SESSION_CANCELLED, 0},
    {SESSION_OPEN, SESSION_EXPIRE, SESSION_EXPIRED,   0},
};

bool session_state_apply(enum session_state *state, enum session_event on)
{
    const struct machine_move *move = machine_find(&session_machine, (int)*state, (int)on);

    if (move)
        *state = (enum session_state)move->to;
    return move;
}

const char *session_state_name(enum session_state state)
{
    switch (state) {
    case SESSION_OPEN: return "open";
    case SESSION_CLOSED: return "closed";
    case SESSION_CANCELLED: return "cancelled";
    case SESSION_EXPIRED: return "expired";
    case SESSION_STATE_COUNT: break;
    }
    abort();
}

const char *session_event_name(enum session_event event)
{
    switch (event) {
    case SESSION_CLOSE: return "close";
    case SESSION_CANCEL: return "cancel";
    case SESSION_EXPIRE: return "expire";
    case SESSION_EVENT_COUNT: break;
    }
    abort();
}

bool session_state_parse(struct str text, enum session_state *state)
{
    for (enum session_state s = 0; s < SESSION_STATE_COUNT; s++) {
        if (str_equal(text, str_of(session_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static bool run_is_live(const struct session_signs *signs)
{
    return signs->has_run && !run_state_is_final(signs->run);
}

enum session_activity session_activity_of(const struct session_signs *signs)
{
    if (signs->state != SESSION_OPEN)
        return ACTIVITY_IDLE;
    if (signs->is_continued)
        return ACTIVITY_QUEUED;
    if (!run_is_live(signs))
        return ACTIVITY_IDLE;
    if (signs->has_wait)
        return ACTIVITY_WAITING;
    bool is_queued =
        signs->run == RUN_CREATED || signs->run == RUN_QUEUED || signs->run == RUN_LEASED;
    return is_queued ? ACTIVITY_QUEUED : ACTIVITY_RUNNING;
}

const char *session_activity_name(enum session_activity activity)
{
    switch (activity) {
    case ACTIVITY_IDLE: return "idle";
    case ACTIVITY_QUEUED: return "queued";
    case ACTIVITY_WAITING: return "waiting";
    case ACTIVITY_RUNNING: return "running";
    case ACTIVITY_COUNT: break;
    }
    abort();
}

bool session_can_close(const struct session_signs *signs)
{
    return signs->state == SESSION_OPEN && !signs->is_due && !run_is_live(signs) &&
           !signs->is_continued;
}

static const char *state_name(int state)
{
    return session_state_name((enum session_state)state);
}

static const char *event_name(int event)
{
    return session_event_name((enum session_event)event);
}

static bool is_expiry(int event)
{
    return event == SESSION_EXPIRE;
}

const struct machine session_machine = {
    .name = "session",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = SESSION_STATE_COUNT,
    .n_events = SESSION_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
