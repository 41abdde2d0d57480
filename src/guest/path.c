#include "guest/path.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/own.h"

enum { PATH_TEXT_MAX = 4096, NAME_TEXT_MAX = 256 };

static bool is_clean_component(struct str name)
{
    return name.len > 0 && name.len < NAME_TEXT_MAX && !str_equal(name, STR(".")) &&
           !str_equal(name, STR(".."));
}

bool path_is_clean(struct str path)
{
    if (path.len == 0 || path.len >= PATH_TEXT_MAX || path.ptr[0] != '/' ||
        memchr(path.ptr, 0, path.len))
        return false;
    if (path.len == 1)
        return true;

    struct str rest = {path.ptr + 1, path.len - 1}, name;
    while (str_split(&rest, '/', &name)) {
        if (!is_clean_component(name))
            return false;
    }
    return true;
}

static bool refuse(struct error *err, const char *path)
{
    int sys = errno;

    if (sys == ELOOP || sys == ENOTDIR)
        return error_set(err, ERR_FORBIDDEN, "%s passes through a link or a file", path);
    if (sys == ENOENT)
        return error_set(err, ERR_NOT_FOUND, "%s is not there", path);
    return error_errno(err, "%s", path);
}

/* Without O_DIRECTORY: gVisor follows a link when both it and O_NOFOLLOW are asked for. */
static int open_directory(int parent, const char *name)
{
    AUTO_FD int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;

    if (fd < 0 || fstat(fd, &info) != 0)
        return -1;
    if (!S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    return take_fd(&fd);
}

/* Steps from *dir into `name`, making it when asked. */
static bool step(int *dir, struct str name, bool makes, const char *path, struct error *err)
{
    char text[NAME_TEXT_MAX];

    snprintf(text, sizeof text, "%.*s", (int)name.len, name.ptr);
    if (makes && mkdirat(*dir, text, 0755) != 0 && errno != EEXIST)
        return error_errno(err, "making %s for %s", text, path);

    int next = open_directory(*dir, text);
    if (next < 0)
        return refuse(err, path);
    close(*dir);
    *dir = next;
    return true;
}

bool path_parent(const char *root, const char *path, bool makes, int *parent, const char **name,
                 struct error *err)
{
    const char *last = strrchr(path, '/');

    if (!path_is_clean(str_of(path)) || !last[1])
        return error_set(err, ERR_FORBIDDEN, "%s is no clean absolute path", path);

    AUTO_FD int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, "open %s", root);
    struct str rest = {path + 1, (size_t)(last - path)}, piece;
    while (str_split(&rest, '/', &piece) && piece.len) {
        if (!step(&dir, piece, makes, path, err))
            return false;
    }
    *parent = take_fd(&dir);
    *name = last + 1;
    return true;
}

bool path_kind(const char *root, const char *path, enum path_kind *kind, struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name = "";
    struct stat info;
    struct error problem;

    if (!path_parent(root, path, false, &parent, &name, &problem)) {
        if (problem.code == ERR_NOT_FOUND) {
            *kind = PATH_ABSENT;
            return true;
        }
        *err = problem;
        return false;
    }
    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            return error_errno(err, "%s", path);
        *kind = PATH_ABSENT;
    } else {
        *kind = S_ISDIR(info.st_mode)   ? PATH_DIRECTORY
                : S_ISLNK(info.st_mode) ? PATH_LINK
                                        : PATH_OTHER;
    }
    return true;
}

bool path_make(const char *root, const char *path, mode_t mode, bool *is_new, struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name = "";

    if (!path_parent(root, path, true, &parent, &name, err))
        return false;
    *is_new = mkdirat(parent, name, mode) == 0;
    if (!*is_new && errno != EEXIST)
        return error_errno(err, "making %s", path);

    AUTO_FD int made = open_directory(parent, name);
    if (made < 0)
        return refuse(err, path);
    /* The umask may have taken bits away. */
    if (*is_new && fchmod(made, mode) != 0)
        return error_errno(err, "mode of %s", path);
    return true;
}

bool path_write(const char *root, const char *path, mode_t mode, struct str text, struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name = "";

    if (!path_parent(root, path, true, &parent, &name, err) || parent < 0)
        return false;
    if (unlinkat(parent, name, 0) != 0 && errno != ENOENT)
        return error_errno(err, "removing %s", path);

    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    AUTO_FD int fd = openat(parent, name, flags, mode);
    if (fd < 0)
        return error_errno(err, "making %s", path);
    if (!fd_write_all(fd, text, err))
        return error_wrap(err, "writing %s", path);
    if (fchmod(fd, mode) != 0)
        return error_errno(err, "mode of %s", path);
    return true;
}

bool path_read(const char *root, const char *path, size_t limit, char **text, struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name = "";
    struct stat info;

    if (!path_parent(root, path, false, &parent, &name, err) || parent < 0)
        return false;
    AUTO_FD int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return error_set(err, ERR_NOT_FOUND, "%s is no file", path);
    return fd_read_all(fd, path, limit, text, err);
}
