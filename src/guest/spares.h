/* What the next exec needs and what can be made before it is wanted: its three pipes, and the
 * memory of one that is over. They are made while nothing runs; whoever finds none makes its own.
 */
#pragma once

#include "guest/program.h"

/* Both ends of a pipe of which the agent's, `ours`, does not block. */
bool spares_make_pipe(int pair[2], int ours, struct error *err) MUST_USE;

/* The pipes of an exec: ready ones, or new ones. */
bool spares_take_pipes(struct agent *agent, int in[2], int out[2], int err_out[2],
                       struct error *err) MUST_USE;

/* A program that is all zero but for its arena, which is empty. */
struct program *spares_take_program(struct agent *agent);

/* The memory of one that is over; frees it when one is at hand already. */
void spares_keep_program(struct program *program);

/* Once there is nothing else to do. */
void spares_settle(struct agent *agent);
void spares_drop(struct agent *agent);
