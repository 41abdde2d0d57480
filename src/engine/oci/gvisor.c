/* gVisor: a kernel in user space between the program and the host's. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/vfs.h>

#include "base/own.h"
#include "engine/net/network.h"
#include "engine/oci/launch.h"
#include "engine/oci/probe.h"
#include "engine/saved.h"

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

#define FOLDER_ARG "--image-path=/proc/self/fd/3"
_Static_assert(LAUNCH_FOLDER_FD == 3, "FOLDER_ARG names it");

/* With a folder the sandbox goes on from what was saved there. */
static bool gvisor_launch(struct instance *instance, const struct sandbox_spec *spec, int folder,
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
        folder ? "restore" : "run",
        bundle,
        folder ? FOLDER_ARG : id_short(spec->id),
        folder ? id_short(spec->id) : NULL,
        NULL,
    };
    struct launch launch = {.instance = instance,
                            .spec = spec,
                            .argv = argv,
                            .args = agent_args,
                            .memory_overhead_mib = OVERHEAD_MIB,
                            .processes = PROCESSES,
                            .folder = folder,
                            .hides_net_core = true,
                            .untraps_cpuid = true};

    return launch_run(&launch, err);
}

static bool gvisor_make(struct engine_host *host, const struct sandbox_spec *spec, int folder,
                        struct instance **instance, struct error *err)
{
    struct instance *made;
    struct error ignored;

    if (!instance_create(host, &engine_gvisor, spec, false, &made, err))
        return false;
    if (!gvisor_launch(made, spec, folder, err)) {
        (void)!instance_destroy(made, &ignored);
        return error_wrap(err, folder ? "restore gVisor" : "start gVisor");
    }
    *instance = made;
    return true;
}

static bool gvisor_start(struct engine_host *host, const struct sandbox_spec *spec,
                         struct instance **instance, struct error *err)
{
    return gvisor_make(host, spec, 0, instance, err);
}

static bool gvisor_restore(struct engine_host *host, const struct sandbox_spec *spec,
                           const struct saved_image *image, struct instance **instance,
                           struct error *err)
{
    return gvisor_make(host, spec, image->folder, instance, err);
}

/* Between fork and exec: a sandbox listens for commands in the namespace it was started from. */
static bool enter_network(void *arg, struct error *err)
{
    const int *network = arg;

    return *network < 0 || setns(*network, CLONE_NEWNET) == 0 ||
           error_errno(err, "enter the network namespace");
}

static bool gvisor_save(struct instance *instance, struct saved_image *image, int timeout_ms,
                        struct error *err)
{
    char root[PATH_MAX + 16];
    int network = instance->network ? network_inner_fd(instance->network) : -1;
    AUTO(buf_finish) struct buf errors = {.max = 65536};
    int status;

    snprintf(root, sizeof(root), "--root=%s/state", instance->record.path);
    const char *const argv[] = {
        instance->host->runsc_path,    root, "checkpoint", FOLDER_ARG,
        id_short(instance->record.id), NULL,
    };
    const struct process_spec spec = {
        .argv = argv,
        .cwd = "/",
        .fds = {{image->folder, LAUNCH_FOLDER_FD}},
        .n_fds = 1,
        .die_with_parent = true,
        .prepare = enter_network,
        .prepare_arg = &network,
    };
    if (!process_run(&spec, (struct str){0}, timeout_ms, NULL, &errors, &status, err))
        return error_wrap(err, "save gVisor");
    return status == 0 || error_set(err, ERR_INTERNAL, "save gVisor: %.*s",
                                    (int)(errors.len < 500 ? errors.len : 500), errors.bytes);
}

/* Pieces that are only stored start a copy faster than deflated ones. */
static bool gvisor_share(struct engine_host *host UNUSED, struct saved_image *image,
                         struct error *err)
{
    AUTO(saved_image_finish) struct saved_image stored = SAVED_IMAGE_NONE;
    struct statfs room;

    if (fstatfs(image->folder, &room) != 0)
        return error_errno(err, "see how large an image may be");
    if (!saved_image_make(&engine_gvisor, (int64_t)room.f_blocks * room.f_bsize, &stored, err) ||
        !saved_copy(image, &stored, err))
        return false;
    saved_image_finish(image);
    *image = stored;
    stored = (struct saved_image)SAVED_IMAGE_NONE;
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
    .save = gvisor_save,
    .restore = gvisor_restore,
    .share = gvisor_share,
    .form = &saved_form_gvisor,
    .cannot_save_tcp = true,
};
