/* What the programs of a mount print and what becomes of them, on its way to the server: in order,
 * nothing lost, bounded.
 *
 * The mount's thread adds; a thread of the output's own sends, chunks and states in one call. What
 * alone would not be worth a call (a start, input that moved) waits a moment for company.
 */
#pragma once

#include "worker/lease.h"

struct mount_output;

/* What the server is told of one program. Texts are copied. */
struct mount_news {
    const char *process_id;
    const char *state; /* started, running, exited, failed */
    int64_t pid, exit_code, input_offset;
    const char *signal, *error; /* NULL: none */
};

/* `room` is an eventfd raised when more can be added again, or nothing can be any more. */
bool mount_output_create(struct lease *lease, int room, struct mount_output **output,
                         struct error *err) MUST_USE;
void mount_output_destroy(struct mount_output *output); /* accepts NULL */

/* Never blocks. False: over its limit, hold back until `room` is raised. `stream` is a literal. */
bool mount_output_add(struct mount_output *output, const char *process_id, const char *stream,
                      int64_t offset, struct str bytes);
void mount_output_tell(struct mount_output *output, const struct mount_news *news);

bool mount_output_has_room(struct mount_output *output);

/* Waits until everything is stored. */
bool mount_output_flush(struct mount_output *output, struct error *err) MUST_USE;
