/* Sandboxes made ahead: started, set up, with Node waiting at the gate. Of nobody's code anything
 * is loaded, but for a module whose import was observed to be the same whenever it happens. A run
 * that needs such a one takes it instead of waiting for its own start.
 *
 * One is made after a run of that kind has begun, as a copy of the kind's template where the engine
 * can save (template_pool.h), is used once, and goes when it was not
 * wanted for a while or another kind is wanted more. It holds no lease and no slot of the
 * capacity; there are never more than the settings allow.
 */
#pragma once

#include "worker/guest.h"
#include "worker/standby_kind.h"

struct standby;

bool standby_create(struct worker *worker, size_t max, struct standby **standby,
                    struct error *err) MUST_USE;
void standby_destroy(struct standby *standby); /* accepts NULL; destroys what stands by */

/* One of that kind, else one that has another module or none, or NULL. One that is nearly ready is
 * waited for. */
struct guest *standby_take(struct standby *standby, const struct standby_kind *kind);

/* A copy made now of the kind's template, else of the one without a module, or NULL: there is none,
 * or it did not work. It waits at the gate as one that stood by does. */
struct guest *standby_copy(struct standby *standby, const struct standby_kind *kind,
                           struct failure *failure);

/* The template that was stored as this manifest, held for the caller; NULL: it is not here. */
struct template *standby_find_template(struct standby *standby, struct str manifest);

/* A run of this kind has begun: another like it may follow. */
void standby_want(struct standby *standby, const struct standby_kind *kind);
