/* This worker's hold on the host: its tag, slots, network and the journal of every
 * kernel resource it made.
 *
 * engine_host_open takes the work directory's lock and reclaims whatever a dead
 * predecessor left, by journal, never by guessing; what it cannot prove clean is
 * quarantined and subtracted from the slots.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"

struct engine_host;

/* How QEMU runs guests: by hardware, by translating every instruction, or whichever works. */
enum qemu_accel { QEMU_ACCEL_AUTO, QEMU_ACCEL_KVM, QEMU_ACCEL_TCG };

struct engine_settings {
    const char *work_dir;                                   /* <data dir>/worker */
    const char *cgroup_parent;                              /* "helmr" */
    int slots;                                              /* execution + build */
    const char *runsc_path, *runc_path;                     /* NULL: found on PATH */
    const char *qemu_path, *firecracker_path, *jailer_path; /* NULL: found on PATH */
    enum qemu_accel qemu_accel;
    const char *guest_dir; /* what microVMs boot (guest_files.h); NULL: beside this program */
    int jail_id_base;      /* a microVM of slot n runs as user and group base + n; 0: 200000 */
    bool network_enabled;
    bool is_user_network_open; /* of a worker that is not root: else guests reach nothing */
    const char *dns;           /* upstream servers, comma separated; NULL: the host's resolvers */
    const char *blocked_cidrs; /* comma separated; NULL: the default list */
    const char *allowed_cidrs;
};

struct reclaimed {
    char instance_id[ID_TEXT];
    char lease_id[ID_TEXT]; /* or empty */
    bool gone;              /* else quarantined */
    char detail[256];
};

bool engine_host_open(const struct engine_settings *settings, struct engine_host **host,
                      struct error *err) MUST_USE;

/* Every instance must have been destroyed. Stops DNS, removes the root table, releases the lock. */
void engine_host_close(struct engine_host *host);

/* What start-up reclaimed; valid until close. */
const struct reclaimed *engine_host_reclaimed(const struct engine_host *host, size_t *n);

int engine_host_free_slots(struct engine_host *host);
size_t engine_host_quarantined(struct engine_host *host, struct reclaimed *list, size_t max);
const char *engine_host_tag(const struct engine_host *host);

/* Whether this worker is root: then it has control groups, networks and users for its sandboxes,
 * and may use every engine. */
bool engine_host_is_root(const struct engine_host *host);
/* Whether a worker that is not root has namespaces round its machines. */
bool engine_host_has_spaces(const struct engine_host *host);

/* One full life cycle of a network namespace, with its rules and a DNS round trip. */
bool engine_host_network_preflight(struct engine_host *host, struct error *err) MUST_USE;

/* Periodic work: retries quarantined instances, refills the namespace pool, checks rules. */
void engine_host_tick(struct engine_host *host);
