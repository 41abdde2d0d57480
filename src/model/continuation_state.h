/* The life of a request to go on with a session: made by a record that nobody waited for, it
 * becomes a run of the session at most once. */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum continuation_state {
    CONTINUATION_ACCEPTED,
    CONTINUATION_CLAIMED,
    CONTINUATION_CREATED,
    CONTINUATION_SKIPPED,
    CONTINUATION_FAILED,
    CONTINUATION_STATE_COUNT,
};

enum continuation_event {
    CONTINUATION_CLAIM,
    CONTINUATION_CREATE,
    CONTINUATION_SKIP,
    CONTINUATION_FAIL,
    CONTINUATION_CLAIM_OVER,
    CONTINUATION_EVENT_COUNT,
};

extern const struct machine continuation_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool continuation_state_apply(enum continuation_state *state, enum continuation_event on);

const char *continuation_state_name(enum continuation_state state);
const char *continuation_event_name(enum continuation_event event);
bool continuation_state_parse(struct str text, enum continuation_state *state);
