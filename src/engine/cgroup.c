#include "engine/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"

enum { PATH_ROOM = 512, CPU_PERIOD_US = 100000, MOUNTS_MAX = 1 << 20 };

static const struct controller {
    const char *name;
    unsigned bit;
} controllers[] = {
    {"memory",  CGROUP_MEMORY },
    {"cpu",     CGROUP_CPU    },
    {"cpuacct", CGROUP_CPUACCT},
    {"pids",    CGROUP_PIDS   },
    {"freezer", CGROUP_FREEZER},
    {"cpuset",  CGROUP_CPUSET },
};

static unsigned controllers_parse(struct str list, char sep)
{
    unsigned bits = 0;
    struct str word;

    while (str_split(&list, sep, &word)) {
        for (size_t i = 0; i < COUNT_OF(controllers); i++) {
            if (str_equal(word, str_of(controllers[i].name)))
                bits |= controllers[i].bit;
        }
    }
    return bits;
}

static void path_in(const struct cgroup_tree *tree, size_t hierarchy, const char *name,
                    const char *file, char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%s/%s%s%s%s%s", tree->hierarchies[hierarchy].mount, tree->root,
             name ? "/" : "", name ? name : "", file ? "/" : "", file ? file : "");
}

static bool knob_write(const char *path, const char *value, struct error *err)
{
    AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", path);
    return write(fd, value, strlen(value)) >= 0 || error_errno(err, "write %s to %s", value, path);
}

static bool knob_number(const struct cgroup_tree *tree, size_t hierarchy, const char *name,
                        const char *file, int64_t value, struct error *err)
{
    char path[PATH_ROOM], text[32];

    path_in(tree, hierarchy, name, file, path);
    snprintf(text, sizeof(text), "%lld", (long long)value);
    return knob_write(path, text, err);
}

static void hierarchy_add(struct cgroup_tree *tree, struct str mount, bool is_unified,
                          struct str options)
{
    if (tree->n == CGROUP_HIERARCHIES_MAX || mount.len >= CGROUP_PATH_MAX)
        return;

    struct cgroup_hierarchy *added = &tree->hierarchies[tree->n++];
    *added = (struct cgroup_hierarchy){.is_unified = is_unified,
                                       .controllers = controllers_parse(options, ',')};
    memcpy(added->mount, mount.ptr, mount.len);
}

/* The unified tree first: it is where freezing and killing are asked for. */
static bool hierarchies_find(struct cgroup_tree *tree, struct error *err)
{
    AUTO_FREE char *mounts = NULL;

    if (!file_read("/proc/self/mounts", MOUNTS_MAX, &mounts, err))
        return false;
    for (int pass = 0; pass < 2; pass++) {
        struct str rest = str_of(mounts), line;
        while (str_split(&rest, '\n', &line)) {
            struct str word[4];
            size_t n = 0;
            while (n < 4 && str_split(&line, ' ', &word[n]))
                n++;
            if (n < 4)
                continue;
            if (pass == 0 && str_equal(word[2], STR("cgroup2")))
                hierarchy_add(tree, word[1], true, (struct str){0});
            if (pass == 1 && str_equal(word[2], STR("cgroup")))
                hierarchy_add(tree, word[1], false, word[3]);
        }
    }
    return tree->n > 0 || error_set(err, ERR_UNSUPPORTED, "no cgroup hierarchy is mounted");
}

/* A v2 controller works below only when every level above passes it on. A level that cannot
 * (processes of its own, not delegated) leaves the limit to a v1 hierarchy, or to nobody. */
static void controllers_delegate(struct cgroup_hierarchy *unified, const char *relative)
{
    static const char *const wanted[] = {"+memory", "+cpu", "+pids"};
    char path[PATH_ROOM];
    struct error ignored;

    snprintf(path, sizeof(path), "%s%s/cgroup.subtree_control", unified->mount, relative);
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        (void)knob_write(path, wanted[i], &ignored);

    AUTO_FREE char *enabled = NULL;
    unified->controllers = 0;
    if (!file_read(path, 4096, &enabled, &ignored))
        return;
    unified->controllers = controllers_parse((struct str){enabled, strcspn(enabled, "\n")}, ' ');
    if (unified->controllers & CGROUP_CPU)
        unified->controllers |= CGROUP_CPUACCT;
}

/* A v1 cpuset group accepts no process before it has cpus and memory nodes of its own. */
static bool cpuset_copy(const char *mount, const char *relative, struct error *err)
{
    static const char *const files[] = {"cpuset.cpus", "cpuset.mems"};
    char path[PATH_ROOM], above[PATH_ROOM];
    const char *slash = strrchr(relative, '/');

    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO_FREE char *value = NULL;
        snprintf(above, sizeof(above), "%s%.*s/%s", mount, (int)(slash - relative), relative,
                 files[i]);
        snprintf(path, sizeof(path), "%s%s/%s", mount, relative, files[i]);
        if (!file_read(above, 4096, &value, err))
            return false;
        value[strcspn(value, "\n")] = '\0';
        if (!knob_write(path, value, err))
            return false;
    }
    snprintf(path, sizeof(path), "%s%s/cgroup.clone_children", mount, relative);
    return knob_write(path, "1", err);
}

static bool level_make(struct cgroup_hierarchy *hierarchy, const char *relative, struct error *err)
{
    char path[PATH_ROOM];

    snprintf(path, sizeof(path), "%s%s", hierarchy->mount, relative);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return error_errno(err, "make %s", path);
    if (hierarchy->is_unified)
        controllers_delegate(hierarchy, relative);
    else if (hierarchy->controllers & CGROUP_CPUSET)
        return cpuset_copy(hierarchy->mount, relative, err);
    return true;
}

bool cgroup_tree_open(const char *parent, const char *tag, struct cgroup_tree *tree,
                      struct error *err)
{
    char parent_path[CGROUP_PATH_MAX], root_path[CGROUP_PATH_MAX];

    *tree = (struct cgroup_tree){0};
    snprintf(tree->root, sizeof(tree->root), "%s/%s", parent, tag);
    snprintf(parent_path, sizeof(parent_path), "/%s", parent);
    snprintf(root_path, sizeof(root_path), "/%.*s", CGROUP_PATH_MAX - 2, tree->root);
    if (!hierarchies_find(tree, err))
        return false;
    for (size_t i = 0; i < tree->n; i++) {
        struct cgroup_hierarchy *hierarchy = &tree->hierarchies[i];
        if (hierarchy->is_unified)
            controllers_delegate(hierarchy, "");
        if (!level_make(hierarchy, parent_path, err) || !level_make(hierarchy, root_path, err))
            return false;
    }
    return true;
}

void cgroup_tree_close(const struct cgroup_tree *tree)
{
    for (size_t i = 0; i < tree->n; i++) {
        char path[PATH_ROOM];
        path_in(tree, i, NULL, NULL, path);
        (void)rmdir(path);
        *strrchr(path, '/') = '\0';
        (void)rmdir(path); /* fails while another worker is in it */
    }
}

static bool limit_apply(const struct cgroup_tree *tree, size_t i, const char *name,
                        const struct cgroup_limits *limits, unsigned bit, struct error *err)
{
    struct error ignored;
    int64_t quota = (int64_t)limits->cpu_percent * CPU_PERIOD_US / 100;

    if (tree->hierarchies[i].is_unified) {
        char path[PATH_ROOM], text[48];
        switch (bit) {
        case CGROUP_MEMORY:
            (void)knob_number(tree, i, name, "memory.swap.max", 0, &ignored);
            return knob_number(tree, i, name, "memory.max", limits->memory_bytes, err);
        case CGROUP_CPU:
            path_in(tree, i, name, "cpu.max", path);
            snprintf(text, sizeof(text), "%lld %d", (long long)quota, CPU_PERIOD_US);
            return knob_write(path, text, err);
        default: return knob_number(tree, i, name, "pids.max", limits->processes, err);
        }
    }
    switch (bit) {
    case CGROUP_MEMORY:
        /* Never below the other: first when both are raised, last when they are lowered. Absent
         * on kernels without swap accounting. */
        (void)knob_number(tree, i, name, "memory.memsw.limit_in_bytes", limits->memory_bytes,
                          &ignored);
        if (!knob_number(tree, i, name, "memory.limit_in_bytes", limits->memory_bytes, err))
            return false;
        (void)knob_number(tree, i, name, "memory.memsw.limit_in_bytes", limits->memory_bytes,
                          &ignored);
        return true;
    case CGROUP_CPU: return knob_number(tree, i, name, "cpu.cfs_quota_us", quota, err);
    default: return knob_number(tree, i, name, "pids.max", limits->processes, err);
    }
}

static bool limits_apply(const struct cgroup_tree *tree, const char *name,
                         const struct cgroup_limits *limits, struct error *err)
{
    unsigned missing = CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS;

    for (size_t i = 0; i < tree->n; i++) {
        for (unsigned bit = CGROUP_MEMORY; bit <= CGROUP_PIDS; bit <<= 1) {
            if (!(missing & tree->hierarchies[i].controllers & bit))
                continue;
            if (!limit_apply(tree, i, name, limits, bit, err))
                return false;
            missing &= ~bit;
        }
    }
    return missing == 0 ||
           error_set(err, ERR_UNSUPPORTED, "no cgroup hierarchy here limits%s%s%s",
                     missing & CGROUP_MEMORY ? " memory" : "", missing & CGROUP_CPU ? " cpu" : "",
                     missing & CGROUP_PIDS ? " processes" : "");
}

bool cgroup_make(const struct cgroup_tree *tree, const char *name,
                 const struct cgroup_limits *limits, struct error *err)
{
    for (size_t i = 0; i < tree->n; i++) {
        char path[PATH_ROOM];
        path_in(tree, i, name, NULL, path);
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return error_errno(err, "make %s", path);
    }
    return limits_apply(tree, name, limits, err);
}

bool cgroup_open_procs(const struct cgroup_tree *tree, const char *name,
                       int fds[CGROUP_HIERARCHIES_MAX], struct error *err)
{
    for (size_t i = 0; i < CGROUP_HIERARCHIES_MAX; i++)
        fds[i] = -1;
    for (size_t i = 0; i < tree->n; i++) {
        char path[PATH_ROOM];
        path_in(tree, i, name, "cgroup.procs", path);
        fds[i] = open(path, O_WRONLY | O_CLOEXEC);
        if (fds[i] < 0)
            return error_errno(err, "open %s", path);
    }
    return true;
}

uint64_t cgroup_inode(const struct cgroup_tree *tree, const char *name)
{
    char path[PATH_ROOM];
    struct stat status;

    path_in(tree, 0, name, NULL, path);
    return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

bool cgroup_freeze(const struct cgroup_tree *tree, const char *name, bool is_frozen,
                   struct error *err)
{
    char path[PATH_ROOM];

    for (size_t i = 0; i < tree->n; i++) {
        if (tree->hierarchies[i].is_unified) {
            path_in(tree, i, name, "cgroup.freeze", path);
            return knob_write(path, is_frozen ? "1" : "0", err);
        }
        if (tree->hierarchies[i].controllers & CGROUP_FREEZER) {
            path_in(tree, i, name, "freezer.state", path);
            return knob_write(path, is_frozen ? "FROZEN" : "THAWED", err);
        }
    }
    return error_set(err, ERR_UNSUPPORTED, "no cgroup hierarchy here can freeze");
}

static void procs_kill(const char *procs)
{
    AUTO_FREE char *text = NULL;
    struct error ignored;

    if (!file_read(procs, MOUNTS_MAX, &text, &ignored))
        return;

    struct str rest = str_of(text), line;
    while (str_split(&rest, '\n', &line)) {
        pid_t pid = line.len ? (pid_t)strtol(line.ptr, NULL, 10) : 0;
        if (pid <= 0)
            continue;
        AUTO_FD int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (pidfd >= 0)
            (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    }
}

void cgroup_kill_once(const struct cgroup_tree *tree, const char *name)
{
    char path[PATH_ROOM];
    struct error ignored;

    for (size_t i = 0; i < tree->n; i++) {
        path_in(tree, i, name, "cgroup.kill", path);
        if (tree->hierarchies[i].is_unified && knob_write(path, "1", &ignored))
            continue;
        path_in(tree, i, name, "cgroup.procs", path);
        procs_kill(path);
    }
    /* A frozen v1 group dies only once it is thawed; v2 kills frozen ones. */
    (void)!cgroup_freeze(tree, name, false, &ignored);
}

static bool is_empty(const struct cgroup_tree *tree, size_t i, const char *name)
{
    char path[PATH_ROOM];
    AUTO_FREE char *text = NULL;
    struct error ignored;

    path_in(tree, i, name, "cgroup.procs", path);
    return !file_read(path, MOUNTS_MAX, &text, &ignored) || text[0] == '\0';
}

bool cgroup_kill(const struct cgroup_tree *tree, const char *name, int timeout_ms,
                 struct error *err)
{
    int64_t deadline = time_boot_ms() + timeout_ms;

    for (;;) {
        bool empty = true;
        cgroup_kill_once(tree, name);
        for (size_t i = 0; i < tree->n && empty; i++)
            empty = is_empty(tree, i, name);
        if (empty)
            return true;
        if (time_boot_ms() >= deadline)
            return error_set(err, ERR_TIMEOUT, "processes of %s/%s survive SIGKILL", tree->root,
                             name);
        (void)poll(NULL, 0, 2);
    }
}

/* Runtimes may have made groups of their own inside; a group is empty of files we could unlink. */
static bool group_remove(const char *path, int depth, struct error *err)
{
    DIR *folder = depth < 8 ? opendir(path) : NULL;

    if (!folder)
        return errno == ENOENT || error_errno(err, "open %s", path);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char below[PATH_ROOM];
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        int len = snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
        if (len >= (int)sizeof(below) || !group_remove(below, depth + 1, err)) {
            closedir(folder);
            return false;
        }
    }
    closedir(folder);
    return rmdir(path) == 0 || errno == ENOENT || error_errno(err, "remove %s", path);
}

bool cgroup_remove(const struct cgroup_tree *tree, const char *name, struct error *err)
{
    for (size_t i = 0; i < tree->n; i++) {
        char path[PATH_ROOM];
        path_in(tree, i, name, NULL, path);

        /* The last task may still be leaving for a moment after it was reported gone. */
        int64_t deadline = time_boot_ms() + 2000;
        while (!group_remove(path, 0, err)) {
            if (err->sys != EBUSY || time_boot_ms() >= deadline)
                return false;
            (void)poll(NULL, 0, 2);
        }
    }
    return true;
}

static int64_t knob_read(const struct cgroup_tree *tree, size_t i, const char *name,
                         const char *file, const char *key)
{
    char path[PATH_ROOM];
    AUTO_FREE char *text = NULL;
    struct error ignored;

    path_in(tree, i, name, file, path);
    if (!file_read(path, 65536, &text, &ignored))
        return 0;
    if (!key)
        return strtoll(text, NULL, 10);

    struct str rest = str_of(text), line, word;
    while (str_split(&rest, '\n', &line)) {
        if (str_split(&line, ' ', &word) && str_equal(word, str_of(key)) && line.ptr)
            return strtoll(line.ptr, NULL, 10);
    }
    return 0;
}

bool cgroup_usage(const struct cgroup_tree *tree, const char *name, struct cgroup_usage *usage,
                  struct error *err)
{
    *usage = (struct cgroup_usage){0};
    if (!cgroup_inode(tree, name))
        return error_set(err, ERR_NOT_FOUND, "there is no cgroup %s/%s", tree->root, name);
    for (size_t i = 0; i < tree->n; i++) {
        unsigned has = tree->hierarchies[i].controllers;
        bool is_unified = tree->hierarchies[i].is_unified;
        if (is_unified) /* accounted even where no controller is */
            usage->cpu_ms = knob_read(tree, i, name, "cpu.stat", "usage_usec") / 1000;
        else if (has & CGROUP_CPUACCT)
            usage->cpu_ms = knob_read(tree, i, name, "cpuacct.usage", NULL) / 1000000;
        if (has & CGROUP_PIDS)
            usage->fork_refused = knob_read(tree, i, name, "pids.events", "max") > 0;
        if (!(has & CGROUP_MEMORY))
            continue;
        usage->memory_peak_bytes =
            knob_read(tree, i, name, is_unified ? "memory.peak" : "memory.max_usage_in_bytes",
                      NULL);
        usage->oom_killed =
            knob_read(tree, i, name, is_unified ? "memory.events" : "memory.oom_control",
                      "oom_kill") > 0;
    }
    return true;
}

void cgroup_each(const struct cgroup_tree *tree, cgroup_visit *visit, void *arg)
{
    for (size_t i = 0; i < tree->n; i++) {
        char path[PATH_ROOM];
        path_in(tree, i, NULL, NULL, path);

        DIR *folder = opendir(path);
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                visit(arg, entry->d_name);
        }
        if (folder)
            closedir(folder);
    }
}
