/* Which engine this worker uses: proved by starting a guest, never by looking at a file.
 *
 * `auto` takes the strongest proved engine that is not for asking by name; a named one that
 * fails its probe stops the worker. There is no fallback.
 */
#pragma once

#include "worker/worker.h"

bool probe_choose(struct worker *worker, struct error *err) MUST_USE;
