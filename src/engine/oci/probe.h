/* Proof of an OCI engine: a sandbox is really started, says hello, answers a ping, and
 * is destroyed. The verdict is kept in probe.json for this runtime, agent and boot.
 */
#pragma once

#include "engine/engine.h"
#include "engine/host_state.h"

void probe_oci(struct engine_host *host, const struct engine *engine, const char *binary,
               const char *cure, int timeout_ms, const char *platform, const char *const *layers,
               size_t n_layers, struct engine_result *result);

/* The fastest platform that this runsc knows and that needs no hardware. */
const char *gvisor_platform(struct engine_host *host);
