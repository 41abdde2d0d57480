/* The life of a command in a workspace. */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum exec_state {
    EXEC_QUEUED, /* until its mount is there and the process began */
    EXEC_RUNNING,
    EXEC_EXITED,
    EXEC_FAILED,
    EXEC_LOST,
    EXEC_STATE_COUNT,
};

enum exec_event {
    EXEC_START,
    EXEC_FAIL, /* it could not start, or was ended before */
    EXEC_EXIT,
    EXEC_DEADLINE,
    EXEC_MOUNT_LOST,
    EXEC_EVENT_COUNT,
};

extern const struct machine exec_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool exec_state_apply(enum exec_state *state, enum exec_event on);
bool exec_state_is_final(enum exec_state state);

const char *exec_state_name(enum exec_state state);
const char *exec_event_name(enum exec_event event);
bool exec_state_parse(struct str text, enum exec_state *state);
