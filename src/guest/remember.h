/* The agent's table of its workspace (guest/seen.h), kept up to date while programs run.
 *
 * Events are taken in batches: a program that writes a lot is not to wake the agent each time.
 */
#pragma once

#include "guest/agent.h"
#include "guest/walk.h"

/* Takes events as they come, if there is a table. */
void remember_listen(struct agent *agent);

/* Takes those that are there, and no more of them until remember_listen. */
void remember_suspend(struct agent *agent);

void remember_drop(struct agent *agent);

/* The walk, which has not begun, makes the next table if it can. */
void remember_walk(struct agent *agent, struct walk *walk);

/* The walk is done, and the host will call what it walked over `mark`. */
void remember_walked(struct agent *agent, struct walk *walk, const char *mark);
