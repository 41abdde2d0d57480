/* What probes found out, kept in probe.json of the work directory, so that a worker's start is
 * quick. It counts only while everything it depends on is what it was: the engine's programs
 * (result->build), what its guest boots, and the boot of the host.
 *
 * Only good news is kept: what was broken is tried again, since somebody may have cured it.
 */
#pragma once

#include "engine/engine.h"
#include "engine/host_state.h"

enum { PROBE_GUEST_MAX = 192 };

/* `guest` names what the guest boots, in digests; at most PROBE_GUEST_MAX characters. True: the
 * engine was proved with it, and the result says what it can do. */
bool probe_cache_find(struct engine_host *host, const struct engine *engine, const char *guest,
                      struct engine_result *result);

void probe_cache_keep(struct engine_host *host, const char *guest,
                      const struct engine_result *result);
