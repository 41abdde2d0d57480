/* The secrets of one run on its way through the worker: asked for when a sandbox waits for them,
 * in locked memory until the agent has them, and then only in what finds them in output.
 */
#pragma once

#include "worker/guest.h"
#include "worker/link.h"
#include "worker/redact.h"

/* Gives the task that waits in `guest` what it declares. *redactor is NULL for one that declares
 * nothing, else the caller's. */
bool run_secrets_give(struct lease *lease, struct line *line, struct guest *guest,
                      struct failure *failure, struct redactor **redactor,
                      struct error *err) MUST_USE;

/* What a program said about its end, without secrets; texts in the arena. */
void run_secrets_hide(const struct redactor *redactor, struct guest_result *result,
                      struct arena *arena);
