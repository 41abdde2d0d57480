/* A stand-in for Firecracker's jailer: takes what that takes, refuses what that refuses, and does
 * what its description says it does, in that order. It ends with 1 and a line on stderr when
 * something is not as it must be.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/attr.h"

enum { LISTS_MAX = 16, COPY_PIECE = 65536 };

static struct {
    const char *id, *exec_file, *uid, *gid, *cgroup_version, *parent_cgroup, *chroot_base_dir;
    const char *netns;
    const char *cgroups[LISTS_MAX], *limits[LISTS_MAX];
    size_t n_cgroups, n_limits;
    bool new_pid_ns;
    char **extra; /* after -- */
} options = {.cgroup_version = "1"};

static char exec_path[PATH_MAX], root[PATH_MAX];
static const char *exec_name;
static uid_t uid;
static gid_t gid;

static void fail(const char *fmt, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));

static void fail(const char *fmt, ...)
{
    int code = errno;
    va_list args;

    va_start(args, fmt);
    fprintf(stderr, "Jailer error: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, code ? " (%s)\n" : "\n", strerror(code));
    va_end(args);
    exit(1);
}

static const struct option {
    const char *name;
    const char **value;
    const char **list;
    size_t *n;
    bool *flag;
} table[] = {
    {"--id",              &options.id,              NULL,            NULL,               NULL               },
    {"--exec-file",       &options.exec_file,       NULL,            NULL,               NULL               },
    {"--uid",             &options.uid,             NULL,            NULL,               NULL               },
    {"--gid",             &options.gid,             NULL,            NULL,               NULL               },
    {"--cgroup-version",  &options.cgroup_version,  NULL,            NULL,               NULL               },
    {"--parent-cgroup",   &options.parent_cgroup,   NULL,            NULL,               NULL               },
    {"--chroot-base-dir", &options.chroot_base_dir, NULL,            NULL,               NULL               },
    {"--netns",           &options.netns,           NULL,            NULL,               NULL               },
    {"--cgroup",          NULL,                     options.cgroups, &options.n_cgroups, NULL               },
    {"--resource-limit",  NULL,                     options.limits,  &options.n_limits,  NULL               },
    {"--new-pid-ns",      NULL,                     NULL,            NULL,               &options.new_pid_ns},
};

static const struct option *option_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    fail("Found argument '%s' which wasn't expected", name);
}

static void options_read(char **argv)
{
    for (; *argv; argv++) {
        if (strcmp(*argv, "--") == 0) {
            options.extra = argv + 1;
            return;
        }
        const struct option *option = option_find(*argv);
        if (option->flag) {
            *option->flag = true;
            continue;
        }
        if (!*++argv)
            fail("The argument '%s' requires a value", option->name);
        if (option->list && *option->n < LISTS_MAX)
            option->list[(*option->n)++] = *argv;
        else
            *option->value = *argv;
    }
    options.extra = argv;
}

static unsigned long number_of(const char *text, const char *what)
{
    char *end;
    unsigned long number = text ? strtoul(text, &end, 10) : 0;

    if (!text || !isdigit((unsigned char)text[0]) || *end)
        fail("%s is no number: %s", what, text ? text : "absent");
    return number;
}

static void options_check(void)
{
    if (!options.id || strlen(options.id) < 1 || strlen(options.id) > 64 ||
        strspn(options.id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") !=
            strlen(options.id))
        fail("Invalid instance ID");
    if (!options.exec_file || !realpath(options.exec_file, exec_path))
        fail("Failed to canonicalize path %s", options.exec_file);
    exec_name = strrchr(exec_path, '/') + 1;
    if (!strstr(exec_name, "firecracker"))
        fail("Invalid filename. The filename of `--exec-file` option must contain \"firecracker\"");
    uid = (uid_t)number_of(options.uid, "uid");
    gid = (gid_t)number_of(options.gid, "gid");
    if (strcmp(options.cgroup_version, "1") != 0 && strcmp(options.cgroup_version, "2") != 0)
        fail("Invalid cgroup version %s", options.cgroup_version);
    if (options.parent_cgroup &&
        (options.parent_cgroup[0] == '/' || strstr(options.parent_cgroup, "..")))
        fail("Invalid parent cgroup path");
    if (!options.chroot_base_dir)
        options.chroot_base_dir = "/srv/jailer";

    char base[PATH_MAX];
    if (!realpath(options.chroot_base_dir, base))
        fail("Failed to canonicalize path %s", options.chroot_base_dir);
    snprintf(root, sizeof root, "%.*s/%s/%s/root", PATH_MAX - 400, base, exec_name, options.id);
}

/* Only what was there before anything was opened: as the real one, by the list of them. */
static void descriptors_close(void)
{
    syscall(SYS_close_range, 3, INT_MAX, 0);
    if (clearenv() != 0)
        fail("Failed to clear the environment");
}

static void folders_make(char *path)
{
    for (char *at = path + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            fail("Failed to create directory %s", path);
        *at = '/';
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        fail("Failed to create directory %s", path);
}

static void exec_copy(void)
{
    static char piece[COPY_PIECE];
    char target[PATH_MAX + NAME_MAX];
    int from = open(exec_path, O_RDONLY | O_CLOEXEC);

    folders_make(root);
    snprintf(target, sizeof target, "%s/%s", root, exec_name);
    int to = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (from < 0 || to < 0)
        fail("Failed to copy %s to %s", exec_path, target);
    for (ssize_t got; (got = read(from, piece, sizeof piece)) != 0;) {
        if (got < 0 || write(to, piece, (size_t)got) != got)
            fail("Failed to copy %s to %s", exec_path, target);
    }
    close(from);
    close(to);
}

static void netns_join(void)
{
    if (!options.netns)
        return;
    int fd = open(options.netns, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        fail("Failed to join the network namespace %s", options.netns);
    close(fd);
}

static void limits_set(void)
{
    for (size_t i = 0; i < options.n_limits; i++) {
        bool is_size = strncmp(options.limits[i], "fsize=", 6) == 0;
        if (!is_size && strncmp(options.limits[i], "no-file=", 8) != 0)
            fail("Invalid resource limit %s", options.limits[i]);
        rlim_t value = number_of(strchr(options.limits[i], '=') + 1, "a limit");
        const struct rlimit limit = {value, value};
        if (setrlimit(is_size ? RLIMIT_FSIZE : RLIMIT_NOFILE, &limit) < 0)
            fail("Failed to set limit %s", options.limits[i]);
    }
}

/* Where the controller is mounted; the unified tree for version 2. */
static void hierarchy_find(const char *controller, char mount_point[PATH_MAX])
{
    FILE *mounts = fopen("/proc/mounts", "re");
    char where[PATH_MAX], type[64], how[1024], word[160];

    snprintf(word, sizeof word, ",%s,", controller);
    while (mounts && fscanf(mounts, "%*s %4095s %63s %1023s %*d %*d", where, type, how) == 3) {
        char all[1100];
        snprintf(all, sizeof all, ",%s,", how);
        bool is_it = options.cgroup_version[0] == '2'
                         ? strcmp(type, "cgroup2") == 0
                         : strcmp(type, "cgroup") == 0 && strstr(all, word);
        if (is_it) {
            snprintf(mount_point, PATH_MAX, "%s", where);
            fclose(mounts);
            return;
        }
    }
    errno = 0;
    fail("Controller %s is unavailable", controller);
}

static void line_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        fail("Failed to write %s to %s", text, path);
    close(fd);
}

/* With version 1 the parent's value goes in first. */
static void parent_copy(const char *folder, const char *file)
{
    char path[PATH_MAX], line[256] = "";

    snprintf(path, sizeof path, "%.*s/../%.200s", PATH_MAX - 300, folder, file);
    FILE *parent = fopen(path, "re");
    if (!parent || !fgets(line, sizeof line, parent))
        fail("Failed to read %s", path);
    fclose(parent);
    snprintf(path, sizeof path, "%.*s/%.200s", PATH_MAX - 300, folder, file);
    line_write(path, line);
}

static void cgroup_apply(const char *setting)
{
    char file[128], mount_point[PATH_MAX] = "", folder[PATH_MAX], path[PATH_MAX], number[16];
    const char *value = strchr(setting, '=');

    if (!value || !value[1] || strchr(value + 1, '=') || value - setting > 100)
        fail("Invalid cgroup format %s", setting);
    snprintf(file, sizeof file, "%.*s", (int)(value - setting), setting);
    char *dot = strchr(file, '.');
    if (!dot || strchr(dot + 1, '.'))
        fail("Invalid cgroup file %s", file);
    *dot = '\0';
    hierarchy_find(file, mount_point);
    *dot = '.';
    snprintf(folder, sizeof folder, "%.*s/%s/%s", 2000, mount_point,
             options.parent_cgroup ? options.parent_cgroup : exec_name, options.id);
    folders_make(folder);
    if (options.cgroup_version[0] == '1')
        parent_copy(folder, file);
    snprintf(path, sizeof path, "%.*s/%s", 3000, folder, file);
    line_write(path, value + 1);
    snprintf(path, sizeof path, "%.*s/%s", 3000, folder,
             options.cgroup_version[0] == '1' ? "tasks" : "cgroup.procs");
    snprintf(number, sizeof number, "%d", (int)getpid());
    line_write(path, number);
}

static void root_change(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0 ||
        mount(root, root, NULL, MS_BIND | MS_REC, NULL) < 0)
        fail("Failed to bind mount the jail root directory");
    if (chdir(root) < 0 || mkdir("old_root", 0600) < 0 ||
        syscall(SYS_pivot_root, ".", "old_root") < 0 || chdir("/") < 0 ||
        umount2("old_root", MNT_DETACH) < 0 || rmdir("old_root") < 0)
        fail("Failed to pivot root");
}

static void folder_own(const char *path)
{
    if ((mkdir(path, 0700) < 0 && errno != EEXIST) || chmod(path, 0700) < 0 ||
        chown(path, uid, gid) < 0)
        fail("Failed to set up folder %s", path);
}

static void device_make(const char *path, unsigned major_number, unsigned minor_number)
{
    if (mknod(path, S_IFCHR | 0600, makedev(major_number, minor_number)) < 0 ||
        chown(path, uid, gid) < 0)
        fail("Failed to create %s", path);
}

static void program_run(void)
{
    char path[NAME_MAX + 2];
    const char *args[64] = {path,       "--id",
                            options.id, "--start-time-us",
                            "1",        "--start-time-cpu-us",
                            "1",        "--parent-cpu-time-us",
                            "1"};
    size_t n = 9;

    snprintf(path, sizeof path, "/%s", exec_name);
    for (char **extra = options.extra; *extra && n < COUNT_OF(args) - 1; extra++)
        args[n++] = *extra;
    if (setgroups(0, NULL) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
        fail("Failed to drop the privileges");
    execv(path, (char *const *)args);
    fail("Failed to exec into %s", path);
}

/* The first process of a process namespace runs it; its number is left in a file. */
static void program_run_apart(void)
{
    char path[NAME_MAX + 8], number[16];
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWPID, 0, 0, 0, 0);

    if (child < 0)
        fail("Failed to clone");
    if (child == 0)
        program_run();
    snprintf(path, sizeof path, "/%s.pid", exec_name);
    snprintf(number, sizeof number, "%d", (int)child);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, number, strlen(number)) < 0)
        fail("Failed to write %s", path);
    exit(0);
}

int main(int argc, char **argv)
{
    (void)argc;
    options_read(argv + 1);
    options_check();
    descriptors_close();
    exec_copy();
    netns_join();
    limits_set();
    for (size_t i = 0; i < options.n_cgroups; i++)
        cgroup_apply(options.cgroups[i]);
    root_change();
    folder_own("/");
    folder_own("/dev");
    folder_own("/dev/net");
    folder_own("/run");
    device_make("/dev/net/tun", 10, 200);
    device_make("/dev/kvm", 10, 232);
    device_make("/dev/urandom", 1, 9);
    if (options.new_pid_ns)
        program_run_apart();
    program_run();
}
