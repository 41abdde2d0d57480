/* The life of a terminal in a workspace. Its events are those of a command. */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum pty_state {
    PTY_STARTING,
    PTY_OPEN,
    PTY_CLOSED,
    PTY_FAILED,
    PTY_LOST,
    PTY_STATE_COUNT,
};

enum pty_event {
    PTY_START,
    PTY_FAIL, /* it could not start, or was closed before */
    PTY_EXIT,
    PTY_DEADLINE,
    PTY_MOUNT_LOST,
    PTY_EVENT_COUNT,
};

extern const struct machine pty_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool pty_state_apply(enum pty_state *state, enum pty_event on);
bool pty_state_is_final(enum pty_state state);

const char *pty_state_name(enum pty_state state);
const char *pty_event_name(enum pty_event event);
bool pty_state_parse(struct str text, enum pty_state *state);
