#include "engine/oci/probe.h"

#include <limits.h>
#include <stdio.h>

#include "base/file.h"
#include "base/own.h"
#include "base/process.h"
#include "engine/probe.h"
#include "engine/probe_cache.h"

enum { PROBE_MEMORY_MIB = 128 };

static bool try_engine(struct engine_host *host, const struct engine *engine, int timeout_ms,
                       const char *platform, const char *const *layers, size_t n_layers,
                       struct engine_result *result, struct error *err)
{
    char empty[PATH_MAX];
    const char *const none[] = {empty};

    /* Without an image the guest gets an empty one. */
    if (n_layers == 0) {
        snprintf(empty, sizeof(empty), "%.*s/tmp/empty", PATH_MAX - 16, host->work_dir);
        if (!directory_make(empty, 0755, err))
            return false;
        layers = none;
        n_layers = 1;
    }
    struct sandbox_spec spec = {.layout = LAYOUT_AGENT,
                                .platform = platform,
                                .layers = layers,
                                .n_layers = n_layers,
                                .vcpus = 1,
                                .memory_mib = PROBE_MEMORY_MIB,
                                .disk_mib = PROBE_MEMORY_MIB,
                                .network = NETWORK_OFF};

    return probe_prove(host, engine, &spec, timeout_ms, result, err);
}

void probe_oci(struct engine_host *host, const struct engine *engine, const char *binary,
               const char *cure, int timeout_ms, const char *platform, const char *const *layers,
               size_t n_layers, struct engine_result *result)
{
    char path[PATH_MAX], guest[PATH_MAX], agent[PROBE_DIGEST + 1];
    struct error err = {0};

    *result = (struct engine_result){.name = engine->name, .grade = engine->grade};
    snprintf(guest, sizeof(guest), "%s/helmr-guest", platform);
    if (geteuid() != 0) {
        probe_fail(result, "run as root", "needs root");
        return;
    }
    if (!probe_binary_find(binary, path, sizeof(path))) {
        snprintf(err.text, sizeof(err.text), "%s is not installed", binary);
        probe_fail(result, cure, err.text);
        return;
    }
    if (!probe_digest(path, result->build, &err) || !probe_digest(guest, agent, &err)) {
        probe_fail(result, "", err.text);
        return;
    }
    if (probe_cache_find(host, engine, agent, result))
        return;
    result->usable = try_engine(host, engine, timeout_ms, platform, layers, n_layers, result, &err);
    if (!result->usable)
        probe_fail(result, "", err.text);
    probe_cache_keep(host, agent, result);
}

const char *gvisor_platform(struct engine_host *host)
{
    AUTO(buf_finish) struct buf out = {.max = 1 << 20};
    const char *const argv[] = {host->runsc_path, "flags", NULL};
    struct process_spec spec = {.argv = argv};
    struct error ignored;
    int status;

    pthread_mutex_lock(&host->mutex);
    const char *known = host->gvisor_platform;
    pthread_mutex_unlock(&host->mutex);
    if (known)
        return known;

    bool ran = process_run(&spec, (struct str){0}, 5000, &out, &out, &status, &ignored);
    bool has_systrap = ran && out.len && memmem(out.bytes, out.len, "systrap", 7);
    pthread_mutex_lock(&host->mutex);
    host->gvisor_platform = has_systrap ? "systrap" : "ptrace";
    pthread_mutex_unlock(&host->mutex);
    return host->gvisor_platform;
}
