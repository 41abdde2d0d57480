#include "engine/firecracker/jailer.h"

#include "base/test.h"

static const struct cgroup_limits limits = {.memory_bytes = 603979776,
                                            .cpu_percent = 220,
                                            .processes = 512};

static struct jailer_plan plan_of(const struct cgroup_tree *tree)
{
    return (struct jailer_plan){.jailer = "/usr/bin/jailer",
                                .binary = "/usr/bin/firecracker",
                                .id = "0123456789ab",
                                .user = 200007,
                                .base = "/var/lib/helmr/worker/instances/x/jail",
                                .netns = "/run/helmr/aabbccdd/0123456789ab",
                                .cgroups = tree,
                                .limits = &limits};
}

static bool is_line(const struct jailer_line *line, const char *const *wanted, size_t n)
{
    bool is_same = line->n == n && !line->args[n];

    for (size_t i = 0; i < line->n; i++) {
        if (i >= n || strcmp(line->args[i], wanted[i]) != 0) {
            printf("# argument %zu is %s\n", i, line->args[i]);
            is_same = false;
        }
    }
    return is_same;
}

TEST(on_the_unified_hierarchy_every_limit_is_named)
{
    const struct cgroup_tree tree = {
        .hierarchies = {{"/sys/fs/cgroup", CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS, true}},
        .n = 1,
        .root = "helmr/aabbccdd"};
    static const char *const wanted[] = {"/usr/bin/jailer",
                                         "--id",
                                         "0123456789ab",
                                         "--exec-file",
                                         "/usr/bin/firecracker",
                                         "--uid",
                                         "200007",
                                         "--gid",
                                         "200007",
                                         "--cgroup-version",
                                         "2",
                                         "--parent-cgroup",
                                         "helmr/aabbccdd",
                                         "--cgroup",
                                         "memory.max=603979776",
                                         "--cgroup",
                                         "cpu.max=220000 100000",
                                         "--cgroup",
                                         "pids.max=512",
                                         "--chroot-base-dir",
                                         "/var/lib/helmr/worker/instances/x/jail",
                                         "--netns",
                                         "/run/helmr/aabbccdd/0123456789ab",
                                         "--resource-limit",
                                         "no-file=1024",
                                         "--new-pid-ns",
                                         "--",
                                         "--api-sock",
                                         "/api.sock",
                                         "--log-path",
                                         "/log",
                                         "--level",
                                         "Warning"};
    const struct jailer_plan plan = plan_of(&tree);
    struct jailer_line line;

    jailer_line_make(&plan, &line);
    CHECK(is_line(&line, wanted, COUNT_OF(wanted)));
}

/* A hybrid host: the unified tree freezes and kills, and limits nothing. */
TEST(on_old_hierarchies_the_jailer_leaves_memory_to_us)
{
    const struct cgroup_tree tree = {
        .hierarchies = {{"/sys/fs/cgroup/unified", 0, true},
                        {"/sys/fs/cgroup/memory", CGROUP_MEMORY, false},
                        {"/sys/fs/cgroup/cpu", CGROUP_CPU | CGROUP_CPUACCT, false},
                        {"/sys/fs/cgroup/pids", CGROUP_PIDS, false}},
        .n = 4,
        .root = "helmr/aabbccdd"
    };
    static const char *const wanted[] = {"/usr/bin/jailer",
                                         "--id",
                                         "0123456789ab",
                                         "--exec-file",
                                         "/usr/bin/firecracker",
                                         "--uid",
                                         "200007",
                                         "--gid",
                                         "200007",
                                         "--cgroup-version",
                                         "1",
                                         "--parent-cgroup",
                                         "helmr/aabbccdd",
                                         "--cgroup",
                                         "cpu.cfs_quota_us=220000",
                                         "--cgroup",
                                         "pids.max=512",
                                         "--chroot-base-dir",
                                         "/var/lib/helmr/worker/instances/x/jail",
                                         "--resource-limit",
                                         "no-file=1024",
                                         "--new-pid-ns",
                                         "--",
                                         "--api-sock",
                                         "/api.sock",
                                         "--log-path",
                                         "/log",
                                         "--level",
                                         "Warning"};
    struct jailer_plan plan = plan_of(&tree);
    struct jailer_line line;

    plan.netns = NULL;
    jailer_line_make(&plan, &line);
    CHECK(is_line(&line, wanted, COUNT_OF(wanted)));
}

TEST_MAIN()
