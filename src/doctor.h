/* The row of `helmr doctor`, which looks at server and worker alike. */
#pragma once

#include "base/command.h"

extern const struct command doctor_commands[];
extern const size_t n_doctor_commands;
