/* Firecracker: a microVM behind KVM, confined by its own jailer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/time.h"
#include "engine/firecracker/boot.h"
#include "engine/firecracker/jailer.h"
#include "engine/firecracker/probe.h"
#include "engine/firecracker/snapshot.h"
#include "engine/firecracker/vsock.h"
#include "engine/guest_files.h"
#include "engine/net/network.h"
#include "engine/saved.h"
#include "engine/sparse.h"

enum {
    OVERHEAD_MIB = 64,
    CPU_HEADROOM_PERCENT = 10,
    PROCESSES = 512,
    START_MS = 60000, /* where nobody says */
    END_MS = 5000,
};

/* The gateway's end, which the namespace of the rules has. */
#define TAP "in0"

/* What is kept of a machine while its instance lives. */
struct machine {
    struct files files;
    struct machine_api *api;
    struct cgroup_limits limits;
    int base; /* the memory it goes on from; -1: it was booted */
    int64_t memory_bytes;
};

static void machine_destroy(void *arg)
{
    struct machine *machine = arg;

    machine_api_close(machine->api);
    files_finish(&machine->files);
    auto_close(&machine->base);
    free(machine);
}

static struct machine *machine_create(struct instance *instance, const struct sandbox_spec *spec)
{
    int vcpus = spec->vcpus > 0 ? spec->vcpus : 1;
    struct machine *machine = alloc(sizeof(*machine));

    *machine = (struct machine){
        .files = {.root = -1, .saves = -1},
        .limits = {.memory_bytes = (spec->memory_mib + OVERHEAD_MIB) << 20,
                  .cpu_percent = vcpus * (100 + CPU_HEADROOM_PERCENT),
                  .processes = PROCESSES},
        .base = -1,
        .memory_bytes = spec->memory_mib << 20,
    };
    instance->machine = machine;
    instance->machine_destroy = machine_destroy;
    return machine;
}

static bool scratch_open(const struct sandbox_spec *spec, const struct saved_image *image, int *fd,
                         struct error *err)
{
    if (image)
        return saved_scratch_open(image, fd, err);
    *fd = open(spec->drives.scratch, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return *fd >= 0 || error_errno(err, "open %s", spec->drives.scratch);
}

/* The disk that the machine writes: a copy of the one it had, of an empty one, or blank. Where it
 * has none it is an empty file, which can be saved all the same. */
static bool scratch_make(struct machine *machine, const struct sandbox_spec *spec,
                         const struct saved_image *image, struct error *err)
{
    AUTO_FD int from = -1, to = -1;

    if (!files_make(&machine->files, BOOT_SCRATCH, &to, err))
        return false;
    if (!image && !spec->drives.scratch)
        return ftruncate(to, spec->drives.scratch_bytes) == 0 ||
               error_errno(err, "size the scratch disk");
    return scratch_open(spec, image, &from, err) && sparse_copy(from, to, err);
}

static bool drives_bind(struct machine *machine, const struct sandbox_spec *spec,
                        const struct saved_image *image, struct error *err)
{
    const struct sandbox_drives *drives = &spec->drives;
    struct files *files = &machine->files;

    return (!drives->root || files_bind(files, AT_FDCWD, drives->root, BOOT_ROOT, err)) &&
           (!drives->bundle || files_bind(files, AT_FDCWD, drives->bundle, BOOT_BUNDLE, err)) &&
           scratch_make(machine, spec, image, err);
}

static bool kernel_bind(struct engine_host *host, struct machine *machine, struct error *err)
{
    struct guest_files guest;
    char kernel[PATH_MAX];

    return guest_files_find(host->guest_dir, &guest, err) &&
           guest_files_unpacked(&guest, kernel, err) &&
           files_bind(&machine->files, AT_FDCWD, kernel, BOOT_KERNEL, err) &&
           files_bind(&machine->files, AT_FDCWD, guest.initrd, BOOT_INITRD, err);
}

/* Nobody writes these again: whoever reads them maps them for himself. */
static bool saved_bind(struct machine *machine, const struct saved_image *image, const char *name,
                       const char *shown, struct error *err)
{
    if (fchmodat(image->folder, name, 0444, 0) < 0)
        return error_errno(err, "let %s be read", name);
    return files_bind(&machine->files, image->folder, name, shown, err);
}

static bool memory_bind(struct machine *machine, const struct saved_image *image, struct error *err)
{
    struct stat status;

    machine->base = openat(image->folder, MACHINE_MEMORY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (machine->base < 0 || fstat(machine->base, &status) < 0)
        return error_errno(err, "open the saved memory");
    if (status.st_size != machine->memory_bytes)
        return error_set(err, ERR_DAMAGED, "the saved memory has %lld bytes, not %lld",
                         (long long)status.st_size, (long long)machine->memory_bytes);
    return saved_bind(machine, image, MACHINE_DEVICES, SNAPSHOT_STATE, err) &&
           saved_bind(machine, image, MACHINE_MEMORY, SNAPSHOT_MEMORY, err);
}

static bool network_open(struct instance *instance, const struct sandbox_spec *spec,
                         struct error *err)
{
    if (spec->network == NETWORK_OFF || !instance->host->networks)
        return true;
    return (network_take(instance->host->networks, spec, NETWORK_TAP, &instance->network, err) &&
            network_tap_leave(instance->network, instance_user(instance), err)) ||
           error_wrap(err, "network");
}

static bool jail(struct instance *instance, struct machine *machine, const char *binary,
                 const char *jailer, int64_t deadline_ms, struct error *err)
{
    char base[PATH_MAX + 8];
    unsigned user = instance_user(instance);
    const struct jailer_plan plan = {
        .jailer = jailer,
        .binary = binary,
        .id = id_short(instance->record.id),
        .user = user,
        .base = base,
        .netns = instance->network ? network_edge_path(instance->network) : NULL,
        .cgroups = &instance->host->cgroups,
        .limits = &machine->limits,
    };

    snprintf(base, sizeof(base), "%s/jail", instance->record.path);
    return jailer_run(instance, &plan, &machine->files, deadline_ms, err) &&
           machine_api_open(machine->files.root, JAILER_API_SOCKET, user, instance->process.pidfd,
                            deadline_ms, &machine->api, err) &&
           instance_started(instance, instance->engine->name, err);
}

static bool machine_begin(struct instance *instance, struct machine *machine,
                          const struct sandbox_spec *spec, const struct saved_image *image,
                          int64_t deadline_ms, struct error *err)
{
    const struct boot boot = {.api = machine->api,
                              .spec = spec,
                              .tap = instance->network ? TAP : NULL,
                              .deadline_ms = deadline_ms};

    return image ? snapshot_load(machine->api, deadline_ms, err) &&
                       snapshot_resume(machine->api, deadline_ms, err)
                 : boot_machine(&boot, err);
}

/* With an image the machine goes on from what was saved there. */
static bool machine_launch(struct instance *instance, const struct sandbox_spec *spec,
                           const struct saved_image *image, struct error *err)
{
    struct engine_host *host = instance->host;
    struct machine *machine = machine_create(instance, spec);
    int64_t deadline = spec->deadline_ms ? spec->deadline_ms : time_boot_ms() + START_MS;
    /* A copy where nothing can be bound, what it changed, and everything. */
    int64_t saves_bytes = 3 * machine->memory_bytes + (64 << 20);
    char binary[PATH_MAX], jailer[PATH_MAX];

    if (!firecracker_find(host->firecracker_path, binary, err) ||
        !firecracker_find(host->jailer_path, jailer, err) ||
        !files_open(instance, strrchr(binary, '/') + 1, saves_bytes, &machine->files, err) ||
        !instance_make_cgroups(instance, &machine->limits, err) ||
        !(image ? memory_bind(machine, image, err) : kernel_bind(host, machine, err)) ||
        !drives_bind(machine, spec, image, err) || !network_open(instance, spec, err))
        return false;
    return jail(instance, machine, binary, jailer, deadline, err) &&
           machine_begin(instance, machine, spec, image, deadline, err) &&
           vsock_connect(machine->files.root, BOOT_VSOCK, instance_user(instance),
                         instance->process.pidfd, VSOCK_AGENT_PORT, deadline, &instance->channel,
                         err);
}

/* The last line that Firecracker or its jailer printed: the reason, more often than not. */
static void explain(struct instance *instance, struct error *err)
{
    struct str rest = instance_log_tail(instance), line, last = {0};
    struct error inner = *err;

    while (str_split(&rest, '\n', &line)) {
        if (line.len)
            last = line;
    }
    if (last.len)
        error_set(err, inner.code, "%.240s (%.*s)", inner.text,
                  (int)(last.len < 200 ? last.len : 200), last.ptr);
}

static bool machine_make(struct engine_host *host, const struct sandbox_spec *spec,
                         const struct saved_image *image, struct instance **instance,
                         struct error *err)
{
    struct instance *made;
    struct error ignored;

    if (!instance_create(host, &engine_firecracker, spec, false, &made, err))
        return false;
    if (!machine_launch(made, spec, image, err)) {
        explain(made, err);
        (void)!instance_destroy(made, &ignored);
        return error_wrap(err, image ? "restore Firecracker" : "start Firecracker");
    }
    *instance = made;
    return true;
}

static bool firecracker_start(struct engine_host *host, const struct sandbox_spec *spec,
                              struct instance **instance, struct error *err)
{
    return machine_make(host, spec, NULL, instance, err);
}

static bool firecracker_restore(struct engine_host *host, const struct sandbox_spec *spec,
                                const struct saved_image *image, struct instance **instance,
                                struct error *err)
{
    return machine_make(host, spec, image, instance, err);
}

/* What the machine writes of itself counts as its own memory. */
static bool limits_raise(struct instance *instance, const struct machine *machine,
                         struct error *err)
{
    struct cgroup_limits limits = machine->limits;

    limits.memory_bytes += 2 * machine->memory_bytes;
    return cgroup_make(&instance->host->cgroups, id_short(instance->record.id), &limits, err);
}

static bool machine_end(struct instance *instance, struct error *err)
{
    struct pollfd ended = {.fd = instance->process.pidfd, .events = POLLIN};
    struct error ignored;

    (void)!process_signal(&instance->process, SIGKILL, &ignored);
    return poll(&ended, 1, END_MS) > 0 ||
           error_set(err, ERR_TIMEOUT, "Firecracker survives SIGKILL");
}

static bool scratch_collect(const struct machine *machine, const struct saved_image *image,
                            struct error *err)
{
    AUTO_FD int from = -1, to = -1;

    return files_read_open(machine->files.root, BOOT_SCRATCH, &from, err) &&
           saved_scratch_make(image, &to, err) && sparse_copy(from, to, err);
}

static bool firecracker_save(struct instance *instance, struct saved_image *image, int timeout_ms,
                             struct error *err)
{
    struct engine_host *host = instance->host;
    struct machine *machine = instance->machine;
    struct error after = {0};

    pthread_mutex_lock(&host->mutex);
    struct snapshot snapshot = {.api = machine->api,
                                .saves = machine->files.saves,
                                .base = machine->base,
                                .memory_bytes = machine->memory_bytes,
                                .deadline_ms = time_boot_ms() + timeout_ms,
                                .changes = host->firecracker_changes};
    pthread_mutex_unlock(&host->mutex);

    bool is_written = limits_raise(instance, machine, err) && snapshot_create(&snapshot, err);
    bool is_over = machine_end(instance, is_written ? err : &after);
    if (!is_written || !is_over || !snapshot_collect(&snapshot, image->folder, err) ||
        !scratch_collect(machine, image, err))
        return error_wrap(err, "save Firecracker");

    /* Once found wanting is found wanting for good. */
    pthread_mutex_lock(&host->mutex);
    if (host->firecracker_changes != SNAPSHOT_INCOMPLETE)
        host->firecracker_changes = snapshot.changes;
    pthread_mutex_unlock(&host->mutex);
    return true;
}

/* Its memory is mapped privately and read-only by all, straight from the folder. */
static bool firecracker_share(struct engine_host *host, struct saved_image *image,
                              struct error *err)
{
    (void)host;
    return image->memory < 0 ||
           error_set(err, ERR_INVALID, "this memory was shared in another way");
}

const struct engine engine_firecracker = {
    .name = "firecracker",
    .grade = ENGINE_GRADE_MICROVM,
    .probe = firecracker_probe,
    .start = firecracker_start,
    .save = firecracker_save,
    .restore = firecracker_restore,
    .share = firecracker_share,
    .form = &saved_form_machine,
    .has_drives = true,
};
