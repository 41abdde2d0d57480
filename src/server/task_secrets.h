/* The secrets of a task: what its deployment declares, what a start binds to it, and what a worker
 * is given when it starts the run. Names and places are rows; a value is only ever opened for a
 * lease that is about to use it.
 */
#pragma once

#include "base/json.h"
#include "http/call.h"
#include "server/lease.h"

struct task_secret {
    struct str name, placement; /* env | file | dir */
    struct str target, mode, owner;
};

/* A manifest's list, checked by the rules of the SDK: a build's answer is believed no further. */
bool task_secrets_read(struct str text, struct arena *arena, struct json_list *secrets,
                       struct error *err) MUST_USE;

struct task_bindings {
    struct str bindings; /* {"NAME":"vault:STORED"} of every declared name */
    struct str names;    /* ["NAME"] */
    struct str missing;  /* {"names":[…]} when something is not stored, else ptr NULL */
};

/* An unbound name means the stored secret of the same name; what is given and not declared is
 * ignored. ERR_SECRET_MISSING with bound->missing set. */
bool task_secrets_bind(struct tx *tx, const char *environment, struct str declared,
                       const struct json_map *given, struct arena *arena,
                       struct task_bindings *bound, struct error *err) MUST_USE;

/* What the task of a run declares, as struct wire_secret without values, and beside it the stored
 * names they are bound to. */
bool task_secrets_of_run(struct tx *tx, const char *run_id, struct arena *arena,
                         struct json_list *secrets, struct json_list *stored,
                         struct error *err) MUST_USE;

/* Opens all that the task of a starting run declares, as struct wire_secret, with an audit entry.
 * The caller commits, and wipes whatever the outcome. ERR_SECRET_MISSING names what is not stored.
 */
bool lease_secrets_open(struct call *call, struct tx *tx, const struct lease_row *lease,
                        struct json_list *secrets, struct error *err) MUST_USE;
void lease_secrets_wipe(const struct json_list *secrets);
