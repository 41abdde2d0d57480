#include "engine/oci/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/mount.h"
#include "engine/net/network.h"
#include "engine/oci/cpuid.h"
#include "engine/oci/mapped.h"

enum { HIGH_FD = 64, CPU_HEADROOM_PERCENT = 10, CHANNEL_ROOM = 4 << 20 };

/* What the child needs, all of it made before the fork. */
struct child {
    const struct sandbox_spec *spec;
    int procs[CGROUP_HIERARCHIES_MAX];
    size_t n_procs;
    int network; /* -1: none */
    bool hides_net_core, untraps_cpuid;
    struct mapped mapped; /* .userns_fd -1: owners are as they are */
    pid_t worker;
    char image[PATH_MAX], work[PATH_MAX];
};

static void child_finish(struct child *child)
{
    for (size_t i = 0; i < child->n_procs; i++)
        auto_close(&child->procs[i]);
    auto_close(&child->network);
    mapped_finish(&child->mapped);
}

static bool join_groups(const struct child *child, struct error *err)
{
    for (size_t i = 0; i < child->n_procs; i++) {
        if (child->procs[i] >= 0 && write(child->procs[i], "0", 1) != 1)
            return error_errno(err, "join the cgroup");
    }

    /* From here on the guard finds this process; before, it might have looked in vain. */
    return getppid() == child->worker || error_set(err, ERR_CANCELLED, "the worker is gone");
}

static bool enter_network(const struct child *child, struct error *err)
{
    return child->network < 0 || setns(child->network, CLONE_NEWNET) == 0 ||
           error_errno(err, "enter the network namespace");
}

static bool child_prepare(void *arg, struct error *err)
{
    const struct child *child = arg;
    const struct sandbox_spec *spec = child->spec;
    struct rlimit no_core = {0};
    bool is_direct = spec->layout == LAYOUT_DIRECT;

    if (!join_groups(child, err) || !enter_network(child, err) || !mount_isolate(err))
        return false;
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (child->untraps_cpuid)
        (void)cpuid_untrap();

    if (child->hides_net_core && !mount_empty("/proc/sys/net/core", err))
        return false;
    if (child->mapped.userns_fd >= 0)
        return mapped_mount(&child->mapped, err);
    if (spec->n_layers == 0)
        return true;
    return mount_layers(spec->layers, spec->n_layers, is_direct ? spec->upper : NULL,
                        is_direct ? child->work : NULL, child->image, err);
}

static bool folders_make(struct launch *launch, struct error *err)
{
    static const char *const names[] = {"bundle", "state", "image"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!instance_make_folder(launch->instance, names[i], err))
            return false;
    }
    return launch->spec->layout == LAYOUT_AGENT ||
           instance_make_folder(launch->instance, "work", err);
}

static int cpu_percent(const struct sandbox_spec *spec)
{
    int vcpus = spec->vcpus > 0 ? spec->vcpus : 1;

    return vcpus * (100 + CPU_HEADROOM_PERCENT);
}

static bool config_write(struct launch *launch, const struct child *child,
                         const struct cgroup_limits *limits, struct error *err)
{
    struct instance *instance = launch->instance;
    AUTO(buf_finish) struct buf text = {.max = BUNDLE_CONFIG_MAX};
    char cgroups[CGROUP_PATH_MAX + 32];

    snprintf(cgroups, sizeof(cgroups), "/%s/%s", instance->host->cgroups.root,
             id_short(instance->record.id));
    struct bundle bundle = {
        .spec = launch->is_mapped ? &child->mapped.shown : launch->spec,
        .args = launch->args,
        .image = launch->is_mapped ? MAPPED_STAGE "/image" : child->image,
        .network_path = instance->network ? network_inner_path(instance->network) : NULL,
        .cgroups_path = cgroups,
        .memory_bytes = limits->memory_bytes,
        /* Without the headroom: the guest counts its processors by it. */
        .cpu_percent = 100 * (launch->spec->vcpus > 0 ? launch->spec->vcpus : 1),
        .processes = limits->processes,
        .is_mapped = launch->is_mapped,
    };
    if (!bundle_config(&bundle, &text, err))
        return false;

    AUTO_FD int fd = openat(instance->record.dir_fd, "bundle/config.json",
                            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "create config.json");
    return fd_write_all(fd, buf_str(&text), err);
}

/* Above every number the child's own descriptors are placed on; closes the low one. */
static bool raise_fd(int *fd, struct error *err)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, HIGH_FD);

    if (high < 0)
        return error_errno(err, "move a descriptor");
    close(*fd);
    *fd = high;
    return true;
}

static bool procs_open(struct launch *launch, struct child *child, struct error *err)
{
    const struct cgroup_tree *tree = &launch->instance->host->cgroups;

    if (!cgroup_open_procs(tree, launch->instance->launch_group, child->procs, err))
        return false;
    for (size_t i = 0; i < tree->n; i++) {
        if (!raise_fd(&child->procs[i], err))
            return false;
    }
    return true;
}

static bool network_open(struct launch *launch, struct child *child, struct error *err)
{
    struct instance *instance = launch->instance;

    if (launch->spec->network == NETWORK_OFF || !instance->host->networks)
        return true;
    if (!network_take(instance->host->networks, launch->spec, NETWORK_INNER, &instance->network,
                      err))
        return error_wrap(err, "network");
    child->network = fcntl(network_inner_fd(instance->network), F_DUPFD_CLOEXEC, HIGH_FD);
    child->hides_net_core = launch->hides_net_core;
    return child->network >= 0 || error_errno(err, "hold the network namespace");
}

/* A tree of files goes through in large pieces; where a sandbox has to wait for room, that costs it
 * more than the copy. The kernel may allow less. */
static void widen(int channel)
{
    const int bytes = CHANNEL_ROOM;

    if (setsockopt(channel, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
        (void)setsockopt(channel, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

static bool process_launch(struct launch *launch, struct child *child, struct error *err)
{
    struct instance *instance = launch->instance;
    int pair[2], output[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "make the channel");
    instance->channel = pair[0];
    AUTO_FD int theirs = pair[1];
    widen(pair[0]);
    widen(pair[1]);
    if (pipe2(output, O_CLOEXEC) < 0)
        return error_errno(err, "make a pipe");
    AUTO_FD int writer = output[1];
    if (!ring_create(instance->host->service, output[0], &instance->log, err))
        return false;

    struct process_spec spec = {
        .argv = launch->argv,
        .cwd = "/",
        .fds = {{writer, STDERR_FILENO}, {theirs, STDIN_FILENO}, {theirs, STDOUT_FILENO}},
        .n_fds = 3,
        .new_session = true,
        .prepare = child_prepare,
        .prepare_arg = child,
    };
    if (launch->channel_target > 0) {
        spec.fds[1] = (struct process_fd){theirs, launch->channel_target};
        spec.fds[2] = (struct process_fd){writer, STDOUT_FILENO};
    }
    if (launch->folder > 0)
        spec.fds[spec.n_fds++] = (struct process_fd){launch->folder, LAUNCH_FOLDER_FD};
    return process_start(&spec, &instance->process, err) &&
           instance_started(instance, instance->engine->name, err);
}

bool launch_run(struct launch *launch, struct error *err)
{
    const struct sandbox_spec *spec = launch->spec;
    struct instance *instance = launch->instance;
    int64_t memory_mib = spec->memory_mib + launch->memory_overhead_mib + bundle_scratch_mib(spec);
    struct cgroup_limits limits = {.memory_bytes = memory_mib * 1024 * 1024,
                                   .cpu_percent = cpu_percent(spec),
                                   .processes = launch->processes};
    AUTO(child_finish)
    struct child child = {.spec = spec,
                          .untraps_cpuid = launch->untraps_cpuid,
                          .n_procs = instance->host->cgroups.n,
                          .network = -1,
                          .mapped = {.userns_fd = -1},
                          .worker = getpid()};

    if (spec->deadline_ms && time_boot_ms() >= spec->deadline_ms)
        return error_set(err, ERR_TIMEOUT, "the deadline passed before the start");
    for (size_t i = 0; i < CGROUP_HIERARCHIES_MAX; i++)
        child.procs[i] = -1;
    snprintf(child.image, sizeof(child.image), "%.*s/image", PATH_MAX - 16, instance->record.path);
    snprintf(child.work, sizeof(child.work), "%.*s/work", PATH_MAX - 16, instance->record.path);
    if (!bundle_prepare_platform(spec->platform, err) || !folders_make(launch, err) ||
        !instance_make_cgroups(instance, &limits, err) || !procs_open(launch, &child, err))
        return false;
    if (launch->is_mapped &&
        (!mapped_open(&child.mapped, spec, instance->host->work_dir, child.work, err) ||
         !raise_fd(&child.mapped.userns_fd, err)))
        return false;
    return network_open(launch, &child, err) && config_write(launch, &child, &limits, err) &&
           process_launch(launch, &child, err);
}
