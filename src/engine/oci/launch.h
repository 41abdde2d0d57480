/* Starting an OCI runtime: what gVisor and containers have in common.
 *
 * Everything is made before the fork; the child only joins, enters and mounts, in this
 * order: cgroups, network namespace, mount namespace, image. If the worker has died
 * meanwhile it goes no further.
 */
#pragma once

#include "engine/instance.h"
#include "engine/oci/bundle.h"

enum { LAUNCH_FOLDER_FD = 3 };

struct launch {
    struct instance *instance;
    const struct sandbox_spec *spec;
    const char *const *argv;     /* the runtime's command line */
    const char *const *args;     /* the agent's */
    int64_t memory_overhead_mib; /* beyond what the sandbox was given */
    int processes;
    int channel_target;  /* 0: stdin and stdout, else this descriptor */
    int folder;          /* handed on as LAUNCH_FOLDER_FD; 0: none */
    bool hides_net_core; /* for releases of runsc that would take any namespace for the host's */
    bool untraps_cpuid;  /* see oci/cpuid.h */
    bool is_mapped;      /* under a user namespace, with shifted owners */
};

bool launch_run(struct launch *launch, struct error *err) MUST_USE;
