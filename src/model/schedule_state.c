#include "model/schedule_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    {SCHEDULE_ACTIVE,   SCHEDULE_DEACTIVATE, SCHEDULE_INACTIVE, 0},
    {SCHEDULE_INACTIVE, SCHEDULE_ACTIVATE,   SCHEDULE_ACTIVE,   0},
    {SCHEDULE_ACTIVE,   SCHEDULE_BREAK,      SCHEDULE_ERRORED,  0},
    {SCHEDULE_ERRORED,  SCHEDULE_MEND,       SCHEDULE_ACTIVE,   0},
};

bool schedule_state_apply(enum schedule_state *state, enum schedule_event on)
{
    const struct machine_move *move = machine_find(&schedule_machine, (int)*state, (int)on);

    if (move)
        *state = (enum schedule_state)move->to;
    return move;
}

const char *schedule_state_name(enum schedule_state state)
{
    switch (state) {
    case SCHEDULE_ACTIVE: return "active";
    case SCHEDULE_INACTIVE: return "inactive";
    case SCHEDULE_ERRORED: return "errored";
    case SCHEDULE_STATE_COUNT: break;
    }
    abort();
}

const char *schedule_event_name(enum schedule_event event)
{
    switch (event) {
    case SCHEDULE_ACTIVATE: return "activate";
    case SCHEDULE_DEACTIVATE: return "deactivate";
    case SCHEDULE_BREAK: return "break";
    case SCHEDULE_MEND: return "mend";
    case SCHEDULE_EVENT_COUNT: break;
    }
    abort();
}

bool schedule_state_parse(struct str text, enum schedule_state *state)
{
    for (enum schedule_state s = 0; s < SCHEDULE_STATE_COUNT; s++) {
        if (str_equal(text, str_of(schedule_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return schedule_state_name((enum schedule_state)state);
}

static const char *event_name(int event)
{
    return schedule_event_name((enum schedule_event)event);
}

static bool is_expiry(int event UNUSED)
{
    return false;
}

const struct machine schedule_machine = {
    .name = "schedule",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = SCHEDULE_STATE_COUNT,
    .n_events = SCHEDULE_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
