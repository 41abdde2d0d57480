#include "engine/oci/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/own.h"
#include "engine/mount.h"

static bool map_write(pid_t pid, const char *file, struct error *err)
{
    char path[64], map[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    int len = snprintf(map, sizeof(map), "0 %d %d", MAPPED_BASE, MAPPED_IDS);
    AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return (fd >= 0 && write(fd, map, (size_t)len) == len) ||
           error_errno(err, "write the %s", file);
}

/* A namespace needs a process to be born in; it may go as soon as we hold the descriptor. */
static bool userns_make(int *fd, struct error *err)
{
    int ready[2];
    char path[64], byte;

    if (pipe2(ready, O_CLOEXEC) < 0)
        return error_errno(err, "make a pipe");
    AUTO_FD int reader = ready[0];
    AUTO_FD int writer = ready[1];
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, "fork");
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER) == 0 && write(writer, "1", 1) == 1)
            (void)pause();
        _exit(1);
    }
    close(take_fd(&writer));

    bool ok = (read(reader, &byte, 1) == 1 ||
               error_set(err, ERR_UNSUPPORTED, "no user namespace can be made here")) &&
              map_write(pid, "uid_map", err) && map_write(pid, "gid_map", err);
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    *fd = ok ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    int failure = errno;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    errno = failure;
    if (ok && *fd < 0)
        return error_errno(err, "hold a user namespace");
    return ok;
}

bool mapped_open(struct mapped *mapped, const struct sandbox_spec *spec, const char *work_dir,
                 const char *work, struct error *err)
{
    size_t len = strlen(work_dir);

    *mapped = (struct mapped){
        .userns_fd = -1, .spec = spec, .work_dir = work_dir, .work = work, .shown = *spec};
    if (spec->n_binds > MAPPED_BINDS_MAX)
        return error_set(err, ERR_TOO_LARGE, "more than %d binds", MAPPED_BINDS_MAX);
    if (spec->upper && (strncmp(spec->upper, work_dir, len) != 0 || spec->upper[len] != '/'))
        return error_set(err, ERR_INVALID, "%s is not below the work directory", spec->upper);
    for (size_t i = 0; i < spec->n_binds; i++) {
        snprintf(mapped->bind_paths[i], sizeof(mapped->bind_paths[i]), MAPPED_STAGE "/bind%zu", i);
        mapped->binds[i] = spec->binds[i];
        mapped->binds[i].source = mapped->bind_paths[i];
    }
    mapped->shown.binds = mapped->binds;
    mapped->shown.platform = MAPPED_STAGE "/platform";
    if (spec->bundle)
        mapped->shown.bundle = MAPPED_STAGE "/bundle";
    return userns_make(&mapped->userns_fd, err);
}

void mapped_finish(struct mapped *mapped)
{
    auto_close(&mapped->userns_fd);
}

static bool bind_shifted(const struct mapped *mapped, const char *source, const char *target,
                         bool is_writable, struct error *err)
{
    struct mount_attr shift = {.attr_set = MOUNT_ATTR_IDMAP,
                               .userns_fd = (uint64_t)mapped->userns_fd};
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0)
        return error_errno(err, "open %s", source);
    if (!is_writable)
        shift.attr_set |= MOUNT_ATTR_RDONLY;
    if (mkdir(target, 0755) < 0 && errno != EEXIST)
        return error_errno(err, "make %s", target);
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &shift, sizeof(shift)) < 0)
        return error_errno(err, "shift the owners of %s (its file system may not be able to)",
                           source);
    return syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) == 0 ||
           error_errno(err, "show %s", source);
}

/* The overlay makes files as whoever mounted it, who must therefore be an id of the map. */
static bool stack(const struct mapped *mapped, const char *const *layers, const char *upper,
                  const char *work, struct error *err)
{
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
        return error_errno(err, "keep capabilities");
    (void)setfsuid(MAPPED_BASE);
    (void)setfsgid(MAPPED_BASE);
    bool ok = mount_layers(layers, mapped->spec->n_layers, upper, work, MAPPED_STAGE "/image", err);
    (void)setfsuid(0);
    (void)setfsgid(0);
    if (prctl(PR_SET_SECUREBITS, 0) < 0)
        return error_errno(err, "keep capabilities");
    return ok;
}

static bool image_mount(const struct mapped *mapped, struct error *err)
{
    static char paths[MOUNT_LAYERS_MAX][48];
    const char *layers[MOUNT_LAYERS_MAX];
    char upper[PATH_MAX], work[PATH_MAX];
    const struct sandbox_spec *spec = mapped->spec;
    size_t skip = strlen(mapped->work_dir);

    if (spec->n_layers > MOUNT_LAYERS_MAX)
        return error_set(err, ERR_TOO_LARGE, "too many layers");
    for (size_t i = 0; i < spec->n_layers; i++) {
        snprintf(paths[i], sizeof(paths[i]), MAPPED_STAGE "/layer%zu", i);
        layers[i] = paths[i];
        if (!bind_shifted(mapped, spec->layers[i], paths[i], false, err))
            return false;
    }
    if (mkdir(MAPPED_STAGE "/image", 0755) < 0)
        return error_errno(err, "make the image's mount point");
    if (spec->layout == LAYOUT_AGENT || spec->n_layers == 0)
        return spec->n_layers == 0 || stack(mapped, layers, NULL, NULL, err);

    /* Upper and work directory must be seen through the same mount. */
    if (!bind_shifted(mapped, mapped->work_dir, MAPPED_STAGE "/work", true, err))
        return false;
    snprintf(upper, sizeof(upper), MAPPED_STAGE "/work%.*s", PATH_MAX - 64, spec->upper + skip);
    snprintf(work, sizeof(work), MAPPED_STAGE "/work%.*s", PATH_MAX - 64, mapped->work + skip);
    return stack(mapped, layers, upper, work, err);
}

bool mapped_mount(const struct mapped *mapped, struct error *err)
{
    const struct sandbox_spec *spec = mapped->spec;

    if (mount("tmpfs", MAPPED_STAGE, "tmpfs", MS_NODEV, "size=1m,mode=755") < 0)
        return error_errno(err, "mount the stage");
    if (!bind_shifted(mapped, spec->platform, mapped->shown.platform, false, err) ||
        !image_mount(mapped, err))
        return false;
    if (spec->bundle && !bind_shifted(mapped, spec->bundle, mapped->shown.bundle, false, err))
        return false;
    for (size_t i = 0; i < spec->n_binds; i++) {
        const struct sandbox_bind *bind = &spec->binds[i];
        if (!bind_shifted(mapped, bind->source, mapped->bind_paths[i], bind->writable, err))
            return false;
    }
    return true;
}
