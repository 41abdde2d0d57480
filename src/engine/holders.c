#include "engine/holders.h"

#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/time.h"

enum { LOOKS = 2, PAUSE_MS = 5 };

static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);

    return strncmp(path, folder, len) == 0 && path[len] == '/';
}

/* Descriptors of another user's process cannot be listed: that is none of ours. */
static bool holds(const char *pid, const char *folder)
{
    char fds[64], path[PATH_MAX + 64], target[PATH_MAX];
    bool is_holder = false;

    snprintf(fds, sizeof(fds), "/proc/%.16s/fd", pid);
    DIR *list = opendir(fds);
    for (struct dirent *entry; list && !is_holder && (entry = readdir(list));) {
        snprintf(path, sizeof(path), "%s/%s", fds, entry->d_name);
        ssize_t len = readlink(path, target, sizeof(target) - 1);
        if (len < 0)
            continue;
        target[len] = '\0';
        is_holder = is_below(target, folder);
    }
    if (list)
        closedir(list);
    return is_holder;
}

/* Held before it is looked at, so that no other process can take its number in between. */
static bool kill_if_holder(const char *pid, const char *folder)
{
    AUTO_FD int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)strtol(pid, NULL, 10), 0);

    if (pidfd < 0 || !holds(pid, folder))
        return false;
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    return true;
}

static bool any_killed(const char *folder, struct error *err, bool *ok)
{
    DIR *processes = opendir("/proc");
    char self[16];
    bool any = false;

    *ok = processes || error_errno(err, "list the processes");
    snprintf(self, sizeof(self), "%d", (int)getpid());
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        bool is_process = entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
        if (is_process && strcmp(entry->d_name, self) != 0)
            any = kill_if_holder(entry->d_name, folder) || any;
    }
    if (processes)
        closedir(processes);
    return any;
}

bool holders_kill(const char *folder, int timeout_ms, struct error *err)
{
    int64_t deadline = time_boot_ms() + timeout_ms;

    for (int quiet = 0; quiet < LOOKS;) {
        bool ok, any = any_killed(folder, err, &ok);
        if (!ok)
            return false;
        quiet = any ? 0 : quiet + 1;
        if (any && time_boot_ms() >= deadline)
            return error_set(err, ERR_TIMEOUT, "processes that use %s survive SIGKILL", folder);
        if (any)
            (void)poll(NULL, 0, PAUSE_MS);
    }
    return true;
}
