/* CAPTURE: what programs changed in the workspace, as a tree on a stream of the host's.
 *
 * Only while nothing of a program runs. Sent within the stream's credit and in small pieces, so
 * that the agent goes on to answer. What was made for secrets is left out by its recorded path.
 *
 * Asked for what differs from a tree that it remembers, the agent tells just that.
 */
#pragma once

#include "protocol/message.h"

struct agent;

void capture_begin(struct agent *agent, const struct message_capture *message);

/* Sends as much as may be sent now; CAPTURE_END when all of it is on the wire. */
void capture_settle(struct agent *agent);

/* Gives it up, if there is one; it is answered with ERROR. */
void capture_cancel(struct agent *agent);
