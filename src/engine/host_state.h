/* Inside of struct engine_host, for the files of this folder only.
 *
 * `mutex` guards the counters and lists; it is never held across a wait.
 */
#pragma once

#include <limits.h>
#include <pthread.h>

#include "base/process.h"
#include "engine/cgroup.h"
#include "engine/host.h"
#include "engine/service.h"

enum { TAG_LEN = 8, RUN_DIR_ROOM = 64, RECLAIMED_MAX = 4096 };

struct network_pool;
struct policy;

struct quarantined {
    struct reclaimed about;
    struct quarantined *next;
};

struct engine_host {
    char *work_dir;
    char *runsc_path, *runc_path;
    char *qemu_path, *firecracker_path, *jailer_path;
    enum qemu_accel qemu_accel;
    char *guest_dir; /* NULL: beside this program */
    int jail_id_base;
    char *dns, *blocked_cidrs, *allowed_cidrs;
    bool is_root;               /* else: no control groups, no networks, no other users */
    bool has_spaces;            /* of a user: namespaces round its machines */
    struct policy *user_policy; /* of a user: what machines may reach; NULL: nothing */
    bool has_network;           /* machines have one, if they are to */
    bool is_reclaiming;         /* a dead predecessor's; nothing is started meanwhile */
    char *slot_dir;
    char tag[TAG_LEN + 1];
    char run_dir[RUN_DIR_ROOM]; /* /run/helmr/<tag>: network namespaces */
    int slots;
    int lock_fd, instances_fd;
    struct cgroup_tree cgroups;
    struct process guard;
    struct service *service;
    struct network_pool *networks; /* NULL: no network on this worker */

    pthread_mutex_t mutex;
    int n_running;
    struct quarantined *quarantined;
    int64_t retried_ms;
    const char *gvisor_platform; /* NULL: not asked yet */
    bool qemu_is_accelerated;    /* a guest ran with KVM, or nothing else is wanted */
    int n_booting;               /* machines that have not said hello yet */
    pthread_cond_t boot_ended;
    int firecracker_changes; /* enum snapshot_changes: whether it names all of them */

    struct reclaimed *reclaimed;
    size_t n_reclaimed;
};

/* Capacity for one more sandbox, or ERR_UNAVAILABLE. */
bool host_reserve(struct engine_host *host, struct error *err) MUST_USE;
void host_unreserve(struct engine_host *host);

void host_quarantine(struct engine_host *host, const struct reclaimed *about);
