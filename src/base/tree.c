/* tree_remove of base/file.h: recursive removal of what a hostile program may have made. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "base/own.h"

/* A path through so many directories is no tree of ours; each level holds a descriptor. */
enum { DEPTH_MAX = 512 };

/* Without openat2 (gVisor) a single name cannot leave the directory either; a mount shows as
 * another device. */
static int open_beneath(int parent_fd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };
    long fd = syscall(SYS_openat2, parent_fd, name, &how, sizeof how);

    if (fd >= 0 || errno != ENOSYS)
        return (int)fd;

    AUTO_FD int plain = openat(parent_fd, name, (int)how.flags);
    struct stat outer, inner;

    if (plain < 0 || fstat(parent_fd, &outer) < 0 || fstat(plain, &inner) < 0)
        return -1;
    if (outer.st_dev != inner.st_dev) {
        errno = EXDEV;
        return -1;
    }
    return take_fd(&plain);
}

static void close_folder(DIR **folder)
{
    if (*folder)
        closedir(*folder);
}

static bool remove_at(int parent_fd, const char *name, int depth, struct error *err);

static bool remove_entries(int fd, int depth, struct error *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return error_errno(err, "duplicate a directory");

    AUTO(close_folder) DIR *folder = fdopendir(copy);

    if (!folder) {
        close(copy);
        return error_errno(err, "read a directory");
    }
    for (;;) {
        errno = 0;

        const struct dirent *entry = readdir(folder);

        if (!entry)
            return errno ? error_errno(err, "read a directory") : true;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (!remove_at(fd, entry->d_name, depth + 1, err))
            return false;
    }
}

static bool remove_directory(int parent_fd, const char *name, int depth, struct error *err)
{
    AUTO_FD int fd = open_beneath(parent_fd, name);

    if (fd < 0 && errno == ENOENT)
        return true;
    if (fd < 0 && errno == EXDEV)
        return error_set(err, ERR_CONFLICT, "%s is a mount point and is not removed", name);
    if (fd < 0)
        return error_errno(err, "open %s", name);
    if (depth > DEPTH_MAX)
        return error_set(err, ERR_TOO_LARGE, "%s lies over %d directories deep", name, DEPTH_MAX);
    if (!remove_entries(fd, depth, err))
        return error_wrap(err, "%s", name);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return error_errno(err, "remove %s", name);
    return true;
}

static bool remove_at(int parent_fd, const char *name, int depth, struct error *err)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR && errno != EPERM && errno != EBUSY)
        return error_errno(err, "remove %s", name);
    return remove_directory(parent_fd, name, depth, err);
}

bool tree_remove(int parent_fd, const char *name, struct error *err)
{
    if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        return error_set(err, ERR_INVALID, "\"%.64s\" is no name inside a directory", name);
    return remove_at(parent_fd, name, 0, err);
}

bool folder_remove(const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];

    if (!slash || slash == path || !slash[1])
        return error_set(err, ERR_INVALID, "%s is not a path with a parent", path);
    if ((size_t)(slash - path) >= sizeof parent)
        return error_set(err, ERR_TOO_LARGE, "a path is too long");
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';

    AUTO_FD int fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? true : error_errno(err, "open %s", parent);
    return tree_remove(fd, slash + 1, err);
}
