/* PLACE: the files of a version, put into the workspace before a task runs there.
 *
 * Everything is done as a program would do it, through the workspace's own mount: what the image
 * has below is covered, replaced or removed there, and a capture finds it all again. Only while
 * every task still waits for its release.
 */
#pragma once

#include "protocol/message.h"

struct agent;

void place_begin(struct agent *agent, const struct message_place *message);

/* Whether the stream is the one a tree comes on; then its data is for place_data. */
bool place_reads(const struct agent *agent, uint16_t stream);
bool place_data(struct agent *agent, struct str bytes, bool is_end, struct error *err) MUST_USE;

/* Gives it up, if there is one. */
void place_cancel(struct agent *agent);

/* Goes on looking at what was placed, so that the next capture can be a difference. */
void place_settle(struct agent *agent);
