/* A sandbox of one kind, saved at the gate: Node waits, no code of anybody is loaded. Every
 * sandbox that stands by is a copy of it, and what a parked run shares with it is stored once.
 *
 * Counted: the standby has one, each guest that came of it another.
 */
#pragma once

#include "worker/checkpoint.h"
#include "worker/guest.h"

struct template;

/* Of a launched guest that waits at the gate; the guest is over after it. */
bool template_make(struct guest *guest, int64_t room, struct template **template,
                   struct error *err) MUST_USE;
struct template *template_hold(struct template *template); /* accepts NULL */
void template_drop(struct template *template);             /* accepts NULL */

/* A copy that waits at the gate, with randomness of its own. */
bool template_copy(struct template *template, struct worker *worker,
                   const struct sandbox_spec *spec, const struct guest_listener *listener,
                   struct failure *failure, struct guest **guest, struct error *err) MUST_USE;

/* What checkpoints of its copies have in common, as a manifest; stored at the first call. */
bool template_manifest(struct template *template, struct run *run, char manifest[SHA256_HEX],
                       struct error *err) MUST_USE;
/* It is no longer in the store: the next call stores it anew. */
void template_forget_manifest(struct template *template);
