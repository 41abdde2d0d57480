/* The pipes of a program: output to the host within its credit, input from the host.
 *
 * Output is read only while the channel has room for it, so a slow host slows the program and
 * nothing is dropped. Input is credited back when it has been written to the pipe.
 */
#pragma once

#include "guest/program.h"

/* Takes the reading end of a pipe; the stream must be open on the channel. fd -1: ends at once. */
void output_init(struct program_output *output, struct program *program, int fd, uint16_t stream);

/* The same for one whose pipe comes later; without one output_cut ends it. */
void output_expect(struct program_output *output, struct program *program, uint16_t stream);
void output_begin(struct program_output *output, int fd);

/* As a terminal shows a control character. */
void output_echo(struct program_output *output, char character);

/* Its program is over: it ends when everything that is there now has been sent. What others write
 * to it later is read and dropped, so that they do not die of it. */
void output_cut(struct program_output *output);
void leftovers_drop(struct agent *agent);

void output_finish(struct program_output *output);
void output_settle(struct program_output *output);
bool output_is_sent(const struct program_output *output);

/* Takes the writing end of a pipe, or -1 for none. */
void input_init(struct program_input *input, struct program *program, int fd, uint16_t stream);
void input_finish(struct program_input *input);
bool input_take(struct program_input *input, struct str bytes, bool is_end,
                struct error *err) MUST_USE;
void input_settle(struct program_input *input);
