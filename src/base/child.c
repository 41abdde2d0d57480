#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/own.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct watch {
    pid_t pid;
    int event;
};

static void *watch_run(void *arg)
{
    AUTO_FREE struct watch *watch = arg;
    siginfo_t info;

    while (waitid(P_PID, (id_t)watch->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    (void)!write(watch->event, &(uint64_t){1}, sizeof(uint64_t));
    close(watch->event);
    return NULL;
}

/* The thread holds its own copy of the event, so the caller may close at any time. */
static bool watch_start(pid_t pid, int event)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int copy = fcntl(event, F_DUPFD_CLOEXEC, 3);

    if (copy < 0)
        return false;

    struct watch *watch = alloc(sizeof *watch);

    *watch = (struct watch){pid, copy};
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);

    int failed = pthread_create(&thread, &attributes, watch_run, watch);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed) {
        close(copy);
        free(watch);
        errno = failed;
    }
    return !failed;
}

int child_open(pid_t pid)
{
    long pidfd = syscall(SYS_pidfd_open, pid, 0);

    if (pidfd >= 0 || errno != ENOSYS)
        return (int)pidfd;

    AUTO_FD int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    siginfo_t info;

    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return -1;
    if (event < 0 || !watch_start(pid, event))
        return -1;
    return take_fd(&event);
}

bool child_signal(pid_t pid, int fd, int number)
{
    if (syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0)
        return true;
    return (errno == ENOSYS || errno == EBADF) && kill(pid, number) == 0;
}

static int status_of(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED: return (info->si_status & 0xff) << 8;
    case CLD_DUMPED: return info->si_status | 0x80;
    default: return info->si_status;
    }
}

int child_reap(pid_t pid, int fd, bool block, int *status)
{
    const int flags = WEXITED | (block ? 0 : WNOHANG);
    siginfo_t info = {0};
    int got;

    do {
        got = waitid((idtype_t)P_PIDFD, (id_t)fd, &info, flags);
        if (got < 0 && (errno == EINVAL || errno == EBADF))
            got = waitid(P_PID, (id_t)pid, &info, flags);
    } while (got < 0 && errno == EINTR);

    if (got < 0)
        return -1;
    if (!info.si_pid)
        return 0;
    *status = status_of(&info);
    return 1;
}
