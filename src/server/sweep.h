/* The sweeper: what happens to anything that lives and is not heard of.
 *
 * It is total: every live state has an edge out that needs no report (the machines' tests
 * prove it), and each such edge has a job here. Jobs use the same moves as the API.
 */
#pragma once

#include "server/context.h"

struct sweeper;

bool sweeper_start(struct server *server, struct sweeper **sweeper, struct error *err) MUST_USE;
void sweeper_stop(struct sweeper *sweeper); /* accepts NULL; waits for the pass under way */

/* One pass of every job, for tests and for the thread. */
void sweep_once(struct server *server);
