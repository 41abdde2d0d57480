/* RELAY: the host reaches a port of a program in the sandbox, through the agent.
 *
 * Only ports that SETUP listed, only on loopback, only over TCP: the agent itself listens on none.
 * Each connection is a stream of its own credit, so one that nobody reads slows only itself; an
 * end on one side is the end of that direction, a reset is the end of both.
 */
#pragma once

#include "protocol/message.h"

struct agent;

void relay_begin(struct agent *agent, const struct message_relay *message);

/* Whether the stream is a relay's; then its data is for relay_data. */
bool relay_reads(const struct agent *agent, uint16_t stream);
bool relay_data(struct agent *agent, uint16_t stream, struct str bytes, bool is_end,
                struct error *err) MUST_USE;

/* The host wants nothing more of the stream. */
void relay_reset(struct agent *agent, uint16_t stream);

void relay_settle(struct agent *agent);
void relay_drop(struct agent *agent); /* all of them */
