/* Secrets on their way to a program: SECRET and SECRETS_END.
 *
 * One that is still to be launched has its files bound by its init. One that waits for its release
 * gets them into its own mounts, and its variables by its adapter, before any code of a user runs.
 */
#pragma once

#include "guest/agent.h"

void deliver_secret(struct agent *agent, const struct message_secret *secret);

/* Answers SECRETS_READY when the agent holds no value but those on its tmpfs, ERROR, or for a
 * program that waits LAUNCH_FAILED. */
void deliver_end(struct agent *agent, const struct message_secrets_end *end);

/* What came for programs that were never launched. */
void deliver_drop(struct agent *agent);
