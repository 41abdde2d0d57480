#include "guest/group.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"

#define ROOT     "/sys/fs/cgroup"
#define PROGRAMS ROOT "/programs"

enum {
    AGENT_BYTES = 48 << 20, /* so that a program is killed before the agent */
    PROCESSES_MAX = 16384,
    PROCESSES_SPARE = 128, /* of the kernel's own limit */
    GROUP_PATH_MAX = 256,
    RUN_PATH_MAX = 96,
    EVENTS_MAX = 4096
};

static bool write_file(const char *folder, const char *name, const char *text, struct error *err)
{
    char path[GROUP_PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "open %s", path);
    return fd_write_all(fd, str_of(text), err) || error_wrap(err, "%s", path);
}

static bool write_number(const char *folder, const char *name, uint64_t number, struct error *err)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return write_file(folder, name, text, err);
}

static bool make_folder(const char *path, struct error *err)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST || error_errno(err, "making %s", path);
}

/* A small machine has fewer processes than we would allow, and the agent needs some of them. */
static uint64_t processes_max(void)
{
    AUTO_FREE char *text = NULL;
    struct error ignored;

    if (!file_read("/proc/sys/kernel/threads-max", 64, &text, &ignored))
        return PROCESSES_MAX;
    uint64_t limit = strtoull(text, NULL, 10);
    if (limit <= 2ull * PROCESSES_SPARE)
        return PROCESSES_SPARE;
    return limit - PROCESSES_SPARE < PROCESSES_MAX ? limit - PROCESSES_SPARE : PROCESSES_MAX;
}

static uint64_t memory_max(void)
{
    struct sysinfo memory;

    if (sysinfo(&memory) != 0)
        return AGENT_BYTES;
    uint64_t total = (uint64_t)memory.totalram * memory.mem_unit;
    return total > 2 * (uint64_t)AGENT_BYTES ? total - AGENT_BYTES : total / 2;
}

bool groups_begin(struct error *err)
{
    return write_file(ROOT, "cgroup.subtree_control", "+memory +pids", err) &&
           make_folder(PROGRAMS, err) &&
           write_file(PROGRAMS, "cgroup.subtree_control", "+memory", err) &&
           write_number(PROGRAMS, "memory.max", memory_max(), err) &&
           write_number(PROGRAMS, "pids.max", processes_max(), err);
}

static bool open_file(const char *folder, const char *name, int flags, int *fd, struct error *err)
{
    char path[GROUP_PATH_MAX + 32]; /* and a file of the group */

    snprintf(path, sizeof path, "%s/%s", folder, name);
    *fd = open(path, flags | O_CLOEXEC);
    return *fd >= 0 || error_errno(err, "open %s", path);
}

bool group_make(struct group *group, uint32_t program, struct error *err)
{
    char run[RUN_PATH_MAX];

    *group = (struct group)GROUP_NONE;
    snprintf(group->path, sizeof group->path, PROGRAMS "/p%u", program);
    snprintf(run, sizeof run, "%s/run", group->path);
    return make_folder(group->path, err) && make_folder(run, err) &&
           open_file(group->path, "cgroup.procs", O_WRONLY, &group->init_fd, err) &&
           open_file(run, "cgroup.procs", O_WRONLY, &group->run_fd, err) &&
           open_file(run, "cgroup.freeze", O_WRONLY, &group->freeze_fd, err) &&
           open_file(run, "cgroup.events", O_RDONLY, &group->events_fd, err);
}

void group_remove(struct group *group)
{
    char run[RUN_PATH_MAX];

    auto_close(&group->init_fd);
    auto_close(&group->run_fd);
    auto_close(&group->freeze_fd);
    auto_close(&group->events_fd);
    if (group->path[0]) {
        snprintf(run, sizeof run, "%s/run", group->path);
        (void)!rmdir(run);
        (void)!rmdir(group->path);
    }
    *group = (struct group)GROUP_NONE;
}

uint64_t group_starved(const struct group *group)
{
    char path[GROUP_PATH_MAX];
    AUTO_FREE char *text = NULL;
    struct error ignored;

    if (!group->path[0])
        return 0;
    snprintf(path, sizeof path, "%s/memory.events", group->path);
    if (!file_read(path, EVENTS_MAX, &text, &ignored))
        return 0;
    const char *count = strstr(text, "oom_kill ");
    return count ? strtoull(count + strlen("oom_kill "), NULL, 10) : 0;
}

bool group_join(int fd)
{
    return fd < 0 || write(fd, "0", 1) == 1;
}

bool group_enter(int fd)
{
    AUTO_FD int score = -1;

    if (fd < 0)
        return true;
    score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    return score >= 0 && write(score, "0", 1) == 1 && group_join(fd) &&
           unshare(CLONE_NEWCGROUP) == 0;
}
