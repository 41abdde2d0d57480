#include "engine/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "base/own.h"
#include "base/process.h"

enum { STATUS_MAX = 65536 };

bool process_identify(pid_t pid, struct process_identity *identity, struct error *err)
{
    char path[64];
    struct stat exe;
    uint64_t started;

    if (!process_start_time(pid, &started, err))
        return false;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    if (stat(path, &exe) < 0)
        return error_errno(err, "look at %s", path);
    *identity = (struct process_identity){.pid = pid,
                                          .started = started,
                                          .exe_dev = exe.st_dev,
                                          .exe_ino = exe.st_ino};
    return true;
}

/* The number after a name at the start of a line: `VmHWM:    1234 kB`. */
static int64_t status_number(struct str text, const char *name)
{
    struct str line;

    while (str_split(&text, '\n', &line)) {
        if (line.len > strlen(name) && memcmp(line.ptr, name, strlen(name)) == 0)
            return strtoll(line.ptr + strlen(name), NULL, 10);
    }
    return 0;
}

bool process_usage(pid_t pid, int64_t *cpu_ms, int64_t *peak_bytes, struct error *err)
{
    AUTO_FREE char *status = NULL;
    AUTO_FREE char *stat_line = NULL;
    char path[64];
    unsigned long long user = 0, system = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (!file_read(path, STATUS_MAX, &status, err))
        return false;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!file_read(path, STATUS_MAX, &stat_line, err))
        return false;
    /* Its name may hold anything; what follows the last parenthesis are numbers. */
    const char *rest = strrchr(stat_line, ')');
    if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                        &system) != 2)
        return error_set(err, ERR_INTERNAL, "%s is not understood", path);
    *cpu_ms = (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
    *peak_bytes = status_number(str_of(status), "VmHWM:") * 1024;
    return true;
}

void process_identity_format(const struct process_identity *identity,
                             char text[PROCESS_IDENTITY_TEXT])
{
    snprintf(text, PROCESS_IDENTITY_TEXT, "%d,%llu,%llu:%llu", (int)identity->pid,
             (unsigned long long)identity->started, (unsigned long long)identity->exe_dev,
             (unsigned long long)identity->exe_ino);
}

static bool number_cut(const char **text, char stop, unsigned long long *number)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    if (errno || *end != stop)
        return false;
    *text = stop ? end + 1 : end;
    return true;
}

bool process_identity_parse(const char *text, struct process_identity *identity)
{
    unsigned long long pid, started, device, inode;

    if (!number_cut(&text, ',', &pid) || !number_cut(&text, ',', &started) ||
        !number_cut(&text, ':', &device) || !number_cut(&text, '\0', &inode))
        return false;
    *identity = (struct process_identity){.pid = (pid_t)pid,
                                          .started = started,
                                          .exe_dev = device,
                                          .exe_ino = inode};
    return pid > 1 && pid <= 1 << 22;
}

/* The pidfd is taken first: what is compared afterwards is what it holds. */
static bool is_same(const struct process_identity *identity)
{
    struct process_identity now = {0};
    struct error ignored;

    return process_identify(identity->pid, &now, &ignored) && now.started == identity->started &&
           now.exe_dev == identity->exe_dev && now.exe_ino == identity->exe_ino;
}

static bool has_ended(int pidfd, int timeout_ms)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};

    return poll(&ended, 1, timeout_ms) > 0;
}

bool process_kill_recorded(const struct process_identity *identity, int term_ms, int kill_ms,
                           struct error *err)
{
    AUTO_FD int pidfd = (int)syscall(SYS_pidfd_open, identity->pid, 0);

    if (pidfd < 0)
        return errno == ESRCH || error_errno(err, "hold process %d", (int)identity->pid);
    if (!is_same(identity))
        return true;
    if (term_ms > 0) {
        (void)syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
        if (has_ended(pidfd, term_ms))
            return true;
    }
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    return has_ended(pidfd, kill_ms) ||
           error_set(err, ERR_TIMEOUT, "process %d survives SIGKILL", (int)identity->pid);
}
