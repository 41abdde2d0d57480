/* Starting an OCI runtime: what gVisor and containers have in common.
 *
 * Everything is made before the fork; the child only joins, enters and mounts, in this
 * order: cgroups, network namespace, mount namespace, image. If the worker has died
 * meanwhile it goes no further.
 */
#pragma once

#include "engine/instance.h"
#include "engine/oci/bundle.h"

struct launch {
    struct instance *instance;
    const struct sandbox_spec *spec;
    const char *const *argv;     /* the runtime's command line */
    const char *const *args;     /* the agent's */
    int64_t memory_overhead_mib; /* beyond what the sandbox was given */
    int processes;
    int channel_target;  /* 0: stdin and stdout, else this descriptor */
    bool enters_network; /* the runtime starts inside the sandbox's network namespace */
    bool has_user_namespace;
    uint32_t user_base;
};

bool launch_run(struct launch *launch, struct error *err) MUST_USE;
