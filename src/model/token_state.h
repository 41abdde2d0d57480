/* The life of a token: something outside the run that is answered once, or never. */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum token_state {
    TOKEN_PENDING,
    TOKEN_COMPLETED,
    TOKEN_CANCELLED,
    TOKEN_EXPIRED,
    TOKEN_STATE_COUNT,
};

enum token_event { TOKEN_COMPLETE, TOKEN_CANCEL, TOKEN_EXPIRE, TOKEN_EVENT_COUNT };

extern const struct machine token_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool token_state_apply(enum token_state *state, enum token_event on);

const char *token_state_name(enum token_state state);
const char *token_event_name(enum token_event event);
bool token_state_parse(struct str text, enum token_state *state);
