/* What the process of a machine can see and do, should its guest get out: next to nothing.
 *
 * It has cgroups, pids, mounts, names and a network of its own, the user and group of its slot, no
 * capability and no way to get one. Of the host's files it sees the system's programs and
 * libraries, which it cannot change; whatever else it uses it has inherited as a descriptor.
 *
 * A worker that is not root can give it neither cgroups nor another user. Where the kernel lets
 * users make namespaces it has all the others; else only limits and no way to more rights.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/cgroup.h"

struct jail {
    int procs[CGROUP_HIERARCHIES_MAX]; /* to join */
    size_t n_procs;
    int worker;          /* a pidfd: if it has died meanwhile, nothing is started */
    unsigned user;       /* and group */
    bool is_accelerated; /* gets /dev/kvm */

    /* Of a worker that is not root: the user and group are its own. */
    unsigned group;
    bool has_spaces;      /* namespaces of that user */
    bool keeps_network;   /* the host's, for a guest that may use it */
    const char *resolver; /* then: what /etc/resolv.conf says */
};

/* Makes the descriptors, all of them above those that a child is given. */
bool jail_open(struct jail *jail, const struct cgroup_tree *tree, const char *group, unsigned user,
               struct error *err) MUST_USE;
void jail_close(struct jail *jail);

/* Between fork and exec: only the cgroups, for who is jailed by another program afterwards. */
bool jail_join(const struct jail *jail, struct error *err) MUST_USE;

/* The same for a worker that is not root. */
bool jail_open_user(struct jail *jail, bool has_spaces, struct error *err) MUST_USE;

/* For process_spec.prepare, with .new_pids set. */
bool jail_enter(void *jail, struct error *err) MUST_USE;
/* The same of a user; with .new_pids and .new_user set where it has spaces. */
bool jail_enter_user(void *jail, struct error *err) MUST_USE;
