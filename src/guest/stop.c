#include "guest/stop.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

enum {
    ROUNDS = 250,
    QUICK_ROUNDS = 50,
    NUDGE_ROUNDS = 10,
    STAT_MAX = 512,
    EVENTS_MAX = 256,
    FREEZE_MS = 2000
};

/* The numbers among the names of a directory of /proc; false when there are too many. */
static bool read_numbers(int parent, const char *path, pid_t *numbers, size_t max, size_t *n)
{
    int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    *n = 0;
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return true; /* it has ended meanwhile */
    }
    for (const struct dirent *entry; (entry = readdir(folder));) {
        long number = strtol(entry->d_name, NULL, 10);
        if (number <= 0)
            continue;
        if (*n == max)
            break;
        numbers[(*n)++] = (pid_t)number;
    }
    closedir(folder);
    return *n < max;
}

/* The letter after the name, which may itself hold anything, and its parent; X for what is no more.
 */
static int look_at(int proc_fd, pid_t process, pid_t thread, pid_t *parent)
{
    char path[64], text[STAT_MAX];

    snprintf(path, sizeof path, "%d/task/%d/stat", (int)process, (int)thread);
    AUTO_FD int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (got <= 0)
        return 'X';
    text[got] = '\0';
    const char *end = strrchr(text, ')');
    if (!end || end[1] != ' ')
        return '?';
    *parent = (pid_t)strtol(end + 3, NULL, 10);
    return end[2];
}

static int state_of(int proc_fd, pid_t process, pid_t thread)
{
    pid_t parent;

    return look_at(proc_fd, process, thread, &parent);
}

static bool is_still(int state)
{
    return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

/* The stop of a process is over only when each of its threads has come to it. */
static bool process_is_still(int proc_fd, pid_t process)
{
    static pid_t threads[STOP_PROCESSES_MAX];
    char path[32];
    size_t n;

    snprintf(path, sizeof path, "%d/task", (int)process);
    if (!read_numbers(proc_fd, path, threads, STOP_PROCESSES_MAX, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_still(state_of(proc_fd, process, threads[i])))
            return false;
    }
    return true;
}

bool stop_list(struct stop *stop)
{
    return read_numbers(stop->proc_fd, ".", stop->now, STOP_PROCESSES_MAX, &stop->n_processes);
}

static void remember(struct stop *stop)
{
    stop->n_before = 0;
    for (size_t i = 0; i < stop->n_processes; i++) {
        if (state_of(stop->proc_fd, stop->now[i], stop->now[i]) == 'T')
            stop->before[stop->n_before++] = stop->now[i];
    }
}

static bool all_are_still(struct stop *stop)
{
    if (!stop_list(stop))
        return false;
    for (size_t i = 0; i < stop->n_processes; i++) {
        if (stop->now[i] != getpid() && !process_is_still(stop->proc_fd, stop->now[i]))
            return false;
    }
    return true;
}

static bool is_frozen(int events_fd)
{
    char text[EVENTS_MAX];
    ssize_t got = pread(events_fd, text, sizeof text - 1, 0);

    text[got < 0 ? 0 : got] = '\0';
    return strstr(text, "frozen 1") != NULL;
}

static bool freeze(struct stop *stop)
{
    struct pollfd changed = {.fd = stop->events_fd, .events = POLLPRI};

    if (write(stop->freeze_fd, "1", 1) != 1)
        return false;
    stop->is_on = true;
    while (!is_frozen(stop->events_fd)) {
        if (poll(&changed, 1, FREEZE_MS) <= 0 && !is_frozen(stop->events_fd)) {
            stop_end(stop);
            return false;
        }
    }
    /* Too many to be counted are frozen all the same. */
    (void)!stop_list(stop);
    stop->n_processes -= stop->n_processes > 0; /* the init itself */
    return true;
}

static bool was_stopped_before(const struct stop *stop, pid_t process)
{
    for (size_t i = 0; i < stop->n_before; i++) {
        if (stop->before[i] == process)
            return true;
    }
    return false;
}

/* Who is in a vfork comes to its stop only when its child has become another program or ended: a
 * child that was stopped on the way there goes on, and is met again by the next round. */
static void nudge(const struct stop *stop)
{
    for (size_t i = 0; i < stop->n_processes; i++) {
        pid_t child = stop->now[i], parent = 0;
        if (look_at(stop->proc_fd, child, child, &parent) == 'T' && parent != getpid() &&
            !was_stopped_before(stop, child) && !process_is_still(stop->proc_fd, parent))
            kill(child, SIGCONT);
    }
}

/* A process that forks while the signal goes round is met by the next round. */
bool stop_all(struct stop *stop)
{
    if (stop->freeze_fd >= 0)
        return freeze(stop);
    if (!stop->is_on) {
        if (!stop_list(stop))
            return false;
        remember(stop);
        stop->is_on = true;
    }
    for (int round = 0; round < ROUNDS; round++) {
        kill(-1, SIGSTOP);
        if (all_are_still(stop)) {
            stop->n_processes--; /* the init itself */
            return true;
        }
        if (round % NUDGE_ROUNDS == NUDGE_ROUNDS - 1)
            nudge(stop);
        poll(NULL, 0, round < QUICK_ROUNDS ? 1 : 10);
    }
    stop_end(stop);
    return false;
}

/* Children first, as a rule: a shell that looks should not find its job stopped. */
void stop_end(struct stop *stop)
{
    if (!stop->is_on)
        return;
    if (stop->freeze_fd >= 0) {
        stop->is_on = write(stop->freeze_fd, "0", 1) != 1;
        return;
    }
    /* Too many to tell apart: better all than some. */
    if (!stop_list(stop))
        kill(-1, SIGCONT);
    for (size_t i = stop->n_processes; i > 0; i--) {
        pid_t process = stop->now[i - 1];
        if (process != getpid() && !was_stopped_before(stop, process))
            kill(process, SIGCONT);
    }
    stop->is_on = false;
}
