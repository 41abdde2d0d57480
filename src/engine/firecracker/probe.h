/* Proof that Firecracker runs here: a machine is booted to its agent's hello, saved, and goes on.
 */
#pragma once

#include <limits.h>

#include "engine/engine.h"

/* The program behind a name, without links: its jail is named after it. */
bool firecracker_find(const char *name, char path[PATH_MAX], struct error *err) MUST_USE;

void firecracker_probe(struct engine_host *host, const char *platform, const char *const *layers,
                       size_t n_layers, struct engine_result *result);
