/* This terminal at a PTY of a workspace: keys one way, output the other, until the program there
 * ends or the user detaches.
 *
 * A connection that breaks is made again, from the byte where it broke; keys that the server had
 * not taken by then are sent again, once.
 */
#pragma once

#include "cli/api.h"

struct attach {
    struct api *api;
    const char *workspace, *pty; /* ids */
    int64_t cursor;              /* output is wanted from here on */
    int64_t old_end;             /* before it output is old: shown, but it asks nothing any more */
    int64_t input_cursor;        /* of the PTY, before the first key */
    bool is_repainted;           /* whatever runs there is told to draw its screen again */
};

/* *exit_code is the program's, or 0 when the user has detached. */
bool attach_run(struct attach *attach, int *exit_code, struct error *err) MUST_USE;
