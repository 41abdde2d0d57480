/* The life of a worker as the server sees it. No state is final: a lost worker may come back
 * under a new epoch, and then registers again.
 */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum worker_state {
    WORKER_REGISTERING,
    WORKER_ACTIVE,
    WORKER_DRAINING,
    WORKER_DISABLED,
    WORKER_LOST,
    WORKER_STATE_COUNT,
};

enum worker_event {
    WORKER_REGISTER, /* with a new epoch */
    WORKER_ACTIVATE,
    WORKER_DRAIN,
    WORKER_UNDRAIN,
    WORKER_DRAINED, /* nothing is left on it */
    WORKER_HEARTBEAT_LOST,
    WORKER_REGISTRATION_DEADLINE,
    WORKER_EVENT_COUNT,
};

extern const struct machine worker_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool worker_state_apply(enum worker_state *state, enum worker_event on);
bool worker_state_is_final(enum worker_state state);
bool worker_event_is_expiry(enum worker_event event);

const char *worker_state_name(enum worker_state state);
const char *worker_event_name(enum worker_event event);
bool worker_state_parse(struct str text, enum worker_state *state);
