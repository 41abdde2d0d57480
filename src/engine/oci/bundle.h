/* config.json of a sandbox: the agent as the first process on the read-only platform
 * root, the image beside it (execution.md §4.4, src/guest/README.md).
 */
#pragma once

#include "base/buf.h"
#include "engine/engine.h"

struct bundle {
    const struct sandbox_spec *spec;
    const char *const *args;  /* NULL-terminated */
    const char *image;        /* host path of the stacked layers */
    const char *network_path; /* NULL: a fresh, empty namespace */
    const char *cgroups_path; /* absolute, below every hierarchy */
    int64_t memory_bytes;     /* the limit to show inside; 0: none */
    int cpu_percent, processes;
    bool is_mapped; /* a user namespace; the runtime is already in the network namespace */
};

enum { BUNDLE_CONFIG_MAX = 256 * 1024, SCRATCH_MAX_MIB = 4096 };

/* The size of /scratch, which lives in the sandbox's memory. */
int64_t bundle_scratch_mib(const struct sandbox_spec *spec);

bool bundle_config(const struct bundle *bundle, struct buf *out, struct error *err) MUST_USE;

/* The empty directories that mounts of the bundle need inside the platform root. */
bool bundle_prepare_platform(const char *platform, struct error *err) MUST_USE;
