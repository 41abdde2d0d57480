/* process_run and its kin of base/process.h: programs that are run to their end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/own.h"
#include "base/process.h"
#include "base/time.h"

enum { OUT, ERRORS, ENDED, N_WATCHED };

struct capture {
    struct pollfd fds[N_WATCHED];
    struct buf *bufs[2];
};

/* A file in memory instead of a pipe: nothing to feed, and no SIGPIPE when nobody reads it. */
static bool input_file(struct str input, int *fd, struct error *err)
{
    AUTO_FD int file = (int)syscall(SYS_memfd_create, "input", 1U /* close on exec */);

    if (file < 0)
        return error_errno(err, "make an input file");
    if (!fd_write_all(file, input, err))
        return false;
    if (lseek(file, 0, SEEK_SET) < 0)
        return error_errno(err, "rewind the input file");
    *fd = take_fd(&file);
    return true;
}

static bool add_fd(struct process_spec *spec, int ours, int theirs, struct error *err)
{
    if (spec->n_fds == PROCESS_FDS_MAX)
        return error_set(err, ERR_INVALID, "over %d descriptors", PROCESS_FDS_MAX);
    spec->fds[spec->n_fds++] = (struct process_fd){ours, theirs};
    return true;
}

/* *theirs is closed by the caller once the child has it. */
static bool add_pipe(struct process_spec *spec, int number, int *ours, int *theirs,
                     struct error *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "make a pipe");
    *ours = ends[0];
    *theirs = ends[1];
    if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0)
        return error_errno(err, "make a pipe");
    return add_fd(spec, *theirs, number, err);
}

/* Reads what is there; closes at the end of file. */
static bool drain(struct pollfd *from, struct buf *into, struct error *err)
{
    char bytes[16384];

    while (from->fd >= 0) {
        ssize_t got = read(from->fd, bytes, sizeof bytes);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got < 0)
            return error_errno(err, "read a child's output");
        if (got == 0) {
            close(from->fd);
            from->fd = -1;
        } else if (!buf_append(into, (struct str){bytes, (size_t)got}, err)) {
            return error_wrap(err, "a child's output");
        }
    }
    return true;
}

static int left_ms(int64_t deadline, int timeout_ms)
{
    if (timeout_ms < 0)
        return -1;

    int64_t left = deadline - time_boot_ms();

    return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Until the child has ended. A grandchild that keeps a pipe open does not count. */
static bool collect(struct capture *capture, int timeout_ms, struct error *err)
{
    const int64_t deadline = time_boot_ms() + timeout_ms;
    bool has_ended = false;

    while (!has_ended) {
        int left = left_ms(deadline, timeout_ms);
        int got = poll(capture->fds, N_WATCHED, left);

        if (got < 0 && errno != EINTR)
            return error_errno(err, "wait for a child");
        if (got == 0 && left == 0)
            return error_set(err, ERR_TIMEOUT, "no end within %d ms", timeout_ms);
        has_ended = got > 0 && capture->fds[ENDED].revents;
        for (int i = OUT; got > 0 && i <= ERRORS; i++) {
            if (!drain(&capture->fds[i], capture->bufs[i], err))
                return false;
        }
    }
    return true;
}

static void capture_finish(struct capture *capture)
{
    auto_close(&capture->fds[OUT].fd);
    auto_close(&capture->fds[ERRORS].fd);
}

bool process_run(const struct process_spec *spec, struct str input, int timeout_ms, struct buf *out,
                 struct buf *errors, int *status, struct error *err)
{
    struct process_spec full = *spec;
    AUTO_FD int in = -1;
    AUTO_FD int out_end = -1;
    AUTO_FD int errors_end = -1;
    AUTO(process_finish) struct process process = {.pidfd = -1};
    AUTO(capture_finish)
    struct capture capture = {
        .fds = {{-1, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}},
        .bufs = {out, errors},
    };

    if (input.len && (!input_file(input, &in, err) || !add_fd(&full, in, STDIN_FILENO, err)))
        return false;
    if (out && !add_pipe(&full, STDOUT_FILENO, &capture.fds[OUT].fd, &out_end, err))
        return false;
    if (errors && !add_pipe(&full, STDERR_FILENO, &capture.fds[ERRORS].fd, &errors_end, err))
        return false;
    if (!process_start(&full, &process, err))
        return false;

    if (out)
        close(take_fd(&out_end));
    if (errors)
        close(take_fd(&errors_end));
    capture.fds[ENDED].fd = process.pidfd;
    if (!collect(&capture, timeout_ms, err))
        return error_wrap(err, "%s", spec->argv[0]);
    return process_wait(&process, -1, status, err);
}

static struct str last_line(struct str text)
{
    struct str line = {"", 0}, piece;

    while (str_split(&text, '\n', &piece)) {
        if (piece.len)
            line = piece;
    }
    return line;
}

static bool report_failure(const char *name, int status, struct str errors, struct error *err)
{
    struct str line = last_line(errors);
    int len = line.len < 300 ? (int)line.len : 300;

    if (WIFSIGNALED(status))
        return error_set(err, ERR_INTERNAL, "%s was ended by signal %d", name, WTERMSIG(status));
    return error_set(err, ERR_INTERNAL, "%s exited with %d: %.*s", name, WEXITSTATUS(status), len,
                     line.ptr);
}

bool process_must(const char *const *argv, struct str input, int timeout_ms, struct buf *out,
                  struct error *err)
{
    struct process_spec spec = {.argv = argv, .die_with_parent = true};
    AUTO(buf_finish) struct buf errors = {.max = 1 << 20};
    int status;

    if (!process_run(&spec, input, timeout_ms, out, &errors, &status, err))
        return false;
    return status == 0 || report_failure(argv[0], status, buf_str(&errors), err);
}

bool process_start_time(pid_t pid, uint64_t *ticks, struct error *err)
{
    char path[64];
    AUTO_FREE char *text = NULL;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!file_read(path, 4096, &text, err))
        return false;

    /* The name in the second field may hold blanks and brackets; the last bracket ends it. */
    char *at = strrchr(text, ')');

    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return error_set(err, ERR_INTERNAL, "%s has no start time", path);
    *ticks = strtoull(at + 1, NULL, 10);
    return true;
}
