#include "model/workspace_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    {WORKSPACE_ACTIVE,            WORKSPACE_ARCHIVE,   WORKSPACE_ARCHIVED,          0},
    {WORKSPACE_ARCHIVED,          WORKSPACE_UNARCHIVE, WORKSPACE_ACTIVE,            0},
    {WORKSPACE_ACTIVE,            WORKSPACE_LOSE,      WORKSPACE_RECOVERY_REQUIRED, 0},
    {WORKSPACE_RECOVERY_REQUIRED, WORKSPACE_RECOVER,   WORKSPACE_ACTIVE,            0},
    {WORKSPACE_ACTIVE,            WORKSPACE_DELETE,    WORKSPACE_DELETING,          0},
    {WORKSPACE_ARCHIVED,          WORKSPACE_DELETE,    WORKSPACE_DELETING,          0},
    {WORKSPACE_RECOVERY_REQUIRED, WORKSPACE_DELETE,    WORKSPACE_DELETING,          0},
    {WORKSPACE_DELETING,          WORKSPACE_PURGE,     WORKSPACE_DELETED,           0},
};

bool workspace_state_apply(enum workspace_state *state, enum workspace_event on)
{
    const struct machine_move *move = machine_find(&workspace_machine, (int)*state, (int)on);

    if (move)
        *state = (enum workspace_state)move->to;
    return move;
}

const char *workspace_state_name(enum workspace_state state)
{
    switch (state) {
    case WORKSPACE_ACTIVE: return "active";
    case WORKSPACE_ARCHIVED: return "archived";
    case WORKSPACE_RECOVERY_REQUIRED: return "recovery_required";
    case WORKSPACE_DELETING: return "deleting";
    case WORKSPACE_DELETED: return "deleted";
    case WORKSPACE_STATE_COUNT: break;
    }
    abort();
}

const char *workspace_event_name(enum workspace_event event)
{
    switch (event) {
    case WORKSPACE_ARCHIVE: return "archive";
    case WORKSPACE_UNARCHIVE: return "unarchive";
    case WORKSPACE_LOSE: return "lose";
    case WORKSPACE_RECOVER: return "recover";
    case WORKSPACE_DELETE: return "delete";
    case WORKSPACE_PURGE: return "purge";
    case WORKSPACE_EVENT_COUNT: break;
    }
    abort();
}

bool workspace_state_parse(struct str text, enum workspace_state *state)
{
    for (enum workspace_state s = 0; s < WORKSPACE_STATE_COUNT; s++) {
        if (str_equal(text, str_of(workspace_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return workspace_state_name((enum workspace_state)state);
}

static const char *event_name(int event)
{
    return workspace_event_name((enum workspace_event)event);
}

static bool is_expiry(int event)
{
    return event == WORKSPACE_PURGE;
}

const struct machine workspace_machine = {
    .name = "workspace",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = WORKSPACE_STATE_COUNT,
    .n_events = WORKSPACE_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .is_expiry = is_expiry,
};
