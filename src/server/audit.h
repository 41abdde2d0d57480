/* The audit log: every security-relevant act, in one chain that cannot be changed unseen.
 *
 * An entry is appended in the transaction of its act: there is neither without the other. The
 * end of the chain is one row, so append last, when no other row is still to be locked.
 */
#pragma once

#include "http/call.h"
#include "server/context.h"

struct audit_entry {
    const char *actor_type; /* "user", "key", "worker", "system" or "anonymous" */
    const char *actor_id, *actor_name;
    const char *action; /* noun.verb: "secret.set" */
    const char *project_id, *environment_id;
    struct str subject; /* what it was done to: an id or a name; never a secret */
    const char *request_id;
    const char *outcome; /* "ok", "denied" or "failed"; NULL: "ok" */
};

/* What is NULL or empty does not apply. */
bool audit_write(struct tx *tx, struct server *server, const struct audit_entry *entry,
                 struct error *err) MUST_USE;

/* The same for commands beside the server, which have the keys only. */
bool audit_write_under(struct tx *tx, const struct keys *keys, const struct audit_entry *entry,
                       struct error *err) MUST_USE;

/* The same for the caller of a request, in its scope, with the outcome "ok". */
bool audit_call(struct tx *tx, const struct call *call, const char *action, struct str subject,
                struct error *err) MUST_USE;

/* An entry of the caller to fill in further. */
struct audit_entry audit_entry_of(const struct call *call, const char *action);

/* An act that was refused or failed, in a transaction of its own. The same actor, action and
 * subject is written once a minute, and at most some hundred of them in all, so that nobody can
 * fill the disk by being refused. Never a reason to fail. */
void audit_refusal(struct server *server, const struct audit_entry *entry);

/* The same for a request that was refused, when it is the caller who may not do it: by a
 * permission, by a rule of the handler, or for where it comes from. */
void audit_denied(const struct call *call, const struct error *err);
