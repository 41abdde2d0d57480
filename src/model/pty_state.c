#include "model/pty_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    {PTY_STARTING, PTY_START,      PTY_OPEN,   0},
    {PTY_OPEN,     PTY_EXIT,       PTY_CLOSED, 0},
    {PTY_STARTING, PTY_FAIL,       PTY_FAILED, 0},
    {PTY_STARTING, PTY_DEADLINE,   PTY_FAILED, 0},
    {PTY_STARTING, PTY_MOUNT_LOST, PTY_LOST,   0},
    {PTY_OPEN,     PTY_MOUNT_LOST, PTY_LOST,   0},
};

bool pty_state_apply(enum pty_state *state, enum pty_event on)
{
    const struct machine_move *move = machine_find(&pty_machine, (int)*state, (int)on);

    if (move)
        *state = (enum pty_state)move->to;
    return move;
}

bool pty_state_is_final(enum pty_state state)
{
    return machine_is_dead_end(&pty_machine, (int)state);
}

const char *pty_state_name(enum pty_state state)
{
    switch (state) {
    case PTY_STARTING: return "starting";
    case PTY_OPEN: return "open";
    case PTY_CLOSED: return "closed";
    case PTY_FAILED: return "failed";
    case PTY_LOST: return "lost";
    case PTY_STATE_COUNT: break;
    }
    abort();
}

const char *pty_event_name(enum pty_event event)
{
    switch (event) {
    case PTY_START: return "start";
    case PTY_FAIL: return "fail";
    case PTY_EXIT: return "exit";
    case PTY_DEADLINE: return "deadline";
    case PTY_MOUNT_LOST: return "mount_lost";
    case PTY_EVENT_COUNT: break;
    }
    abort();
}

bool pty_state_parse(struct str text, enum pty_state *state)
{
    for (enum pty_state s = 0; s < PTY_STATE_COUNT; s++) {
        if (str_equal(text, str_of(pty_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return pty_state_name((enum pty_state)state);
}

static const char *event_name(int event)
{
    return pty_event_name((enum pty_event)event);
}

static bool is_expiry(int event)
{
    return event == PTY_DEADLINE || event == PTY_MOUNT_LOST;
}

const struct machine pty_machine = {
    .name = "pty",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = PTY_STATE_COUNT,
    .n_events = PTY_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
