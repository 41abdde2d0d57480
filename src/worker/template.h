/* A sandbox of one kind, saved at the gate: Node waits, and has loaded nobody's code but a module
 * whose import is the same whenever it happens. Sandboxes that stand by are copies of it, so are
 * those of runs that found none, and what a parked run shares with it is stored once.
 *
 * Counted: the pool has one, who copies it and each guest that came of it another.
 */
#pragma once

#include "worker/checkpoint.h"
#include "worker/guest.h"
#include "worker/template_chunks.h"

struct template;

/* Of a launched guest that waits at the gate; the guest is over after it. */
bool template_make(struct guest *guest, const struct sandbox_spec *spec, struct template **template,
                   struct error *err) MUST_USE;
/* Of what was saved and is shared; the image is the template's after it. */
struct template *template_of(struct saved_image *image, const uint8_t nonce[GUEST_NONCE_LEN]);
struct template *template_hold(struct template *template); /* accepts NULL */
void template_drop(struct template *template);             /* accepts NULL */

/* Held by one and nobody else; its memory in bytes. */
bool template_is_idle(const struct template *template);
int64_t template_size(const struct template *template);

/* A copy that waits at the gate, with randomness of its own; with spec.is_asleep one that does so
 * after template_wake. */
bool template_copy(struct template *template, struct worker *worker,
                   const struct sandbox_spec *spec, const struct guest_listener *listener,
                   struct failure *failure, struct guest **guest, struct error *err) MUST_USE;

/* A copy that slept until it was wanted; one that did not is left as it is. */
bool template_wake(struct guest *guest, bool has_network, struct error *err) MUST_USE;

/* What checkpoints of its copies have in common, as a manifest; stored at the first call. */
bool template_manifest(struct template *template, struct run *run, char manifest[SHA256_HEX],
                       struct error *err) MUST_USE;
/* Whether that is its manifest; not while it is being stored. */
bool template_is_stored_as(struct template *template, struct str manifest);
/* What of it is at hand for a checkpoint that grew from it, once it is stored; the template's. */
bool template_open_chunks(struct template *template, struct run *run,
                          const struct template_chunks **chunks, struct error *err) MUST_USE;
/* It is no longer in the store: the next call stores it anew. */
void template_forget_manifest(struct template *template);
