/* Sandboxes made ahead: started, set up, with Node waiting at the gate and no code of anybody
 * loaded. A run that needs exactly such a one takes it instead of waiting for its own start.
 *
 * One is made after a run of that kind has begun, as a copy of the kind's template where the engine
 * can save (template_pool.h), is used once, and goes when it was not
 * wanted for a while or another kind is wanted more. It holds no lease and no slot of the
 * capacity; there are never more than the settings allow.
 */
#pragma once

#include "image/image.h"
#include "worker/guest.h"

struct standby;

/* What makes two sandboxes interchangeable. Everything is copied. */
struct standby_kind {
    const struct sandbox_spec *spec;
    const struct image_config *config;
    const char *mount;
};

bool standby_create(struct worker *worker, size_t max, struct standby **standby,
                    struct error *err) MUST_USE;
void standby_destroy(struct standby *standby); /* accepts NULL; destroys what stands by */

/* One of that kind, or NULL. One that is nearly ready is waited for. */
struct guest *standby_take(struct standby *standby, const struct standby_kind *kind);

/* A copy made now of the kind's template, or NULL: there is none, or it did not work. It waits at
 * the gate as one that stood by does. */
struct guest *standby_copy(struct standby *standby, const struct standby_kind *kind,
                           struct failure *failure);

/* A run of this kind has begun: another like it may follow. */
void standby_want(struct standby *standby, const struct standby_kind *kind);
