#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/own.h"
#include "base/time.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

enum { EXEC_FAILED = 127 };

extern char **environ;

/* From here to the exec: only what is safe between fork and exec of a program with threads. */

static void reset_signals(void)
{
    /* The kernel's own form (handler, flags, restorer, mask): libc leaves out the numbers it keeps
     * for itself, which a parent made by posix_spawn has ignored. */
    const unsigned long fresh[4] = {0};
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, fresh, NULL, sizeof(uint64_t));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int highest_target(const struct process_spec *spec)
{
    int highest = STDERR_FILENO;

    for (size_t i = 0; i < spec->n_fds; i++) {
        if (spec->fds[i].theirs > highest)
            highest = spec->fds[i].theirs;
    }
    return highest;
}

/* All sources go above every target first, so that no dup2 destroys one still needed. */
static bool place_fds(const struct process_spec *spec, int *report, struct error *err)
{
    int above = highest_target(spec) + 1, moved[PROCESS_FDS_MAX];

    *report = fcntl(*report, F_DUPFD_CLOEXEC, above);
    for (size_t i = 0; i < spec->n_fds; i++) {
        moved[i] = fcntl(spec->fds[i].ours, F_DUPFD_CLOEXEC, above);
        if (moved[i] < 0)
            return error_errno(err, "descriptor %d", spec->fds[i].ours);
    }
    for (int standard = 0; standard <= STDERR_FILENO; standard++)
        close(standard);
    for (int standard = 0; standard <= STDERR_FILENO; standard++) {
        if (open("/dev/null", O_RDWR) != standard)
            return error_errno(err, "open /dev/null");
    }
    syscall(SYS_close_range, STDERR_FILENO + 1, INT_MAX, CLOSE_RANGE_CLOEXEC);
    for (size_t i = 0; i < spec->n_fds; i++) {
        if (dup2(moved[i], spec->fds[i].theirs) < 0)
            return error_errno(err, "descriptor %d", spec->fds[i].theirs);
    }
    return true;
}

static bool tie_to_parent(pid_t parent, struct error *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_errno(err, "tie to the parent");

    /* It may have died before the call. */
    if (getppid() != parent)
        _exit(EXEC_FAILED);
    return true;
}

static const char *path_of(char *const *env)
{
    for (; env && *env; env++) {
        if (!strncmp(*env, "PATH=", 5))
            return *env + 5;
    }
    return NULL;
}

/* Like execvpe, but by the PATH the program will have, and without allocating. */
static void exec_on_path(char *const *argv, char *const *env)
{
    const char *path = path_of(env);
    int worst = ENOENT;

    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, env);
        return;
    }
    if (!path)
        path = path_of(environ);

    struct str rest = str_of(path ? path : "/usr/local/bin:/usr/bin:/bin"), folder;

    while (str_split(&rest, ':', &folder)) {
        char candidate[PATH_MAX];

        if (folder.len + strlen(argv[0]) + 2 > sizeof candidate || !folder.len)
            continue;
        memcpy(candidate, folder.ptr, folder.len);
        candidate[folder.len] = '/';
        memcpy(candidate + folder.len + 1, argv[0], strlen(argv[0]) + 1);
        execve(candidate, argv, env);
        if (errno != ENOENT && errno != ENOTDIR)
            worst = errno;
    }
    errno = worst;
}

static bool child_run(const struct process_spec *spec, pid_t parent, int *report, struct error *err)
{
    char *const *env = spec->env ? (char *const *)spec->env : environ;

    reset_signals();
    if (spec->new_session && setsid() < 0)
        return error_errno(err, "new session");
    if (spec->die_with_parent && !tie_to_parent(parent, err))
        return false;
    if (!place_fds(spec, report, err))
        return false;
    if (spec->cwd && chdir(spec->cwd) < 0)
        return error_errno(err, "change to %s", spec->cwd);
    if (spec->prepare && !spec->prepare(spec->prepare_arg, err))
        return false;

    /* Again, because a change of user in the preparation undoes it. */
    if (spec->die_with_parent && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_errno(err, "tie to the parent");
    exec_on_path((char *const *)spec->argv, env);
    return error_errno(err, "run %s", spec->argv[0]);
}

static void child_main(const struct process_spec *spec, pid_t parent, int report)
{
    struct error err = {0};

    child_run(spec, parent, &report, &err);
    (void)!write(report, &err, sizeof err);
    _exit(EXEC_FAILED);
}

/* End of file on the pipe means that exec closed it: the program runs. */
static bool read_report(int fd, struct error *err)
{
    struct error report;
    ssize_t got;

    do
        got = read(fd, &report, sizeof report);
    while (got < 0 && errno == EINTR);

    if (got == 0)
        return true;
    if (got != sizeof report)
        return error_set(err, ERR_INTERNAL, "a child ended before it could start its program");
    *err = report;
    return false;
}

/* The child is in a namespace of pids only if it is born there. Nothing but what is safe between
 * fork and exec happens in it, so it can do without what fork does for the library. */
static pid_t fork_into(const struct process_spec *spec)
{
    const unsigned long spaces =
        (spec->new_pids ? CLONE_NEWPID : 0UL) | (spec->new_user ? CLONE_NEWUSER : 0UL);

    return spaces ? (pid_t)syscall(SYS_clone, spaces | SIGCHLD, 0, 0, 0, 0) : fork();
}

static pid_t fork_quietly(const struct process_spec *spec)
{
    sigset_t all, before;

    /* A handler of ours must not run in the child before the dispositions are reset. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);

    pid_t pid = fork_into(spec);
    int saved = errno;

    if (pid != 0)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return pid;
}

bool process_start(const struct process_spec *spec, struct process *process, struct error *err)
{
    int report[2];
    const pid_t self = getpid();

    if (spec->n_fds > PROCESS_FDS_MAX || !spec->argv || !spec->argv[0])
        return error_set(err, ERR_INVALID, "no program to start");
    if (pipe2(report, O_CLOEXEC) < 0)
        return error_errno(err, "make a pipe");

    AUTO_FD int reader = report[0];
    AUTO_FD int writer = report[1];
    struct process made = {.pid = fork_quietly(spec), .pidfd = -1};

    if (made.pid < 0)
        return error_errno(err, "fork");
    if (made.pid == 0)
        child_main(spec, self, writer);

    close(take_fd(&writer));
    made.pidfd = child_open(made.pid);
    if (made.pidfd < 0) {
        error_errno(err, "hold process %d", (int)made.pid);
        kill(made.pid, SIGKILL);
        waitpid(made.pid, NULL, 0);
        return false;
    }
    if (!read_report(reader, err)) {
        process_finish(&made);
        return false;
    }
    *process = made;
    return true;
}

static bool is_running(const struct process *process)
{
    return process->pid > 0 && process->pidfd >= 0;
}

static void forget(struct process *process)
{
    if (process->pid > 0)
        auto_close(&process->pidfd);
    *process = (struct process){.pid = 0, .pidfd = -1};
}

bool process_wait(struct process *process, int timeout_ms, int *status, struct error *err)
{
    if (!is_running(process))
        return error_set(err, ERR_INTERNAL, "no process to wait for");

    struct pollfd ended = {.fd = process->pidfd, .events = POLLIN};
    int64_t deadline = time_boot_ms() + timeout_ms;

    for (;;) {
        int64_t left = timeout_ms < 0 ? -1 : deadline - time_boot_ms();
        int got = poll(&ended, 1, timeout_ms < 0 ? -1 : left < 0 ? 0 : (int)left);

        if (got < 0 && errno != EINTR)
            return error_errno(err, "wait for process %d", (int)process->pid);
        if (got > 0)
            break;
        if (timeout_ms >= 0 && left <= 0)
            return error_set(err, ERR_TIMEOUT, "process %d still runs", (int)process->pid);
    }
    if (child_reap(process->pid, process->pidfd, true, status) < 0)
        return error_errno(err, "reap process %d", (int)process->pid);
    forget(process);
    return true;
}

bool process_signal(struct process *process, int number, struct error *err)
{
    if (!is_running(process))
        return error_set(err, ERR_NOT_FOUND, "no process to signal");
    if (!child_signal(process->pid, process->pidfd, number))
        return error_errno(err, "signal process %d", (int)process->pid);
    return true;
}

void process_finish(struct process *process)
{
    int status;

    if (is_running(process)) {
        child_signal(process->pid, process->pidfd, SIGKILL);
        child_reap(process->pid, process->pidfd, true, &status);
    }
    forget(process);
}
