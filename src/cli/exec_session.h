/* A command in a workspace with this terminal's input and output, until it ends.
 *
 * Its input is sent by offset and its output read by offset, so a connection may break without a
 * byte lost or doubled. An interrupt is passed on; a second one kills the command and leaves.
 */
#pragma once

#include "base/command.h"

struct exec_session {
    const struct invocation *invocation;
    const char *path; /* of the command, below the scope */
    bool has_input;   /* this program's input is the command's */
    int64_t cursor;   /* of stdout to begin at */
};

/* How a command ended. */
struct exec_end {
    bool is_lost, has_exit_code;
    int exit_code;
    char state[16], signal[16], error[256];
};

bool exec_session_run(const struct exec_session *session, struct exec_end *end,
                      struct error *err) MUST_USE;

/* The exit code that stands for it: its own, or 128 and the signal's number; an error when it never
 * ran or nobody knows. */
bool exec_end_code(const struct exec_end *end, int *exit_code, struct error *err) MUST_USE;

/* From the command as the API shows it. */
struct api;
void exec_end_of(struct api *api, struct str object, struct exec_end *end);
