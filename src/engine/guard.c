#include "engine/guard.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/holders.h"

enum { WORKER_FD = 3, LOCK_FD = 4, KILL_MS = 10000, LOCK_POLL_MS = 10, WORDS_MAX = 4 };

struct sweep {
    const struct cgroup_tree *tree;
    bool is_empty;
};

static void group_kill(void *arg, const char *name)
{
    struct sweep *sweep = arg;
    struct error err = {0};

    if (!cgroup_kill(sweep->tree, name, 0, &err))
        sweep->is_empty = false;
}

static void groups_kill(const struct cgroup_tree *tree)
{
    int64_t deadline = time_boot_ms() + KILL_MS;
    struct sweep sweep = {.tree = tree};

    do {
        sweep.is_empty = true;
        cgroup_each(tree, group_kill, &sweep);
        if (!sweep.is_empty)
            (void)poll(NULL, 0, 5);
    } while (!sweep.is_empty && time_boot_ms() < deadline);
}

static void await_worker_end(void)
{
    struct pollfd worker = {.fd = WORKER_FD, .events = POLLIN};

    (void)prctl(PR_SET_NAME, "helmr-guard");
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    while (poll(&worker, 1, -1) < 0 && errno == EINTR)
        continue;
}

int engine_guard_main(int argc, char **argv)
{
    const bool is_by_folder = argc == 3 && strcmp(argv[1], "folder") == 0;
    struct cgroup_tree tree;
    struct error err = {0};

    if (!is_by_folder && (argc != 4 || strcmp(argv[1], "groups") != 0 ||
                          !cgroup_tree_open(argv[2], argv[3], &tree, &err)))
        return 2;
    await_worker_end();
    if (is_by_folder)
        return holders_kill(argv[2], KILL_MS, &err) ? 0 : 1;
    groups_kill(&tree);
    return 0;
}

static void lock_path(const char *work_dir, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/guard.lock", work_dir);
}

bool guard_wait(const char *work_dir, int timeout_ms, struct error *err)
{
    int64_t deadline = time_boot_ms() + timeout_ms;
    char path[PATH_MAX];

    lock_path(work_dir, path);
    for (;;) {
        AUTO_FD int fd = -1;
        if (file_lock(path, &fd, err))
            return true;
        if (err->code != ERR_CONFLICT || time_boot_ms() >= deadline)
            return error_wrap(err, "the guard of the worker before");
        (void)poll(NULL, 0, LOCK_POLL_MS);
    }
}

bool guard_start(const char *work_dir, const char *const what[], struct process *guard,
                 struct error *err)
{
    char path[PATH_MAX];
    AUTO_FD int worker = (int)syscall(SYS_pidfd_open, getpid(), 0);
    AUTO_FD int lock = -1;

    lock_path(work_dir, path);
    if (worker < 0)
        return error_errno(err, "hold this process");
    if (!file_lock(path, &lock, err))
        return error_wrap(err, "lock for the guard");

    const char *argv[2 + WORDS_MAX] = {"/proc/self/exe", "guard"};
    for (size_t i = 0; what[i] && i + 1 < WORDS_MAX; i++)
        argv[2 + i] = what[i];
    struct process_spec spec = {
        .argv = argv,
        .cwd = "/",
        .fds = {{worker, WORKER_FD}, {lock, LOCK_FD}},
        .n_fds = 2,
        .new_session = true,
    };
    return process_start(&spec, guard, err);
}
