#include "engine/cgroup.h"

#include <signal.h>

#include "engine/fixture.h"

struct tree {
    struct cgroup_tree tree;
    struct error err;
    const char *why; /* cannot be tested here */
};

static struct tree tree_open(void)
{
    struct tree made = {.why = geteuid() == 0 ? NULL : "needs root"};

    if (!made.why && !cgroup_tree_open("helmr-test", "cgroups0", &made.tree, &made.err))
        made.why = "cgroups cannot be made here";
    return made;
}

static void tree_close(struct tree *made)
{
    struct error err = {0};

    if (made->why)
        return;
    if (!cgroup_kill(&made->tree, "one", 5000, &err) || !cgroup_remove(&made->tree, "one", &err))
        printf("# %s\n", err.text);
    cgroup_tree_close(&made->tree);
}

static bool join(void *arg, struct error *err)
{
    const int *fds = arg;

    for (size_t i = 0; i < CGROUP_HIERARCHIES_MAX; i++) {
        if (fds[i] >= 0 && write(fds[i], "0", 1) != 1)
            return error_errno(err, "join");
    }
    return true;
}

static bool start_inside(const struct cgroup_tree *tree, const char *command,
                         struct process *process, struct error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    int fds[CGROUP_HIERARCHIES_MAX];
    struct process_spec spec = {.argv = argv, .prepare = join, .prepare_arg = fds};

    bool ok = cgroup_open_procs(tree, "one", fds, err) && process_start(&spec, process, err);
    for (size_t i = 0; i < CGROUP_HIERARCHIES_MAX; i++)
        auto_close(&fds[i]);
    return ok;
}

static const struct cgroup_limits limits = {.memory_bytes = 32 << 20,
                                            .cpu_percent = 110,
                                            .processes = 20};

TEST(memory_beyond_the_limit_kills_and_is_reported)
{
    AUTO(tree_close) struct tree made = tree_open();
    struct process process = {.pidfd = -1};
    struct cgroup_usage usage;
    struct error err = {0};
    int status;

    if (made.why)
        SKIP(made.why);
    CHECK(cgroup_make(&made.tree, "one", &limits, &err));
    CHECK(start_inside(&made.tree, "x=a; while :; do x=$x$x; done", &process, &err));
    CHECK(process_wait(&process, 30000, &status, &err));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(cgroup_usage(&made.tree, "one", &usage, &err));
    CHECK(usage.oom_killed && usage.cpu_ms > 0);
    CHECK(usage.memory_peak_bytes > 16 << 20 && usage.memory_peak_bytes <= 32 << 20);
}

TEST(processes_beyond_the_limit_cannot_be_made)
{
    AUTO(tree_close) struct tree made = tree_open();
    struct process process = {.pidfd = -1};
    struct error err = {0};
    int status;

    if (made.why)
        SKIP(made.why);
    CHECK(cgroup_make(&made.tree, "one", &limits, &err));
    CHECK(start_inside(&made.tree, "for i in $(seq 40); do sleep 600 & done", &process, &err));
    CHECK(process_wait(&process, 30000, &status, &err));
    CHECK(status != 0);
}

TEST(a_frozen_group_with_a_fork_bomb_is_killed_and_removed)
{
    AUTO(tree_close) struct tree made = tree_open();
    struct process process = {.pidfd = -1};
    struct error err = {0};

    if (made.why)
        SKIP(made.why);
    CHECK(cgroup_make(&made.tree, "one", &limits, &err));
    CHECK(start_inside(&made.tree, "f() { f | f & }; f; sleep 600", &process, &err));
    CHECK(cgroup_freeze(&made.tree, "one", true, &err));
    CHECK(cgroup_kill(&made.tree, "one", 5000, &err));
    process_finish(&process);
    CHECK(cgroup_remove(&made.tree, "one", &err));
    CHECK(cgroup_inode(&made.tree, "one") == 0);
    CHECK(cgroup_remove(&made.tree, "one", &err));
}

TEST_MAIN()
