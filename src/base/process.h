/* Child processes: made with every descriptor closed but those named, held by pidfd.
 *
 * A failed exec is an error of process_start, never an exit code to guess from.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

enum { PROCESS_FDS_MAX = 16 };

struct process_fd {
    int ours, theirs; /* `ours` is duplicated onto number `theirs` in the child */
};

struct process_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up on PATH */
    const char *const *env;  /* NULL: this process's environment */
    const char *cwd;         /* NULL: this process's */
    struct process_fd fds[PROCESS_FDS_MAX];
    size_t n_fds; /* 0, 1, 2 not named here become /dev/null */
    bool new_session;
    bool die_with_parent; /* SIGKILL when the thread that started it ends */
    bool new_pids;        /* the first of a pid namespace of its own, which ends with it; it sees no
                           * parent, so not together with die_with_parent */
    bool new_user;        /* in a user namespace of its own, with no id mapped yet: who is not root
                           * can have other namespaces only there */
    /* Runs in the child before exec, for namespaces and limits; must be async-signal-safe. */
    bool (*prepare)(void *arg, struct error *err);
    void *prepare_arg;
};

struct process {
    pid_t pid;
    int pidfd; /* -1 when not running */
};

bool process_start(const struct process_spec *spec, struct process *process,
                   struct error *err) MUST_USE;

/* Waits up to timeout_ms (-1: for ever). *status is a wait status. ERR_TIMEOUT leaves it alive. */
bool process_wait(struct process *process, int timeout_ms, int *status, struct error *err) MUST_USE;
bool process_signal(struct process *process, int number, struct error *err) MUST_USE;

/* Kills if need be, reaps, closes. Accepts one that was never started (pidfd -1 or zeroed pid). */
void process_finish(struct process *process);

/* Runs to the end with stdin from `input`; stdout and stderr go to the bufs (either may be
 * NULL: discarded). A non-zero exit is not an error here: see *status. ERR_TIMEOUT kills it. */
bool process_run(const struct process_spec *spec, struct str input, int timeout_ms, struct buf *out,
                 struct buf *errors, int *status, struct error *err) MUST_USE;

/* process_run that must exit 0; otherwise ERR_INTERNAL with the last line of its stderr. */
bool process_must(const char *const *argv, struct str input, int timeout_ms, struct buf *out,
                  struct error *err) MUST_USE;

/* The start time of a live process (field 22 of /proc/pid/stat), to tell it from a
 * later one with the same number. */
bool process_start_time(pid_t pid, uint64_t *ticks, struct error *err) MUST_USE;
