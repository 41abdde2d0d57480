#include "engine/firecracker/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/own.h"
#include "engine/mount.h"
#include "engine/sparse.h"

static bool root_make(struct instance *instance, const char *program, int *root, struct error *err)
{
    const char *const names[] = {"jail", program, id_short(instance->record.id), "root"};
    int folder = instance->record.dir_fd;
    char path[PATH_MAX] = "";

    for (size_t i = 0, len = 0; i < COUNT_OF(names); i++) {
        len += (size_t)snprintf(path + len, sizeof(path) - len, "%s%.255s", i ? "/" : "", names[i]);
        if (mkdirat(folder, path, 0700) < 0)
            return error_errno(err, "make %s", path);
    }
    *root = openat(folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *root >= 0 || error_errno(err, "open %s", path);
}

bool files_open(struct instance *instance, const char *program, int64_t saves_bytes,
                struct files *files, struct error *err)
{
    unsigned user = instance_user(instance);

    *files = (struct files){.root = -1, .saves = -1, .user = user};
    if (snprintf(files->path, sizeof(files->path), "%s/jail/%s/%s/root", instance->record.path,
                 program, id_short(instance->record.id)) >= PATH_MAX - 64)
        return error_set(err, ERR_INVALID, "the path of the work directory is too long");
    if (!root_make(instance, program, &files->root, err) ||
        !memory_folder_make(saves_bytes, &files->saves, err))
        return false;
    if (mkdirat(files->root, FILES_SAVES, 0700) < 0 ||
        fchownat(files->saves, "", user, user, AT_EMPTY_PATH) < 0)
        return error_errno(err, "make the folder for saves");
    return true;
}

void files_finish(struct files *files)
{
    for (size_t i = 0; i < files->n_bound; i++)
        auto_close(&files->bound[i].tree);
    auto_close(&files->root);
    auto_close(&files->saves);
}

/* Where the mount will be. */
static bool target_make(struct files *files, const char *name, struct files_bound **bound,
                        struct error *err)
{
    AUTO_FD int fd =
        openat(files->root, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);

    if (fd < 0)
        return error_errno(err, "make %s of the jail", name);
    if (files->n_bound == FILES_BOUND_MAX)
        return error_set(err, ERR_LIMIT, "a machine has at most %d files", FILES_BOUND_MAX);
    *bound = &files->bound[files->n_bound++];
    (*bound)->tree = -1;
    snprintf((*bound)->name, sizeof((*bound)->name), "%s", name);
    return true;
}

static bool file_copy(struct files *files, int from, const char *name, struct error *err)
{
    AUTO_FD int to = openat(files->saves, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

    if (to < 0)
        return error_errno(err, "make a copy of %s", name);
    return sparse_copy(from, to, err);
}

bool files_bind(struct files *files, int folder, const char *source, const char *name,
                struct error *err)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                                MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
    struct files_bound *bound;
    struct stat status;
    AUTO_FD int file = openat(folder, source, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (file < 0)
        return error_errno(err, "open %s", source);
    if (fstat(file, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(err, ERR_INVALID, "%s is no regular file", source);
    if (!target_make(files, name, &bound, err))
        return false;

    bound->tree = open_tree(file, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (bound->tree < 0)
        return folder != AT_FDCWD && errno == EINVAL ? file_copy(files, file, name, err)
                                                     : error_errno(err, "bind %s", source);
    return mount_setattr(bound->tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) == 0 ||
           error_errno(err, "make %s read-only", source);
}

bool files_make(struct files *files, const char *name, int *fd, struct error *err)
{
    AUTO_FD int made =
        openat(files->root, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (made < 0)
        return error_errno(err, "make %s of the jail", name);
    if (fchown(made, files->user, files->user) < 0)
        return error_errno(err, "give %s to user %u", name, files->user);
    *fd = take_fd(&made);
    return true;
}

bool files_make_pipe(struct files *files, const char *name, int *reader, int *writer,
                     struct error *err)
{
    if (mkfifoat(files->root, name, 0600) < 0 ||
        fchownat(files->root, name, files->user, files->user, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, "make %s of the jail", name);

    AUTO_FD int out = openat(files->root, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    AUTO_FD int in = openat(files->root, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (out < 0 || in < 0)
        return error_errno(err, "open %s of the jail", name);
    *reader = take_fd(&out);
    *writer = take_fd(&in);
    return true;
}

bool files_read_open(int folder, const char *name, int *fd, struct error *err)
{
    /* A pipe in its place would wait for a writer. */
    const struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC,
                                 .resolve =
                                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    struct stat status;
    AUTO_FD int opened = (int)syscall(SYS_openat2, folder, name, &how, sizeof(how));

    if (opened < 0)
        return error_errno(err, "open %s of the jail", name);
    if (fstat(opened, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(err, ERR_INVALID, "%s of the jail is no regular file", name);
    *fd = take_fd(&opened);
    return true;
}

/* A path below the root; its length was checked when the root was made. */
static void path_of(const struct files *files, const char *folder, const char *name,
                    char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.*s/%s%s", PATH_MAX - 64, files->path, folder, name);
}

static bool bound_place(const struct files *files, const struct files_bound *bound,
                        struct error *err)
{
    char target[PATH_MAX], copy[PATH_MAX];

    path_of(files, "", bound->name, target);
    path_of(files, FILES_SAVES "/", bound->name, copy);
    if (bound->tree < 0)
        return mount_bind(copy, target, false, err);
    return move_mount(bound->tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) == 0 ||
           error_errno(err, "mount %s", bound->name);
}

bool files_place(const struct files *files, struct error *err)
{
    char saves[PATH_MAX];

    path_of(files, "", FILES_SAVES, saves);
    if (move_mount(files->saves, "", AT_FDCWD, saves, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_errno(err, "mount the folder for saves");
    for (size_t i = 0; i < files->n_bound; i++) {
        if (!bound_place(files, &files->bound[i], err))
            return false;
    }
    return true;
}
