#include "engine/firecracker/jailer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/jail.h"
#include "engine/mount.h"

enum { CPU_PERIOD_US = 100000, PID_FILE_MAX = 16 };

static void add(struct jailer_line *line, const char *arg)
{
    line->args[line->n++] = arg;
    line->args[line->n] = NULL;
}

static void add_two(struct jailer_line *line, const char *name, const char *value)
{
    add(line, name);
    add(line, value);
}

static unsigned controllers_of(const struct cgroup_tree *tree, bool is_unified)
{
    unsigned bits = 0;

    for (size_t i = 0; i < tree->n; i++) {
        if (tree->hierarchies[i].is_unified == is_unified)
            bits |= tree->hierarchies[i].controllers;
    }
    return bits;
}

/* The instance's own groups have these limits already and more: the jailer names the same groups
 * and only writes again what it knows how to. It knows one version at a time, no file of three
 * words, and with version 1 it first writes the parent's value, which for memory the limit on
 * swap does not allow. */
static void add_limits(struct jailer_line *line, const struct jailer_plan *plan)
{
    unsigned unified = controllers_of(plan->cgroups, true);
    unsigned old = controllers_of(plan->cgroups, false);
    bool is_unified = (unified & (CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS)) != 0;
    unsigned there = is_unified ? unified : old & ~(unsigned)CGROUP_MEMORY;
    long long quota = (long long)plan->limits->cpu_percent * CPU_PERIOD_US / 100;

    add_two(line, "--cgroup-version", is_unified ? "2" : "1");
    add_two(line, "--parent-cgroup", plan->cgroups->root);
    if (there & CGROUP_MEMORY) {
        snprintf(line->limits[0], JAILER_TEXT_MAX, "memory.max=%lld",
                 (long long)plan->limits->memory_bytes);
        add_two(line, "--cgroup", line->limits[0]);
    }
    if (there & CGROUP_CPU) {
        if (is_unified)
            snprintf(line->limits[1], JAILER_TEXT_MAX, "cpu.max=%lld %d", quota, CPU_PERIOD_US);
        else
            snprintf(line->limits[1], JAILER_TEXT_MAX, "cpu.cfs_quota_us=%lld", quota);
        add_two(line, "--cgroup", line->limits[1]);
    }
    if (there & CGROUP_PIDS) {
        snprintf(line->limits[2], JAILER_TEXT_MAX, "pids.max=%d", plan->limits->processes);
        add_two(line, "--cgroup", line->limits[2]);
    }
}

void jailer_line_make(const struct jailer_plan *plan, struct jailer_line *line)
{
    *line = (struct jailer_line){0};
    snprintf(line->user, sizeof(line->user), "%u", plan->user);
    add(line, plan->jailer);
    add_two(line, "--id", plan->id);
    add_two(line, "--exec-file", plan->binary);
    add_two(line, "--uid", line->user);
    add_two(line, "--gid", line->user);
    add_limits(line, plan);
    add_two(line, "--chroot-base-dir", plan->base);
    if (plan->netns)
        add_two(line, "--netns", plan->netns);
    add_two(line, "--resource-limit", "no-file=1024");
    add(line, "--new-pid-ns");
    add(line, "--");
    add_two(line, "--api-sock", "/" JAILER_API_SOCKET);
    add_two(line, "--log-path", "/" JAILER_LOG);
    add_two(line, "--level", "Warning");
}

/* What the child needs, all of it made before the fork. */
struct child {
    const struct files *files;
    struct jail jail;
    bool has_netns;
};

static bool child_prepare(void *arg, struct error *err)
{
    const struct child *child = arg;
    const struct rlimit no_core = {0};

    if (!jail_join(&child->jail, err))
        return false;
    (void)setrlimit(RLIMIT_CORE, &no_core);

    /* What the jailer leaves as it is. A machine without a network has no need to see the host's
     * either. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        unshare(CLONE_NEWIPC | CLONE_NEWUTS | (child->has_netns ? 0 : CLONE_NEWNET)) < 0)
        return error_errno(err, "new namespaces");
    return mount_isolate(err) && files_place(child->files, err);
}

static bool jailer_start(struct instance *instance, const struct jailer_line *line,
                         const struct files *files, int log, bool has_netns, struct error *err)
{
    struct child child = {.files = files, .has_netns = has_netns};
    const struct process_spec spec = {
        .argv = line->args,
        .cwd = "/",
        .fds = {{log, STDOUT_FILENO}, {log, STDERR_FILENO}},
        .n_fds = 2,
        .new_session = true,
        .prepare = child_prepare,
        .prepare_arg = &child,
    };

    bool ok = jail_open(&child.jail, &instance->host->cgroups, instance->launch_group,
                        instance_user(instance), err) &&
              process_start(&spec, &instance->process, err);
    jail_close(&child.jail);
    return ok;
}

/* Whether the process, which is held, is one of the instance's cgroup. */
static bool is_ours(const struct instance *instance, pid_t pid)
{
    char path[64], wanted[CGROUP_PATH_MAX + 32];
    AUTO_FREE char *groups = NULL;
    struct error ignored;

    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    snprintf(wanted, sizeof(wanted), "/%s/%s\n", instance->host->cgroups.root,
             id_short(instance->record.id));
    return file_read(path, 16384, &groups, &ignored) && strstr(groups, wanted);
}

static bool number_read(int fd, pid_t *pid, struct error *err)
{
    AUTO_FREE char *text = NULL;
    char *end;

    if (!fd_read_all(fd, "the jailer's note", PID_FILE_MAX, &text, err))
        return false;
    long number = strtol(text, &end, 10);
    if (end == text || (*end != '\0' && *end != '\n') || number <= 1 || number > 1 << 22)
        return error_set(err, ERR_INVALID, "the jailer left no number of a process");
    *pid = (pid_t)number;
    return true;
}

/* Holds what the jailer left behind. */
static bool process_adopt(struct instance *instance, const struct files *files, const char *program,
                          struct error *err)
{
    char name[NAME_MAX + 8];
    AUTO_FD int note = -1;
    pid_t pid;

    snprintf(name, sizeof(name), "%s.pid", program);
    if (!files_read_open(files->root, name, &note, err) || !number_read(note, &pid, err))
        return false;

    AUTO_FD int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 || !is_ours(instance, pid))
        return error_set(err, ERR_UNAVAILABLE, "Firecracker ended at once");
    instance->process = (struct process){.pid = pid, .pidfd = take_fd(&pidfd)};
    return true;
}

bool jailer_run(struct instance *instance, const struct jailer_plan *plan, struct files *files,
                int64_t deadline_ms, struct error *err)
{
    struct jailer_line line;
    AUTO_FD int reader = -1, writer = -1;
    int status;

    jailer_line_make(plan, &line);
    if (!files_make_pipe(files, JAILER_LOG, &reader, &writer, err))
        return false;
    if (!ring_create(instance->host->service, take_fd(&reader), &instance->log, err) ||
        !jailer_start(instance, &line, files, writer, plan->netns != NULL, err))
        return false;

    int64_t left = deadline_ms - time_boot_ms();
    if (!process_wait(&instance->process, left > 0 ? (int)left : 0, &status, err))
        return error_wrap(err, "jailer");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_set(err, ERR_UNAVAILABLE, "the jailer ended with status %d", status);
    return process_adopt(instance, files, strrchr(plan->binary, '/') + 1, err);
}
