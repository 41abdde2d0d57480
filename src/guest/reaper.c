/* The program init after it has become its own image: reaps, obeys, and leaves last. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/init.h"
#include "guest/stop.h"
#include "guest/watched.h"

enum { CONTROL_FD = 3, PROC_FD = 4, FREEZE_FD = 5, EVENTS_FD = 6 };

struct reaper {
    pid_t main_pid;
    bool has_exited, is_alone;
    struct stop stop;
};

static void tell(const struct init_news *news)
{
    (void)!write(CONTROL_FD, news, sizeof *news);
}

static uint64_t milliseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

static void report_exit(int status)
{
    struct rusage usage = {0};

    getrusage(RUSAGE_CHILDREN, &usage);
    tell(&(struct init_news){
        .kind = NEWS_EXIT,
        .status = status,
        .cpu_ms = milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime),
        .max_rss_kib = (uint64_t)usage.ru_maxrss,
    });
}

/* The end of the main process is the end of the program: what is left is killed. */
static void reap(struct reaper *reaper)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != reaper->main_pid)
            continue;
        reaper->has_exited = true;
        report_exit(status);
        kill(-1, SIGKILL);
    }
    reaper->is_alone = pid < 0 && errno == ECHILD;
    /* A process forked while the signal went round would be missed by it. */
    if (reaper->has_exited && !reaper->is_alone)
        kill(-1, SIGKILL);
}

/* The init itself, which the list ends or begins with, has no sockets. */
static pid_t find_watcher(const struct stop *stop)
{
    return watched_tcp_find(stop->proc_fd, stop->now, stop->n_processes + 1);
}

static void stop(struct reaper *reaper)
{
    bool is_stopped = stop_all(&reaper->stop);

    tell(&(struct init_news){
        .kind = is_stopped ? NEWS_STOPPED : NEWS_RUNNING,
        .processes = reaper->stop.n_processes,
        .watcher = is_stopped ? find_watcher(&reaper->stop) : 0,
    });
}

static void obey(struct reaper *reaper)
{
    unsigned char orders[64];
    ssize_t got = read(CONTROL_FD, orders, sizeof orders);

    if (got <= 0) {
        /* Without an agent there is nobody to run for. */
        kill(-1, SIGKILL);
        return;
    }
    for (ssize_t i = 0; i < got; i++) {
        switch (orders[i]) {
        case INIT_TERM: kill(-1, SIGTERM); break;
        case INIT_KILL: kill(-1, SIGKILL); break;
        case INIT_STOP: stop(reaper); break;
        case INIT_CONT: stop_end(&reaper->stop); break;
        case INIT_SIGNAL:
            if (i + 1 < got && !reaper->has_exited)
                kill(-reaper->main_pid, orders[++i]);
            break;
        default: break;
        }
    }
}

int init_main(pid_t main_pid, bool has_freezer)
{
    static struct reaper reaper;
    sigset_t set;

    reaper.main_pid = main_pid;
    reaper.stop.proc_fd = PROC_FD;
    reaper.stop.freeze_fd = has_freezer ? FREEZE_FD : -1;
    reaper.stop.events_fd = has_freezer ? EVENTS_FD : -1;
    prctl(PR_SET_NAME, "helmr-init");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigfillset(&set);
    if (sigprocmask(SIG_SETMASK, &set, NULL) != 0)
        return 1;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return 1;

    struct pollfd ready[] = {
        {.fd = signals,    .events = POLLIN},
        {.fd = CONTROL_FD, .events = POLLIN},
    };
    for (reap(&reaper); !reaper.is_alone; reap(&reaper)) {
        struct signalfd_siginfo info;
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            return 1;
        while (read(signals, &info, sizeof info) > 0)
            ;
        if (ready[1].revents)
            obey(&reaper);
    }
    return 0;
}
