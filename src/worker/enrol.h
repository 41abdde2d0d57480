/* How a worker becomes known: register once with the bootstrap token, open a session at
 * every start (which raises its epoch and ends what a predecessor held), then activate.
 */
#pragma once

#include "worker/worker.h"

/* Registers when there is no credential; a credential the server refuses is deleted and
 * registered anew, once. */
bool enrol(struct worker *worker, struct line *line, struct error *err) MUST_USE;
bool enrol_activate(struct worker *worker, struct line *line, struct error *err) MUST_USE;
