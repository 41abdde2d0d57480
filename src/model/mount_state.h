/* The life of a mount: a workspace in a sandbox for people, from the wish to the last version. */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum mount_state {
    MOUNT_MOUNTING, /* asked for, or on a worker that is not ready yet */
    MOUNT_MOUNTED,
    MOUNT_UNMOUNTING,
    MOUNT_UNMOUNTED,
    MOUNT_FAILED,
    MOUNT_LOST,
    MOUNT_STATE_COUNT,
};

enum mount_event {
    MOUNT_READY,
    MOUNT_FAIL,   /* a worker refused it for good, or it was delivered too often */
    MOUNT_CANCEL, /* stopped before it was mounted */
    MOUNT_STOP,
    MOUNT_CLOSE, /* all is saved */
    MOUNT_DEADLINE,
    MOUNT_LEASE_OVER,
    MOUNT_EVENT_COUNT,
};

extern const struct machine mount_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool mount_state_apply(enum mount_state *state, enum mount_event on);
bool mount_state_is_final(enum mount_state state);

const char *mount_state_name(enum mount_state state);
const char *mount_event_name(enum mount_event event);
bool mount_state_parse(struct str text, enum mount_state *state);
