/* Containers: the host's own kernel, for those who ask for it by name. */
#include <stdio.h>

#include "base/own.h"
#include "engine/oci/launch.h"
#include "engine/oci/probe.h"

enum { PROCESSES = 4096, PROBE_MS = 5000, CHANNEL_FD = 3 };

static const char *const agent_args[] = {"/helmr-guest", "--channel", "fd:3", "--mask-proc", NULL};

static bool container_launch(struct instance *instance, const struct sandbox_spec *spec,
                             struct error *err)
{
    char root[PATH_MAX + 16], bundle[PATH_MAX + 16];

    snprintf(root, sizeof(root), "%s/state", instance->record.path);
    snprintf(bundle, sizeof(bundle), "%s/bundle", instance->record.path);
    const char *const argv[] = {instance->host->runc_path, "--root", root,       "run",
                                "--preserve-fds",          "1",      "--bundle", bundle,
                                id_short(spec->id),        NULL};
    struct launch launch = {.instance = instance,
                            .spec = spec,
                            .argv = argv,
                            .args = agent_args,
                            .processes = PROCESSES,
                            .channel_target = CHANNEL_FD,
                            .is_mapped = true};

    return launch_run(&launch, err);
}

static bool container_start(struct engine_host *host, const struct sandbox_spec *spec,
                            struct instance **instance, struct error *err)
{
    struct instance *made;
    struct error ignored;

    if (!instance_create(host, &engine_container, spec, true, &made, err))
        return false;
    if (!container_launch(made, spec, err)) {
        (void)!instance_destroy(made, &ignored);
        return error_wrap(err, "start a container");
    }
    *instance = made;
    return true;
}

static void container_probe(struct engine_host *host, const char *platform,
                            const char *const *layers, size_t n_layers,
                            struct engine_result *result)
{
    probe_oci(host, &engine_container, host->runc_path, "apt-get install runc", PROBE_MS, platform,
              layers, n_layers, result);
}

const struct engine engine_container = {
    .name = "container",
    .grade = ENGINE_GRADE_SHARED_KERNEL,
    .by_name_only = true,
    .probe = container_probe,
    .start = container_start,
};
