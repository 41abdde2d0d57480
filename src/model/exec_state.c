#include "model/exec_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    {EXEC_QUEUED,  EXEC_START,      EXEC_RUNNING, 0},
    {EXEC_RUNNING, EXEC_EXIT,       EXEC_EXITED,  0},
    {EXEC_QUEUED,  EXEC_FAIL,       EXEC_FAILED,  0},
    {EXEC_QUEUED,  EXEC_DEADLINE,   EXEC_FAILED,  0},
    {EXEC_QUEUED,  EXEC_MOUNT_LOST, EXEC_LOST,    0},
    {EXEC_RUNNING, EXEC_MOUNT_LOST, EXEC_LOST,    0},
};

bool exec_state_apply(enum exec_state *state, enum exec_event on)
{
    const struct machine_move *move = machine_find(&exec_machine, (int)*state, (int)on);

    if (move)
        *state = (enum exec_state)move->to;
    return move;
}

bool exec_state_is_final(enum exec_state state)
{
    return machine_is_dead_end(&exec_machine, (int)state);
}

const char *exec_state_name(enum exec_state state)
{
    switch (state) {
    case EXEC_QUEUED: return "queued";
    case EXEC_RUNNING: return "running";
    case EXEC_EXITED: return "exited";
    case EXEC_FAILED: return "failed";
    case EXEC_LOST: return "lost";
    case EXEC_STATE_COUNT: break;
    }
    abort();
}

const char *exec_event_name(enum exec_event event)
{
    switch (event) {
    case EXEC_START: return "start";
    case EXEC_FAIL: return "fail";
    case EXEC_EXIT: return "exit";
    case EXEC_DEADLINE: return "deadline";
    case EXEC_MOUNT_LOST: return "mount_lost";
    case EXEC_EVENT_COUNT: break;
    }
    abort();
}

bool exec_state_parse(struct str text, enum exec_state *state)
{
    for (enum exec_state s = 0; s < EXEC_STATE_COUNT; s++) {
        if (str_equal(text, str_of(exec_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return exec_state_name((enum exec_state)state);
}

static const char *event_name(int event)
{
    return exec_event_name((enum exec_event)event);
}

static bool is_expiry(int event)
{
    return event == EXEC_DEADLINE || event == EXEC_MOUNT_LOST;
}

const struct machine exec_machine = {
    .name = "exec",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = EXEC_STATE_COUNT,
    .n_events = EXEC_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
