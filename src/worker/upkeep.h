/* Upkeep: a thread that keeps images, layers, caches, bundles and drives of this host within their
 * budget, and drops the names of images that no deployment needs any more.
 *
 * It looks after every build and every ten minutes. What is in use is never taken: images by their
 * holds, the others by their locks.
 */
#pragma once

#include "worker/worker.h"

bool upkeep_create(struct worker *worker, struct upkeep **upkeep, struct error *err) MUST_USE;
void upkeep_destroy(struct upkeep *upkeep);

/* Something was added: look soon. Does nothing for NULL. */
void upkeep_wake(struct upkeep *upkeep);

/* One round, on the caller's thread. */
void upkeep_now(struct worker *worker);

/* The budget in bytes: what was set, else 20 % of the disk that has the work directory. */
bool upkeep_budget(const struct worker_settings *settings, int64_t *bytes,
                   struct error *err) MUST_USE;
