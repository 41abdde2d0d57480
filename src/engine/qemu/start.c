#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "base/wait.h"
#include "engine/guest_files.h"
#include "engine/jail.h"
#include "engine/net/frames.h"
#include "engine/net/network.h"
#include "engine/qemu/command.h"
#include "engine/qemu/machine.h"
#include "engine/saved.h"
#include "engine/sparse.h"
#include "engine/tsc.h"

enum { CPU_HEADROOM_PERCENT = 10, OVERHEAD_MIB = 384, ACCELERATED_OVERHEAD_MIB = 128, TASKS = 512 };
enum { RESOLVER_MAX = 16384 };

/* What the process inherits, besides what the instance keeps. */
struct parts {
    int channel, monitor, output; /* its ends */
    int root, bundle, kernel, initrd, devices;
    int frames_out, frames_in, owner; /* of a worker that is not root */
};

static void parts_finish(struct parts *parts)
{
    const int all[] = {parts->channel,    parts->monitor,   parts->output, parts->root,
                       parts->bundle,     parts->kernel,    parts->initrd, parts->devices,
                       parts->frames_out, parts->frames_in, parts->owner};

    for (size_t i = 0; i < COUNT_OF(all); i++)
        auto_close(&all[i]);
}

static void machine_destroy(void *arg)
{
    struct machine *machine = arg;

    frames_close(machine->frames);
    qmp_finish(&machine->qmp);
    auto_close(&machine->memory);
    auto_close(&machine->folder);
    auto_close(&machine->scratch);
    free(machine);
}

/* Anyone may open what nobody can name: the process has another user than the one who made it. */
static bool open_to_all(int fd, struct error *err)
{
    return fchmod(fd, 0666) == 0 || error_errno(err, "hand on the machine's memory");
}

/* Shared memory is mapped as it is. With changes of its own it is nobody else's, and is made one.
 */
static bool memfd_take(struct machine *machine, const struct saved_image *image, struct error *err)
{
    AUTO_FD int changes = -1;

    if (!saved_changes_open(image, &changes, err))
        return false;
    if (changes >= 0)
        return saved_memory_merge(image, changes, &machine->memory, err);
    machine->is_copy = true;
    machine->memory = fcntl(image->memory, F_DUPFD_CLOEXEC, 0);
    return machine->memory >= 0 || error_errno(err, "hold the saved memory");
}

static bool memory_take(struct machine *machine, const struct saved_image *image, struct error *err)
{
    if (image->memory >= 0)
        return memfd_take(machine, image, err);
    machine->memory = openat(image->folder, MACHINE_MEMORY, O_RDWR | O_CLOEXEC);
    machine->folder = fcntl(image->folder, F_DUPFD_CLOEXEC, 0);
    if (machine->memory < 0 || machine->folder < 0)
        return error_errno(err, "hold the saved memory");
    return open_to_all(machine->memory, err);
}

static bool memory_open(struct machine *machine, const struct sandbox_spec *spec,
                        const struct saved_image *image, struct error *err)
{
    const off_t size = (off_t)spec->memory_mib << 20;
    struct stat status;

    if (image)
        return memory_take(machine, image, err) &&
               ((machine->memory >= 0 && fstat(machine->memory, &status) == 0 &&
                 status.st_size == size) ||
                error_set(err, ERR_INVALID, "the saved memory has another size"));
    machine->memory = memfd_create("helmr-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (machine->memory < 0 || ftruncate(machine->memory, size) < 0)
        return error_errno(err, "make the machine's memory");
    return open_to_all(machine->memory, err);
}

/* What its disk begins as: what was saved, an empty file system, or (-1) nothing at all. */
static bool scratch_source(const struct sandbox_spec *spec, const struct saved_image *image,
                           int *source, struct error *err)
{
    const char *empty = spec->drives.scratch;
    struct stat status;

    *source = -1;
    if (image && !saved_scratch_open(image, source, err))
        return false;
    if (!image && empty)
        *source = open(empty, O_RDONLY | O_CLOEXEC);
    if (!image && !empty)
        return true;
    if (*source < 0 || fstat(*source, &status) < 0)
        return error_errno(err, "open what the disk begins as");
    return status.st_size == spec->drives.scratch_bytes ||
           error_set(err, ERR_INVALID, "what the disk begins as has another size");
}

static bool scratch_make(struct instance *instance, const struct sandbox_spec *spec,
                         const struct saved_image *image, struct error *err)
{
    struct machine *machine = machine_of(instance);
    const unsigned user = instance_user(instance);
    AUTO_FD int source = -1;

    if (spec->drives.scratch_bytes == 0)
        return true;
    machine->scratch = openat(instance->record.dir_fd, "scratch.img",
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (machine->scratch < 0 ||
        (instance->host->is_root && fchown(machine->scratch, user, user) < 0))
        return error_errno(err, "make the machine's disk");
    if (!scratch_source(spec, image, &source, err) ||
        (source >= 0 && !sparse_copy(source, machine->scratch, err)))
        return false;
    return ftruncate(machine->scratch, spec->drives.scratch_bytes) == 0 ||
           error_errno(err, "size the machine's disk");
}

static bool file_open(const char *path, int *fd, struct error *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd >= 0 || error_errno(err, "open %s", path);
}

static bool boot_files_open(const struct engine_host *host, struct parts *parts, struct error *err)
{
    AUTO_FREE struct guest_files *files = alloc(sizeof(*files));

    return guest_files_find(host->guest_dir, files, err) &&
           file_open(files->kernel, &parts->kernel, err) &&
           file_open(files->initrd, &parts->initrd, err);
}

static bool files_open(const struct instance *instance, const struct sandbox_spec *spec,
                       const struct saved_image *image, struct parts *parts, struct error *err)
{
    if (spec->drives.root && !file_open(spec->drives.root, &parts->root, err))
        return false;
    if (spec->drives.bundle && !file_open(spec->drives.bundle, &parts->bundle, err))
        return false;
    if (!image)
        return boot_files_open(instance->host, parts, err);
    parts->devices = openat(image->folder, MACHINE_DEVICES, O_RDONLY | O_CLOEXEC);
    return parts->devices >= 0 || error_errno(err, "open the saved devices");
}

static bool sockets_make(struct instance *instance, struct parts *parts, struct error *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "make the channel");
    instance->channel = pair[0];
    parts->channel = pair[1];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "make the monitor's socket");
    qmp_init(&machine_of(instance)->qmp, pair[0]);
    parts->monitor = pair[1];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, "make a pipe");
    parts->output = pair[1];
    return ring_create(instance->host->service, pair[0], &instance->log, err);
}

/* By which a guard that has no control groups finds the process. */
static bool owner_open(const struct instance *instance, struct parts *parts, struct error *err)
{
    if (instance->host->is_root)
        return true;
    parts->owner = openat(instance->record.dir_fd, "owner", O_RDONLY | O_CLOEXEC);
    return parts->owner >= 0 || error_errno(err, "open the owner of %s", instance->record.id);
}

static void fd_add(struct process_spec *process, int ours, int theirs)
{
    if (ours >= 0)
        process->fds[process->n_fds++] = (struct process_fd){ours, theirs};
}

static void fds_add(struct process_spec *process, const struct instance *instance,
                    const struct parts *parts)
{
    const struct machine *machine = machine_of(instance);

    fd_add(process, parts->output, STDOUT_FILENO);
    fd_add(process, parts->output, STDERR_FILENO);
    fd_add(process, parts->channel, QEMU_FD_CHANNEL);
    fd_add(process, parts->monitor, QEMU_FD_MONITOR);
    fd_add(process, machine->memory, QEMU_FD_MEMORY);
    fd_add(process, parts->root, QEMU_FD_ROOT);
    fd_add(process, machine->scratch, QEMU_FD_SCRATCH);
    fd_add(process, parts->bundle, QEMU_FD_BUNDLE);
    fd_add(process, instance->network ? network_tap_fd(instance->network) : -1, QEMU_FD_TAP);
    fd_add(process, parts->kernel, QEMU_FD_KERNEL);
    fd_add(process, parts->initrd, QEMU_FD_INITRD);
    fd_add(process, parts->devices, QEMU_FD_DEVICES);
    fd_add(process, parts->frames_out, QEMU_FD_FRAMES_OUT);
    fd_add(process, parts->frames_in, QEMU_FD_FRAMES_IN);
    fd_add(process, parts->owner, QEMU_FD_OWNER);
}

/* Without root a guest that is to have a network has QEMU's, which may reach nothing at all. */
static enum qemu_network network_of(const struct instance *instance,
                                    const struct sandbox_spec *spec)
{
    const struct engine_host *host = instance->host;

    if (instance->network)
        return QEMU_NETWORK_TAP;
    if (host->is_root || !host->has_network || spec->network == NETWORK_OFF)
        return QEMU_NETWORK_NONE;
    return host->user_policy ? QEMU_NETWORK_USER : QEMU_NETWORK_RESTRICTED;
}

static bool command_make(const struct instance *instance, const struct sandbox_spec *spec,
                         const struct saved_image *image, struct qemu_args *args, struct error *err)
{
    const struct engine_host *host = instance->host;
    char name[32];

    snprintf(name, sizeof(name), "helmr-%s", id_short(spec->id));
    const struct qemu_command command = {
        .binary = host->qemu_path,
        .name = name,
        .is_accelerated = host->qemu_is_accelerated,
        .vcpus = spec->vcpus > 0 ? spec->vcpus : 1,
        .memory_mib = spec->memory_mib,
        .is_copy = machine_of(instance)->is_copy,
        .is_restored = image != NULL,
        .is_asleep = spec->is_asleep,
        .has_root = spec->drives.root != NULL,
        .has_scratch = machine_of(instance)->scratch >= 0,
        .has_bundle = spec->drives.bundle != NULL,
        .network = network_of(instance, spec),
        .tsc_khz = host->qemu_is_accelerated || image ? 0 : (long)tsc_khz(),
    };
    return qemu_command_make(&command, args, err);
}

/* Nothing of the worker's environment. One arena, since others would be memory kept for later. */
static const char *const environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "MALLOC_ARENA_MAX=1",
                                          NULL};

/* Whom QEMU asks on behalf of its guest. */
static bool resolver_text(const struct engine_host *host, char **text, struct error *err)
{
    AUTO(buf_finish) struct buf made = {.max = RESOLVER_MAX};
    struct str rest = str_of(host->dns ? host->dns : ""), server;

    if (!host->dns)
        return file_read("/etc/resolv.conf", RESOLVER_MAX, text, err);
    while (rest.len > 0 && str_split(&rest, ',', &server)) {
        if (!buf_append(&made, STR("nameserver "), err) || !buf_append(&made, server, err) ||
            !buf_append(&made, STR("\n"), err))
            return false;
    }
    if (!buf_append(&made, (struct str){"", 1}, err))
        return false;
    *text = alloc_text(made.bytes);
    return true;
}

static bool process_launch(struct instance *instance, const struct qemu_args *args,
                           const struct parts *parts, struct error *err)
{
    const struct engine_host *host = instance->host;
    AUTO(jail_close) struct jail jail = {.worker = -1};
    AUTO_FREE char *resolver = NULL;
    struct process_spec process = {
        .argv = args->argv,
        .env = environment,
        .cwd = "/",
        .new_session = true,
        .new_pids = host->is_root || host->has_spaces,
        .new_user = host->has_spaces,
        .prepare = host->is_root ? jail_enter : jail_enter_user,
        .prepare_arg = &jail,
    };

    if (!(host->is_root ? jail_open(&jail, &host->cgroups, instance->launch_group,
                                    instance_user(instance), err)
                        : jail_open_user(&jail, host->has_spaces, err)))
        return false;
    jail.keeps_network = machine_of(instance)->frames != NULL;
    if (jail.keeps_network && !resolver_text(host, &resolver, err))
        return false;
    jail.resolver = resolver;
    jail.is_accelerated = instance->host->qemu_is_accelerated;
    fds_add(&process, instance, parts);
    return process_start(&process, &instance->process, err) &&
           instance_started(instance, instance->engine->name, err);
}

static bool limits_set(struct instance *instance, const struct sandbox_spec *spec,
                       struct error *err)
{
    const int vcpus = spec->vcpus > 0 ? spec->vcpus : 1;
    const bool is_accelerated = instance->host->qemu_is_accelerated;
    const int64_t overhead_mib = is_accelerated ? ACCELERATED_OVERHEAD_MIB : OVERHEAD_MIB;
    const struct cgroup_limits limits = {.memory_bytes = (spec->memory_mib + overhead_mib) << 20,
                                         .cpu_percent = vcpus * (100 + CPU_HEADROOM_PERCENT),
                                         .processes = TASKS};

    return instance_make_cgroups(instance, &limits, err);
}

static bool network_open(struct instance *instance, const struct sandbox_spec *spec,
                         struct parts *parts, struct error *err)
{
    struct network_pool *pool = instance->host->networks;
    struct engine_host *host = instance->host;

    if (network_of(instance, spec) == QEMU_NETWORK_USER)
        return frames_open(host->service, host->user_policy, &machine_of(instance)->frames,
                           &parts->frames_out, &parts->frames_in, err);
    return spec->network == NETWORK_OFF || !pool ||
           network_take(pool, spec, NETWORK_TAP, &instance->network, err) ||
           error_wrap(err, "network");
}

bool machine_launch(struct instance *instance, const struct sandbox_spec *spec,
                    const struct saved_image *image, struct error *err)
{
    AUTO(parts_finish)
    struct parts parts = {.channel = -1,
                          .monitor = -1,
                          .output = -1,
                          .root = -1,
                          .bundle = -1,
                          .kernel = -1,
                          .initrd = -1,
                          .devices = -1,
                          .frames_out = -1,
                          .frames_in = -1,
                          .owner = -1};
    struct machine *machine = alloc(sizeof(*machine));
    struct qemu_args args;

    *machine = (struct machine){.qmp = {.fd = -1}, .memory = -1, .folder = -1, .scratch = -1};
    instance->machine = machine;
    instance->machine_destroy = machine_destroy;
    if (spec->deadline_ms && time_boot_ms() >= spec->deadline_ms)
        return error_set(err, ERR_TIMEOUT, "the deadline passed before the start");
    return limits_set(instance, spec, err) && network_open(instance, spec, &parts, err) &&
           memory_open(machine, spec, image, err) && scratch_make(instance, spec, image, err) &&
           files_open(instance, spec, image, &parts, err) && sockets_make(instance, &parts, err) &&
           owner_open(instance, &parts, err) && command_make(instance, spec, image, &args, err) &&
           process_launch(instance, &args, &parts, err);
}

bool boot_turn_take(struct engine_host *host, int64_t deadline_ms, struct error *err)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    bool is_mine;

    pthread_mutex_lock(&host->mutex);
    while (host->n_booting >= processors && time_boot_ms() < deadline_ms)
        (void)wait_ms(&host->boot_ended, &host->mutex, deadline_ms - time_boot_ms());
    is_mine = host->n_booting < processors;
    host->n_booting += is_mine;
    pthread_mutex_unlock(&host->mutex);
    return is_mine || error_set(err, ERR_TIMEOUT, "too many machines boot at a time");
}

void boot_turn_give(struct engine_host *host)
{
    pthread_mutex_lock(&host->mutex);
    host->n_booting--;
    pthread_cond_signal(&host->boot_ended);
    pthread_mutex_unlock(&host->mutex);
}

/* A process that ends closes its channel first, which can be read then as well. */
static bool has_said(int channel)
{
    char byte;

    return recv(channel, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

bool machine_await_hello(struct instance *instance, int64_t deadline_ms, struct error *err)
{
    struct pollfd ready[] = {
        {.fd = instance->channel,        .events = POLLIN},
        {.fd = instance_pidfd(instance), .events = POLLIN},
    };
    int64_t left = deadline_ms - time_boot_ms();

    while (left > 0 && poll(ready, COUNT_OF(ready), (int)left) <= 0)
        left = deadline_ms - time_boot_ms();
    if (left <= 0)
        return error_set(err, ERR_TIMEOUT, "the guest did not say hello in time");
    if (has_said(instance->channel))
        return true;

    struct str tail = str_trim(instance_log_tail(instance), STR("\n"));
    return error_set(err, ERR_UNAVAILABLE, "the machine ended before it said hello: %.*s",
                     (int)(tail.len < 160 ? tail.len : 160), tail.ptr ? tail.ptr : "");
}
