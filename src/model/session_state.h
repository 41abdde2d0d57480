/* The life of a session, and what is shown of it while it is open. */
#pragma once

#include "base/str.h"
#include "model/machine.h"
#include "model/run_state.h"

enum session_state {
    SESSION_OPEN,
    SESSION_CLOSED,
    SESSION_CANCELLED,
    SESSION_EXPIRED,
    SESSION_STATE_COUNT,
};

enum session_event { SESSION_CLOSE, SESSION_CANCEL, SESSION_EXPIRE, SESSION_EVENT_COUNT };

enum session_activity {
    ACTIVITY_IDLE,
    ACTIVITY_QUEUED,
    ACTIVITY_WAITING,
    ACTIVITY_RUNNING,
    ACTIVITY_COUNT,
};

/* What the activity of a session is made of. */
struct session_signs {
    enum session_state state;
    bool is_due;       /* open, and past the time it was to end */
    bool is_continued; /* a new run was asked for and is not there yet */
    bool has_run;      /* whose state follows */
    bool has_wait;     /* the run waits for something that has not happened */
    enum run_state run;
};

extern const struct machine session_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool session_state_apply(enum session_state *state, enum session_event on);

const char *session_state_name(enum session_state state);
const char *session_event_name(enum session_event event);
bool session_state_parse(struct str text, enum session_state *state);

enum session_activity session_activity_of(const struct session_signs *signs);
const char *session_activity_name(enum session_activity activity);

/* Whether a close would be taken. */
bool session_can_close(const struct session_signs *signs);
