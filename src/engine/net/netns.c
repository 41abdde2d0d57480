#include "engine/net/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "engine/mount.h"

bool netns_dir_open(const char *run_dir, struct error *err)
{
    bool is_there;

    if (!directory_make(run_dir, 0700, err) || !mount_is_below(run_dir, &is_there, err))
        return false;
    if (is_there)
        return true; /* kept for what is quarantined */
    if (mount("tmpfs", run_dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64k,mode=700") < 0)
        return error_errno(err, "mount %s", run_dir);
    return mount(NULL, run_dir, NULL, MS_SHARED, NULL) == 0 ||
           error_errno(err, "share %s", run_dir);
}

void netns_dir_close(const char *run_dir)
{
    struct error err = {0};

    if (!mount_remove_below(run_dir, &err))
        log_warn("network namespaces stay bound", LOG_STR("path", run_dir), LOG_ERR(&err));
    (void)rmdir(run_dir);
}

static int netns_current(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

static bool netns_return(int home, struct error *err)
{
    /* A thread that cannot go home would do everything else in the wrong place. */
    if (setns(home, CLONE_NEWNET) < 0)
        abort();
    (void)err;
    return true;
}

static bool netns_bind(const char *path, int *fd, char identity[NETNS_IDENTITY_TEXT],
                       struct error *err)
{
    struct stat status;
    AUTO_FD int file = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);

    if (file < 0)
        return error_errno(err, "create %s", path);
    if (mount("/proc/thread-self/ns/net", path, NULL, MS_BIND, NULL) < 0)
        return error_errno(err, "bind a network namespace to %s", path);

    AUTO_FD int opened = netns_current();
    if (opened < 0 || fstat(opened, &status) < 0)
        return error_errno(err, "open the network namespace at %s", path);
    snprintf(identity, NETNS_IDENTITY_TEXT, "%llu", (unsigned long long)status.st_ino);
    *fd = take_fd(&opened);
    return true;
}

bool netns_make(const char *path, int *fd, char identity[NETNS_IDENTITY_TEXT], struct error *err)
{
    AUTO_FD int home = netns_current();

    if (home < 0)
        return error_errno(err, "open this network namespace");
    if (unshare(CLONE_NEWNET) < 0)
        return error_errno(err, "new network namespace");

    bool ok = netns_bind(path, fd, identity, err);
    return netns_return(home, err) && ok;
}

bool netns_run(int fd, bool (*function)(void *arg, struct error *err), void *arg, struct error *err)
{
    AUTO_FD int home = netns_current();

    if (home < 0)
        return error_errno(err, "open this network namespace");
    if (setns(fd, CLONE_NEWNET) < 0)
        return error_errno(err, "enter a network namespace");

    bool ok = function(arg, err);
    return netns_return(home, err) && ok;
}

bool netns_remove(const char *path, struct error *err)
{
    /* EINVAL: it was created but never bound. */
    while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
        continue;
    if (errno != EINVAL && errno != ENOENT)
        return error_errno(err, "unbind %s", path);
    return unlink(path) == 0 || errno == ENOENT || error_errno(err, "remove %s", path);
}

void netns_remove_strays(const char *run_dir)
{
    struct error err = {0};

    if (!mount_remove_below(run_dir, &err))
        log_error("a stray network namespace stays", LOG_ERR(&err));
    (void)rmdir(run_dir);
}

bool sysctl_write(const char *path, const char *value, struct error *err)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof(whole), "/proc/sys/%s", path);
    AUTO_FD int fd = open(whole, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "open %s", whole);
    return write(fd, value, strlen(value)) > 0 || error_errno(err, "write %s to %s", value, whole);
}
