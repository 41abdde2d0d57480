/* What a kernel's terminals lack, and we do for them.
 *
 * In some gVisor versions a terminal sends no signal for Ctrl-C or a new size, and its controlling
 * end does not know the foreground group. There each terminal gets a watcher: a process in its
 * session, which may ask, and passes signals on. Everywhere else there is none.
 */
#pragma once

#include "guest/program.h"

/* In the init, with the controlling end of a new terminal. */
bool terminal_needs_watcher(int controlling_fd);

/* In the leader of its session, which goes on as what it was. The watcher ends with the last other
 * end of the pipe. */
bool terminal_watch(int slave_fd, int pipe_fd);

/* In the agent. To the foreground group of a program's terminal; false: it could not be found. */
bool terminal_signal(struct program *program, int number);
void terminal_resize(struct program *program, uint32_t cols, uint32_t rows);

/* Takes out of what was typed the characters that are signals, and sends those. */
struct str terminal_filter(struct program *program, struct str typed, struct arena *arena);
