/* The life of a workspace. Whether it is mounted, and what writes to it, are states of others. */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum workspace_state {
    WORKSPACE_ACTIVE,
    WORKSPACE_ARCHIVED,          /* can be read, is not written to */
    WORKSPACE_RECOVERY_REQUIRED, /* what was not captured is lost; the next mount makes it active */
    WORKSPACE_DELETING,
    WORKSPACE_DELETED,
    WORKSPACE_STATE_COUNT,
};

enum workspace_event {
    WORKSPACE_ARCHIVE,
    WORKSPACE_UNARCHIVE,
    WORKSPACE_LOSE,
    WORKSPACE_RECOVER,
    WORKSPACE_DELETE,
    WORKSPACE_PURGE, /* nothing of it is left: the sweeper's */
    WORKSPACE_EVENT_COUNT,
};

extern const struct machine workspace_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool workspace_state_apply(enum workspace_state *state, enum workspace_event on);

const char *workspace_state_name(enum workspace_state state);
const char *workspace_event_name(enum workspace_event event);
bool workspace_state_parse(struct str text, enum workspace_state *state);
