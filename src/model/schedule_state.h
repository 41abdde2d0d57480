/* The life of a schedule: it fires, is switched off, or cannot fire as things are. It waits for
 * nobody, so it may stay in any state for ever. */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum schedule_state {
    SCHEDULE_ACTIVE,
    SCHEDULE_INACTIVE,
    SCHEDULE_ERRORED,
    SCHEDULE_STATE_COUNT,
};

enum schedule_event {
    SCHEDULE_ACTIVATE,
    SCHEDULE_DEACTIVATE,
    SCHEDULE_BREAK, /* the current deployment has no such task, or the cron means nothing */
    SCHEDULE_MEND,  /* a promotion or an update that makes it good */
    SCHEDULE_EVENT_COUNT,
};

extern const struct machine schedule_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool schedule_state_apply(enum schedule_state *state, enum schedule_event on);

const char *schedule_state_name(enum schedule_state state);
const char *schedule_event_name(enum schedule_event event);
bool schedule_state_parse(struct str text, enum schedule_state *state);
