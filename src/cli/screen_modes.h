/* What the other end has switched on at our terminal, read from its output as it passes, so that
 * it can be switched off when the connection ends in the middle of a full-screen program.
 */
#pragma once

#include "base/buf.h"

enum { SCREEN_MODES = 16, SCREEN_RESTORE_MAX = 256 };

struct screen_modes {
    bool is_changed[SCREEN_MODES];
    bool has_colour; /* attributes other than none */
    enum { SCREEN_TEXT, SCREEN_ESCAPE, SCREEN_BRACKET, SCREEN_PRIVATE } state;
    unsigned number;     /* the one that is coming */
    unsigned numbers[8]; /* of the sequence so far */
    size_t n_numbers;
};

void screen_modes_read(struct screen_modes *modes, struct str bytes);

/* The bytes that bring the terminal back; the length, 0 when nothing is to be done. */
size_t screen_modes_restore(const struct screen_modes *modes, char text[SCREEN_RESTORE_MAX]);
