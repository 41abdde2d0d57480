#include "engine/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/own.h"
#include "engine/spaces.h"

/* Covered by the jail's root in its own mount namespace, so that no folder has to be made. */
#define STAGE "/run"

enum { HIGH_FD = 64, FILES_MAX = 1024 };

/* All of them above those that a child is given. */
static bool descriptors_raise(struct jail *jail, struct error *err)
{
    for (size_t i = 0; i <= jail->n_procs; i++) {
        int *fd = i < jail->n_procs ? &jail->procs[i] : &jail->worker;
        int high = fcntl(*fd, F_DUPFD_CLOEXEC, HIGH_FD);
        if (high < 0)
            return error_errno(err, "move a descriptor");
        close(*fd);
        *fd = high;
    }
    return true;
}

static bool worker_hold(struct jail *jail, struct error *err)
{
    jail->worker = (int)syscall(SYS_pidfd_open, getpid(), 0);
    return jail->worker >= 0 || error_errno(err, "hold this process");
}

bool jail_open(struct jail *jail, const struct cgroup_tree *tree, const char *group, unsigned user,
               struct error *err)
{
    *jail = (struct jail){.n_procs = tree->n, .user = user, .worker = -1};
    for (size_t i = 0; i < CGROUP_HIERARCHIES_MAX; i++)
        jail->procs[i] = -1;
    return cgroup_open_procs(tree, group, jail->procs, err) && worker_hold(jail, err) &&
           descriptors_raise(jail, err);
}

bool jail_open_user(struct jail *jail, bool has_spaces, struct error *err)
{
    *jail = (struct jail){.user = geteuid(),
                          .group = getegid(),
                          .worker = -1,
                          .has_spaces = has_spaces};
    return worker_hold(jail, err) && descriptors_raise(jail, err);
}

void jail_close(struct jail *jail)
{
    for (size_t i = 0; i < jail->n_procs; i++)
        auto_close(&jail->procs[i]);
    auto_close(&jail->worker);
    *jail = (struct jail){.worker = -1};
}

/* From here on: between fork and exec. */

bool jail_join(const struct jail *jail, struct error *err)
{
    struct pollfd worker = {.fd = jail->worker, .events = POLLIN};

    for (size_t i = 0; i < jail->n_procs; i++) {
        if (write(jail->procs[i], "0", 1) != 1)
            return error_errno(err, "join the cgroup");
    }

    /* From here on the guard finds this process; before, it might have looked in vain. */
    return poll(&worker, 1, 0) == 0 || error_set(err, ERR_CANCELLED, "the worker is gone");
}

static bool node_bind(const char *source, const char *target, struct error *err)
{
    AUTO_FD int file = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);

    if (file < 0)
        return error_errno(err, "make %s of the jail", target);
    return mount(source, target, NULL, MS_BIND, NULL) == 0 ||
           error_errno(err, "show %s to the jail", source);
}

/* /lib is a link on one system and a folder on another; it is here what it is there. */
static bool system_folder(const char *name, struct error *err)
{
    const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
    char source[32], target[64], link[PATH_MAX];

    snprintf(source, sizeof(source), "/%s", name);
    snprintf(target, sizeof(target), STAGE "/%s", name);
    ssize_t len = readlink(source, link, sizeof(link) - 1);
    if (len >= 0) {
        link[len] = '\0';
        return symlink(link, target) == 0 || error_errno(err, "link %s of the jail", name);
    }
    if (access(source, F_OK) != 0)
        return true;
    if (mkdir(target, 0755) < 0 || mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0 ||
        mount(NULL, target, NULL, flags, NULL) < 0)
        return error_errno(err, "show /%s to the jail", name);
    return true;
}

static bool resolver_write(const char *text, struct error *err)
{
    if (mkdir(STAGE "/etc", 0755) < 0)
        return error_errno(err, "make the folders of the jail");
    AUTO_FD int file = open(STAGE "/etc/resolv.conf", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    const size_t len = strlen(text);
    return (file >= 0 && write(file, text, len) == (ssize_t)len) ||
           error_errno(err, "name the resolvers to the jail");
}

static bool root_fill(const struct jail *jail, struct error *err)
{
    static const char *const folders[] = {"usr", "lib", "lib64"};

    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        if (!system_folder(folders[i], err))
            return false;
    }
    if (jail->keeps_network && !resolver_write(jail->resolver, err))
        return false;
    if (mkdir(STAGE "/dev", 0755) < 0 || mkdir(STAGE "/proc", 0755) < 0)
        return error_errno(err, "make the folders of the jail");
    if (!node_bind("/dev/null", STAGE "/dev/null", err) ||
        !node_bind("/dev/urandom", STAGE "/dev/urandom", err) ||
        (jail->is_accelerated && !node_bind("/dev/kvm", STAGE "/dev/kvm", err)))
        return false;
    return mount("proc", STAGE "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid") ==
               0 ||
           error_errno(err, "mount the jail's /proc");
}

static bool root_enter(const struct jail *jail, struct error *err)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_errno(err, "detach from the host's mounts");
    if (mount("tmpfs", STAGE, "tmpfs", flags, "size=64k,mode=755") < 0)
        return error_errno(err, "mount the jail's root");
    if (!root_fill(jail, err))
        return false;
    if (mount(NULL, STAGE, NULL, MS_REMOUNT | MS_RDONLY | flags, "size=64k,mode=755") < 0)
        return error_errno(err, "close the jail's root");
    if (chdir(STAGE) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return error_errno(err, "enter the jail's root");
    return true;
}

/* What hardware needs is given by the group that the device belongs to, and to nobody else. */
static bool groups_set(const struct jail *jail, gid_t hardware, struct error *err)
{
    return syscall(SYS_setgroups, jail->is_accelerated ? 1 : 0, &hardware) == 0 ||
           error_errno(err, "leave every group");
}

static bool limits_set(struct error *err)
{
    const struct rlimit files = {FILES_MAX, FILES_MAX}, none = {0};

    return (setrlimit(RLIMIT_NOFILE, &files) == 0 && setrlimit(RLIMIT_CORE, &none) == 0) ||
           error_errno(err, "limit the jail");
}

static bool capabilities_drop(struct error *err)
{
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
            return error_errno(err, "drop capability %d", cap);
    }
    return true;
}

static bool power_drop(const struct jail *jail, gid_t hardware, struct error *err)
{
    if (!limits_set(err) || !capabilities_drop(err) || !groups_set(jail, hardware, err))
        return false;

    /* The library's functions would ask every thread of the worker to change too, and wait. */
    if (syscall(SYS_setresgid, jail->user, jail->user, jail->user) < 0 ||
        syscall(SYS_setresuid, jail->user, jail->user, jail->user) < 0)
        return error_errno(err, "become user %u", jail->user);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ||
           error_errno(err, "give up new privileges");
}

bool jail_enter(void *arg, struct error *err)
{
    const struct jail *jail = arg;
    struct stat device = {0};

    if (jail->is_accelerated && stat("/dev/kvm", &device) < 0)
        return error_errno(err, "look at /dev/kvm");
    if (!jail_join(jail, err))
        return false;
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET) < 0)
        return error_errno(err, "new namespaces");
    if (sethostname("helmr-jail", 10) < 0)
        return error_errno(err, "name the jail");

    /* Large pages would give every machine memory that it never asked for. */
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    return root_enter(jail, err) && power_drop(jail, device.st_gid, err);
}

/* Its user is the worker's own inside too, so that the program it becomes has no capability. */
static bool spaces_enter(const struct jail *jail, struct error *err)
{
    const int spaces =
        CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | (jail->keeps_network ? 0 : CLONE_NEWNET);

    if (!spaces_map(jail->user, jail->group, err))
        return false;
    if (unshare(spaces) < 0)
        return error_errno(err, "new namespaces");
    if (sethostname("helmr-jail", 10) < 0)
        return error_errno(err, "name the jail");
    return root_enter(jail, err) && capabilities_drop(err);
}

bool jail_enter_user(void *arg, struct error *err)
{
    const struct jail *jail = arg;

    if (!jail_join(jail, err) || (jail->has_spaces && !spaces_enter(jail, err)))
        return false;
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (!limits_set(err))
        return false;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ||
           error_errno(err, "give up new privileges");
}
