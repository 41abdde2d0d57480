#include "model/mount_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    {MOUNT_MOUNTING,   MOUNT_READY,      MOUNT_MOUNTED,    0},
    {MOUNT_MOUNTED,    MOUNT_STOP,       MOUNT_UNMOUNTING, 0},
    {MOUNT_UNMOUNTING, MOUNT_CLOSE,      MOUNT_UNMOUNTED,  0},

    /* it never was: nothing of it can have been lost */
    {MOUNT_MOUNTING,   MOUNT_FAIL,       MOUNT_FAILED,     0},
    {MOUNT_MOUNTING,   MOUNT_CANCEL,     MOUNT_FAILED,     0},
    {MOUNT_MOUNTING,   MOUNT_DEADLINE,   MOUNT_FAILED,     0},

    /* what it had not saved is gone; before, it is only given to another worker */
    {MOUNT_MOUNTED,    MOUNT_LEASE_OVER, MOUNT_LOST,       0},
    {MOUNT_UNMOUNTING, MOUNT_LEASE_OVER, MOUNT_LOST,       0},
};

bool mount_state_apply(enum mount_state *state, enum mount_event on)
{
    const struct machine_move *move = machine_find(&mount_machine, (int)*state, (int)on);

    if (move)
        *state = (enum mount_state)move->to;
    return move;
}

bool mount_state_is_final(enum mount_state state)
{
    return machine_is_dead_end(&mount_machine, (int)state);
}

const char *mount_state_name(enum mount_state state)
{
    switch (state) {
    case MOUNT_MOUNTING: return "mounting";
    case MOUNT_MOUNTED: return "mounted";
    case MOUNT_UNMOUNTING: return "unmounting";
    case MOUNT_UNMOUNTED: return "unmounted";
    case MOUNT_FAILED: return "failed";
    case MOUNT_LOST: return "lost";
    case MOUNT_STATE_COUNT: break;
    }
    abort();
}

const char *mount_event_name(enum mount_event event)
{
    switch (event) {
    case MOUNT_READY: return "ready";
    case MOUNT_FAIL: return "fail";
    case MOUNT_CANCEL: return "cancel";
    case MOUNT_STOP: return "stop";
    case MOUNT_CLOSE: return "close";
    case MOUNT_DEADLINE: return "deadline";
    case MOUNT_LEASE_OVER: return "lease_over";
    case MOUNT_EVENT_COUNT: break;
    }
    abort();
}

bool mount_state_parse(struct str text, enum mount_state *state)
{
    for (enum mount_state s = 0; s < MOUNT_STATE_COUNT; s++) {
        if (str_equal(text, str_of(mount_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return mount_state_name((enum mount_state)state);
}

static const char *event_name(int event)
{
    return mount_event_name((enum mount_event)event);
}

static bool is_expiry(int event)
{
    return event == MOUNT_DEADLINE || event == MOUNT_LEASE_OVER;
}

const struct machine mount_machine = {
    .name = "mount",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = MOUNT_STATE_COUNT,
    .n_events = MOUNT_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
