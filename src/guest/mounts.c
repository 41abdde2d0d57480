#include "guest/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/own.h"

enum { TARGET_MAX = 4200, OPTIONS_MAX = 3 * 4200 };

/* Of open_tree and move_mount; not every C library has a name for them. */
enum { TREE_CLONE = 1, TREE_IS_SOURCE = 4 };

bool mount_tmpfs(const char *target, unsigned long flags, const char *options, struct error *err)
{
    if (mount("tmpfs", target, "tmpfs", flags, options) != 0)
        return error_errno(err, "mounting a tmpfs at %s", target);
    return true;
}

bool mount_bind(const char *source, const char *target, bool is_read_only, struct error *err)
{
    unsigned long read_only = is_read_only ? MS_RDONLY : 0;

    /* gVisor binds no trees, and needs none: what it binds has nothing mounted below. */
    if (mount(source, target, NULL, MS_BIND | MS_REC | read_only, NULL) != 0 &&
        (errno != EINVAL || mount(source, target, NULL, MS_BIND | read_only, NULL) != 0))
        return error_errno(err, "binding %s to %s", source, target);
    if (!is_read_only)
        return true;
    unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV;
    if (mount(NULL, target, NULL, flags, NULL) != 0 && errno != EINVAL && errno != EPERM)
        return error_errno(err, "making %s read-only", target);
    return true;
}

static const unsigned long secret_flags = MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;

bool mount_secret(const char *source, const char *target, struct error *err)
{
    if (mount(source, target, NULL, secret_flags, NULL) != 0)
        return error_errno(err, "binding it");
    if (mount(NULL, target, NULL, secret_flags | MS_REMOUNT, NULL) != 0 && errno != EINVAL)
        return error_errno(err, "making it read-only");
    return true;
}

bool mount_tree(const char *source, int *tree, struct error *err)
{
    *tree = (int)syscall(SYS_open_tree, AT_FDCWD, source, TREE_CLONE | O_CLOEXEC);
    return *tree >= 0 || error_errno(err, "copying the mount of %s", source);
}

bool mount_secret_tree(int tree, const char *target, struct error *err)
{
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, target, TREE_IS_SOURCE) != 0)
        return error_errno(err, "attaching it");
    if (mount(NULL, target, NULL, secret_flags | MS_REMOUNT, NULL) != 0)
        return error_errno(err, "making it read-only");
    return true;
}

bool mount_overlay(const char *lower, const char *upper, const char *work, const char *target,
                   struct error *err)
{
    char options[OPTIONS_MAX];
    int len =
        snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work);

    if (len < 0 || (size_t)len >= sizeof options)
        return error_set(err, ERR_TOO_LARGE, "the paths of an overlay are too long");
    if (mount("overlay", target, "overlay", 0, options) != 0)
        return error_errno(err, "mounting an overlay at %s", target);
    return true;
}

bool mount_proc(const char *target, struct error *err)
{
    if (mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return error_errno(err, "mounting %s", target);
    return true;
}

bool mount_pts(const char *target, struct error *err)
{
    unsigned long flags = MS_NOSUID | MS_NOEXEC;

    if (mount("devpts", target, "devpts", flags, "newinstance,ptmxmode=0666,mode=620") == 0 ||
        mount("devpts", target, "devpts", flags, NULL) == 0)
        return true;
    return mount_bind("/dev/pts", target, false, err);
}

bool mount_sys(const char *target, struct error *err)
{
    unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;

    if (mount("sysfs", target, "sysfs", flags, NULL) == 0)
        return true;
    return mount_bind("/sys", target, true, err);
}

static const struct {
    const char *name;
    unsigned major, minor;
} nodes[] = {
    {"null",    1, 3},
    {"zero",    1, 5},
    {"full",    1, 7},
    {"random",  1, 8},
    {"urandom", 1, 9},
    {"tty",     5, 0},
};

static const struct {
    const char *name, *target;
} links[] = {
    {"fd",     "/proc/self/fd"  },
    {"stdin",  "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"},
    {"ptmx",   "pts/ptmx"       },
};

/* Where nodes may not be made (a user namespace) the runtime's are bound. */
static bool make_node(const char *dev, size_t i, struct error *err)
{
    char path[TARGET_MAX], source[64];

    snprintf(path, sizeof path, "%s/%s", dev, nodes[i].name);
    snprintf(source, sizeof source, "/dev/%s", nodes[i].name);
    if (mknod(path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) == 0)
        return chmod(path, 0666) == 0 || error_errno(err, "mode of %s", path);
    if (errno != EPERM)
        return error_errno(err, "making %s", path);

    AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, "making %s", path);
    return mount_bind(source, path, false, err);
}

static bool make_shm(const char *dev, uint64_t bytes, struct error *err)
{
    char path[TARGET_MAX], options[64] = "mode=1777";

    snprintf(path, sizeof path, "%s/shm", dev);
    if (bytes)
        snprintf(options, sizeof options, "mode=1777,size=%llu", (unsigned long long)bytes);
    if (mkdir(path, 01777) != 0)
        return error_errno(err, "making %s", path);
    return mount_tmpfs(path, MS_NOSUID | MS_NODEV, options, err);
}

bool mount_dev(const char *dev, uint64_t shm_bytes, struct error *err)
{
    char path[TARGET_MAX];

    if (!mount_tmpfs(dev, MS_NOSUID, "mode=755,size=64k", err))
        return false;
    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        if (!make_node(dev, i, err))
            return false;
    }
    for (size_t i = 0; i < COUNT_OF(links); i++) {
        snprintf(path, sizeof path, "%s/%s", dev, links[i].name);
        if (symlink(links[i].target, path) != 0)
            return error_errno(err, "making %s", path);
    }
    snprintf(path, sizeof path, "%s/pts", dev);
    if (mkdir(path, 0755) != 0)
        return error_errno(err, "making %s", path);
    return make_shm(dev, shm_bytes, err);
}

static const struct {
    const char *path;
    bool is_hidden; /* else read-only */
    enum proc_mask from;
} masks[] = {
    {"acpi",          true,  MASK_SHARED },
    {"asound",        true,  MASK_SHARED },
    {"kcore",         true,  MASK_SHARED },
    {"keys",          true,  MASK_SHARED },
    {"latency_stats", true,  MASK_SHARED },
    {"scsi",          true,  MASK_SHARED },
    {"timer_list",    true,  MASK_SHARED },
    {"bus",           false, MASK_SHARED },
    {"fs",            false, MASK_SHARED },
    {"irq",           false, MASK_SHARED },
    {"sys",           false, MASK_MACHINE},
    {"sysrq-trigger", false, MASK_SHARED },
};

void mount_masks(const char *proc, enum proc_mask mask)
{
    for (size_t i = 0; i < COUNT_OF(masks); i++) {
        char path[TARGET_MAX];
        struct stat info;
        struct error ignored;

        snprintf(path, sizeof path, "%s/%s", proc, masks[i].path);
        if (mask < masks[i].from || stat(path, &info) != 0)
            continue;
        if (!masks[i].is_hidden)
            (void)!mount_bind(path, path, true, &ignored);
        else if (S_ISDIR(info.st_mode))
            (void)!mount_tmpfs(path, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, &ignored);
        else
            (void)!mount_bind("/dev/null", path, true, &ignored);
    }
}
