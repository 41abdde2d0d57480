/* The secrets of one run on its way through the worker: they come when it begins, are in locked
 * memory until the agent has them, and then only in what finds them in output.
 */
#pragma once

#include "worker/guest.h"
#include "worker/link.h"
#include "worker/redact.h"

struct run_secrets {
    struct arena arena;
    struct secret *values;
    struct guest_secret *list;
    size_t n;
    bool has_come, is_unfit;
    struct error problem; /* when is_unfit */
};

/* Moves what came with the answer to begin (struct wire_secret) into locked memory. */
void run_secrets_keep(struct run_secrets *secrets, const struct lease *lease,
                      const struct json_list *came);
void run_secrets_finish(struct run_secrets *secrets);

/* Sends the task that is held in `guest` what it declares: what is kept, or else what the server
 * answers now. Nothing is kept afterwards. *redactor is NULL for a task that declares nothing, else
 * the caller's. */
bool run_secrets_send(struct run_secrets *secrets, struct lease *lease, struct line *line,
                      struct guest *guest, struct failure *failure, struct redactor **redactor,
                      struct error *err) MUST_USE;

/* What a program said about its end, without secrets; texts in the arena. */
void run_secrets_hide(const struct redactor *redactor, struct guest_result *result,
                      struct arena *arena);
