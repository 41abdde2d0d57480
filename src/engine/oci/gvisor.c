/* gVisor: a kernel in user space between the program and the host's. */
#include <stdio.h>

#include "base/own.h"
#include "engine/oci/launch.h"
#include "engine/oci/probe.h"

enum { OVERHEAD_MIB = 64, PROCESSES = 4096, PROBE_MS = 10000 };

static const char *const agent_args[] = {"/helmr-guest", "--channel", "stdio", NULL};

/* Caches may be trusted only where nobody else writes, and must not hold writes back where
 * somebody reads afterwards. */
static bool is_immutable(const struct sandbox_spec *spec)
{
    if (spec->layout == LAYOUT_DIRECT)
        return false;
    for (size_t i = 0; i < spec->n_binds; i++) {
        if (spec->binds[i].writable)
            return false;
    }
    return true;
}

static bool gvisor_launch(struct instance *instance, const struct sandbox_spec *spec,
                          struct error *err)
{
    struct engine_host *host = instance->host;
    char root[PATH_MAX + 16], bundle[PATH_MAX + 16], platform[32];
    bool has_network = spec->network != NETWORK_OFF && host->networks;

    snprintf(root, sizeof(root), "--root=%s/state", instance->record.path);
    snprintf(bundle, sizeof(bundle), "--bundle=%s/bundle", instance->record.path);
    snprintf(platform, sizeof(platform), "--platform=%s", gvisor_platform(host));
    const char *const argv[] = {
        host->runsc_path,
        root,
        platform,
        has_network ? "--network=sandbox" : "--network=none",
        "--file-access=exclusive",
        is_immutable(spec) ? "--file-access-mounts=exclusive" : "--file-access-mounts=shared",
        "--host-uds=none",
        "--net-raw=false",
        "--cpu-num-from-quota",
        "run",
        bundle,
        id_short(spec->id),
        NULL,
    };
    struct launch launch = {.instance = instance,
                            .spec = spec,
                            .argv = argv,
                            .args = agent_args,
                            .memory_overhead_mib = OVERHEAD_MIB,
                            .processes = PROCESSES,
                            .hides_net_core = true};

    return launch_run(&launch, err);
}

static bool gvisor_start(struct engine_host *host, const struct sandbox_spec *spec,
                         struct instance **instance, struct error *err)
{
    struct instance *made;
    struct error ignored;

    if (!instance_create(host, &engine_gvisor, spec, false, &made, err))
        return false;
    if (!gvisor_launch(made, spec, err)) {
        (void)!instance_destroy(made, &ignored);
        return error_wrap(err, "start gVisor");
    }
    *instance = made;
    return true;
}

static void gvisor_probe(struct engine_host *host, const char *platform, const char *const *layers,
                         size_t n_layers, struct engine_result *result)
{
    probe_oci(host, &engine_gvisor, host->runsc_path, "apt-get install runsc", PROBE_MS, platform,
              layers, n_layers, result);
}

const struct engine engine_gvisor = {
    .name = "gvisor",
    .grade = ENGINE_GRADE_USER_KERNEL,
    .probe = gvisor_probe,
    .start = gvisor_start,
};
