/* Secrets on their way to a program: SECRET and SECRETS_END.
 *
 * One that is still to be launched has its files bound by its init. One that waits for its release
 * gets them into its own mounts, and its variables by its adapter, before any code of a user runs.
 * One that was paused has them written again, before anything of it runs on.
 */
#pragma once

#include "guest/agent.h"
#include "guest/program.h"
#include "guest/secrets.h"

void deliver_secret(struct agent *agent, const struct message_secret *secret);

/* Answers SECRETS_READY when the agent holds no value but those on its tmpfs (and, of a paused
 * program, its variables), ERROR, or for a program that waits LAUNCH_FAILED. */
void deliver_end(struct agent *agent, const struct message_secrets_end *end);

/* Inside PAUSE: zeros in every secret file. On failure the agent must not be saved. */
bool deliver_zero(struct agent *agent, struct error *err) MUST_USE;

/* Whether the program may run: nothing of its secrets is still zero. */
bool deliver_is_whole(const struct program *program);

/* In RESUME: passes the variables that came again on and forgets them; with NULL, as before a
 * THAW, only forgets them. */
void deliver_variables(struct program *program, secrets_take_variable *take_variable, void *arg);

/* What came for programs that were never launched. */
void deliver_drop(struct agent *agent);
