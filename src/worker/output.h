/* What a program printed, on its way to the server: in order, nothing lost, bounded.
 *
 * The lease's thread adds; a thread of the output's own sends. Sending takes whatever has
 * gathered while the last batch was under way, so one line goes out at once and a flood in
 * large batches. When more than the spool limit waits, the adder withholds the guest's
 * credit and the program is slowed down.
 */
#pragma once

#include "worker/lease.h"
#include "worker/redact.h"

struct output;

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

/* `room` is an eventfd raised when the spool is below its limit again. */
bool output_create(struct lease *lease, int room, struct output **output,
                   struct error *err) MUST_USE;
void output_destroy(struct output *output);

/* Another guest goes on with it: that is whom to wake from now on. */
void output_set_room(struct output *output, int room);

/* From here on every stream and event goes through it; it outlives the output. NULL changes
 * nothing. */
void output_redact(struct output *output, const struct redactor *redactor);

/* Never blocks. False: the spool is over its limit, hold back until `room` is raised. */
bool output_add(struct output *output, enum output_stream stream, struct str bytes);

/* An event of the run or deployment; attributes is a JSON object. */
void output_event(struct output *output, const char *kind, struct str attributes);

int64_t output_end(const struct output *output, enum output_stream stream);

/* Waits until everything added is stored, also what was held back because it may have been the
 * beginning of a secret. */
bool output_flush(struct output *output, struct error *err) MUST_USE;
