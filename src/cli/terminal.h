/* The terminal this command runs in, raw: every key as it is typed, every byte as it comes. It is
 * as it was afterwards, however the command ends, short of kill -9.
 */
#pragma once

#include <signal.h>

#include "base/error.h"

struct terminal {
    int signals; /* a signalfd of those that are taken; -1: not open */
    sigset_t former;
};

/* False with an error when stdin or stdout is none. */
bool terminal_open(struct terminal *terminal, struct error *err) MUST_USE;
void terminal_finish(struct terminal *terminal);

/* The size now; 80 by 24 when it is not known. */
void terminal_size(int *cols, int *rows);

/* The number of a signal that came, or 0. Stopping is done here; when it returns SIGCONT the
 * screen may show something else by now. */
int terminal_signal(struct terminal *terminal);

/* Ends this process by the signal, as one would that had not taken it. */
void terminal_die(struct terminal *terminal, int number);
