/* Which engines this worker uses: proved by starting a guest, never by looking at a file.
 *
 * The rule is model/engine_choice; here engines are tried, each at most once and none that the
 * rule does not ask for. A named one that fails its probe stops the worker: there is no fallback.
 */
#pragma once

#include "worker/worker.h"

/* For runs and, where this worker builds, for builds. */
bool probe_choose(struct worker *worker, struct error *err) MUST_USE;

/* What was found when it was tried; NULL: it was not. */
const struct engine_result *probe_of(const struct worker *worker, const struct engine *engine);
