/* Old output of a terminal, made fit to be shown again: what would make the terminal answer is left
 * out, for the answers would be typed into a program that asked for them long ago.
 *
 * Text, colours, movements of the cursor and modes pass; questions, titles and everything else that
 * is not known to be silent does not.
 */
#pragma once

#include "base/buf.h"

enum { REPLAY_SEQUENCE_MAX = 64 };

struct replay {
    enum { REPLAY_TEXT, REPLAY_ESCAPE, REPLAY_BRACKET, REPLAY_STRING, REPLAY_STRING_END } state;
    char sequence[REPLAY_SEQUENCE_MAX]; /* that has begun */
    size_t len;
};

/* `out` needs room for all the bytes and a sequence before them; returns how many there are. */
size_t replay_pass(struct replay *replay, struct str bytes, char *out);
