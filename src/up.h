/* `helmr up`: server and worker as two children of one supervisor, over one data directory.
 *
 * A child that dies is started again; both die with the supervisor. Exactly one supervisor holds
 * a data directory.
 */
#pragma once

#include "base/command.h"

extern const struct command up_commands[];
extern const size_t n_up_commands;
