#include "engine/host.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/guard.h"
#include "engine/host_state.h"
#include "engine/net/frames.h"
#include "engine/net/netns.h"
#include "engine/net/network.h"
#include "engine/reclaim.h"
#include "engine/slot.h"
#include "engine/spaces.h"

#if defined(__aarch64__)
#define QEMU_PROGRAM "qemu-system-aarch64"
#else
#define QEMU_PROGRAM "qemu-system-x86_64"
#endif

enum { METADATA_PORT = 80, METADATA_MS = 200 };
enum { GUARD_WAIT_MS = 15000, LOCK_WAIT_MS = 3000, LOCK_POLL_MS = 10, JAIL_ID_BASE = 200000 };

static char *text_copy(const char *text)
{
    return text ? alloc_text(text) : NULL;
}

/* A program by the path that was set, else by its name on PATH. */
static char *program_copy(const char *path, const char *name)
{
    return alloc_text(path ? path : name);
}

static void host_free(struct engine_host *host)
{
    while (host->quarantined) {
        struct quarantined *next = host->quarantined->next;
        free(host->quarantined);
        host->quarantined = next;
    }
    auto_close(&host->instances_fd);
    auto_close(&host->lock_fd);
    pthread_mutex_destroy(&host->mutex);
    pthread_cond_destroy(&host->boot_ended);
    free(host->reclaimed);
    free(host->work_dir);
    free(host->runsc_path);
    free(host->runc_path);
    free(host->qemu_path);
    free(host->firecracker_path);
    free(host->jailer_path);
    free(host->guest_dir);
    free(host->dns);
    free(host->blocked_cidrs);
    free(host->allowed_cidrs);
    free(host->slot_dir);
    free(host->user_policy);
    free(host);
}

/* The tag is made once per work directory and lives in the lock file itself. */
static bool tag_read(struct engine_host *host, struct error *err)
{
    unsigned char random[TAG_LEN / 2];
    char text[TAG_LEN + 1] = "";

    if (pread(host->lock_fd, text, TAG_LEN, 0) == TAG_LEN &&
        hex_decode((struct str){text, TAG_LEN}, random, sizeof(random))) {
        memcpy(host->tag, text, sizeof(host->tag));
        return true;
    }
    random_bytes(random, sizeof(random));
    hex_encode((struct str){(const char *)random, sizeof(random)}, host->tag);
    if (pwrite(host->lock_fd, host->tag, TAG_LEN, 0) != TAG_LEN || fsync(host->lock_fd) < 0)
        return error_errno(err, "write the tag of %s", host->work_dir);
    return true;
}

static bool folder_wipe(const char *work_dir, const char *name, struct error *err)
{
    char path[PATH_MAX];
    AUTO_FD int parent = open(work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (parent < 0)
        return error_errno(err, "open %s", work_dir);
    snprintf(path, sizeof(path), "%s/%s", work_dir, name);
    return tree_remove(parent, name, err) && directory_make(path, 0700, err);
}

/* A child that a killed worker had just forked holds its lock until it has run its program. */
static bool lock_wait(const char *path, int *fd, struct error *err)
{
    int64_t deadline = time_boot_ms() + LOCK_WAIT_MS;

    while (!file_lock(path, fd, err)) {
        if (err->code != ERR_CONFLICT || time_boot_ms() >= deadline)
            return false;
        (void)poll(NULL, 0, LOCK_POLL_MS);
    }
    return true;
}

/* What a user unpacked has its owners aside, and root would take them for what they are not. */
static bool is_ours(const struct engine_host *host, struct error *err)
{
    struct stat status;

    if (stat(host->work_dir, &status) != 0)
        return error_errno(err, "look at %s", host->work_dir);
    return status.st_uid == geteuid() ||
           error_set(err, ERR_CONFLICT,
                     "%s belongs to user %u: each has a work directory of its own", host->work_dir,
                     (unsigned)status.st_uid);
}

static bool host_lock(struct engine_host *host, struct error *err)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/instances", host->work_dir);
    if (!directory_make(path, 0700, err))
        return false;
    host->instances_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host->instances_fd < 0)
        return error_errno(err, "open %s", path);
    if (!is_ours(host, err))
        return false;
    snprintf(path, sizeof(path), "%s/lock", host->work_dir);
    if (!lock_wait(path, &host->lock_fd, err))
        return error_wrap(err, "another worker may use this directory");
    return tag_read(host, err) && folder_wipe(host->work_dir, "tmp", err) &&
           folder_wipe(host->work_dir, "staging", err);
}

static bool guard_begin(struct engine_host *host, const char *parent, struct error *err)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s/instances", host->work_dir);
    const char *const groups[] = {"groups", parent, host->tag, NULL};
    const char *const holders[] = {"folder", folder, NULL};
    return guard_start(host->work_dir, host->is_root ? groups : holders, &host->guard, err);
}

static bool reclaim_former(struct engine_host *host, struct error *err)
{
    host->is_reclaiming = true;
    bool ok = reclaim_all(host, err);
    host->is_reclaiming = false;
    return ok;
}

/* What nothing but rules in the kernel could hide for certain must not be there. */
static bool user_network_begin(struct engine_host *host, struct error *err)
{
    if (address_answers(METADATA_ADDRESS, METADATA_PORT, METADATA_MS))
        return error_set(err, ERR_UNSUPPORTED,
                         "169.254.169.254 answers on this host: a worker that is not root does not "
                         "open the network of its guests here");
    host->user_policy = alloc(sizeof(*host->user_policy));
    return policy_init(host->user_policy, host->blocked_cidrs, host->allowed_cidrs, err);
}

static bool networks_begin(struct engine_host *host, const struct engine_settings *settings,
                           struct error *err)
{
    const bool is_enabled = settings->network_enabled;

    if (!host->is_root)
        return !is_enabled || !settings->is_user_network_open || user_network_begin(host, err);
    if (!netns_dir_open(host->run_dir, err))
        return false;
    if (is_enabled)
        return network_pool_create(host, &host->networks, err);
    if (!host->quarantined)
        network_reclaim(host);
    return true;
}

static bool host_start(struct engine_host *host, const struct engine_settings *settings,
                       struct error *err)
{
    const char *parent = settings->cgroup_parent ? settings->cgroup_parent : "helmr";

    if (!host_lock(host, err))
        return false;
    if (host->is_root)
        snprintf(host->run_dir, sizeof(host->run_dir), "/run/helmr/%s", host->tag);
    return guard_wait(host->work_dir, GUARD_WAIT_MS, err) &&
           (!host->is_root || cgroup_tree_open(parent, host->tag, &host->cgroups, err)) &&
           guard_begin(host, parent, err) && reclaim_former(host, err) &&
           service_create(&host->service, err) && networks_begin(host, settings, err);
}

/* Numbers of the whole host need a place that only root has. */
static char *slot_dir_of(const char *work_dir, bool is_root)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/slots", work_dir);
    return alloc_text(is_root ? SLOT_DIR : path);
}

bool engine_host_open(const struct engine_settings *settings, struct engine_host **host,
                      struct error *err)
{
    if (!settings->work_dir || settings->work_dir[0] != '/')
        return error_set(err, ERR_INVALID, "the work directory must be an absolute path");

    struct engine_host *made = alloc(sizeof(*made));
    const bool is_root = geteuid() == 0;
    char reason[256];
    *made = (struct engine_host){
        .work_dir = text_copy(settings->work_dir),
        .runsc_path = program_copy(settings->runsc_path, "runsc"),
        .runc_path = program_copy(settings->runc_path, "runc"),
        .qemu_path = program_copy(settings->qemu_path, QEMU_PROGRAM),
        .firecracker_path = program_copy(settings->firecracker_path, "firecracker"),
        .jailer_path = program_copy(settings->jailer_path, "jailer"),
        .qemu_accel = settings->qemu_accel,
        .guest_dir = text_copy(settings->guest_dir),
        .jail_id_base = settings->jail_id_base ? settings->jail_id_base : JAIL_ID_BASE,
        .dns = text_copy(settings->dns),
        .blocked_cidrs = text_copy(settings->blocked_cidrs),
        .allowed_cidrs = text_copy(settings->allowed_cidrs),
        .is_root = is_root,
        .has_spaces = !is_root && spaces_probe(reason, sizeof(reason)),
        .has_network = settings->network_enabled,
        .slot_dir = slot_dir_of(settings->work_dir, is_root),
        .slots = settings->slots,
        .lock_fd = -1,
        .instances_fd = -1,
        .guard = {.pidfd = -1},
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .boot_ended = PTHREAD_COND_INITIALIZER,
    };
    if (!host_start(made, settings, err)) {
        engine_host_close(made);
        return false;
    }
    *host = made;
    return true;
}

void engine_host_close(struct engine_host *host)
{
    if (!host)
        return;
    network_pool_destroy(host->networks);
    service_destroy(host->service);
    if (!host->quarantined && host->run_dir[0])
        netns_dir_close(host->run_dir);
    process_finish(&host->guard);
    if (!host->quarantined)
        cgroup_tree_close(&host->cgroups);
    host_free(host);
}

const struct reclaimed *engine_host_reclaimed(const struct engine_host *host, size_t *n)
{
    *n = host->n_reclaimed;
    return host->reclaimed;
}

static int quarantined_count(const struct engine_host *host)
{
    int n = 0;

    for (const struct quarantined *at = host->quarantined; at; at = at->next)
        n++;
    return n;
}

int engine_host_free_slots(struct engine_host *host)
{
    pthread_mutex_lock(&host->mutex);
    int free_slots = host->slots - host->n_running - quarantined_count(host);
    pthread_mutex_unlock(&host->mutex);
    return free_slots > 0 ? free_slots : 0;
}

size_t engine_host_quarantined(struct engine_host *host, struct reclaimed *list, size_t max)
{
    size_t n = 0;

    pthread_mutex_lock(&host->mutex);
    for (const struct quarantined *at = host->quarantined; at; at = at->next, n++) {
        if (n < max)
            list[n] = at->about;
    }
    pthread_mutex_unlock(&host->mutex);
    return n;
}

bool engine_host_is_root(const struct engine_host *host)
{
    return host->is_root;
}

bool engine_host_has_spaces(const struct engine_host *host)
{
    return host->has_spaces;
}

const char *engine_host_tag(const struct engine_host *host)
{
    return host->tag;
}

bool engine_host_network_preflight(struct engine_host *host, struct error *err)
{
    if (!host->is_root)
        return true; /* QEMU's own, which makes nothing on the host */
    if (!host->networks)
        return error_set(err, ERR_UNSUPPORTED, "the network is off on this worker");
    return network_preflight(host->networks, err);
}

void engine_host_tick(struct engine_host *host)
{
    reclaim_retry(host);
    network_pool_tick(host->networks);
}

bool host_reserve(struct engine_host *host, struct error *err)
{
    pthread_mutex_lock(&host->mutex);
    bool is_free = host->n_running + quarantined_count(host) < host->slots;
    host->n_running += is_free;
    pthread_mutex_unlock(&host->mutex);
    return is_free || error_set(err, ERR_UNAVAILABLE, "all %d slots are in use", host->slots);
}

void host_unreserve(struct engine_host *host)
{
    pthread_mutex_lock(&host->mutex);
    host->n_running--;
    pthread_mutex_unlock(&host->mutex);
}

void host_quarantine(struct engine_host *host, const struct reclaimed *about)
{
    struct quarantined *added = alloc(sizeof(*added));

    log_error("instance quarantined", LOG_STR("instance", about->instance_id),
              LOG_STR("why", about->detail));
    pthread_mutex_lock(&host->mutex);
    *added = (struct quarantined){.about = *about, .next = host->quarantined};
    host->quarantined = added;
    pthread_mutex_unlock(&host->mutex);
}
