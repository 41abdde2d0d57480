#include "cli/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/encode.h"
#include "base/own.h"
#include "cli/ignore.h"

enum { PATH_BYTES_MAX = 4096, DEPTH_MAX = 128 };

struct walker {
    const struct upload_request *request;
    struct walk *walk;
    int depth;
};

static void close_directory(DIR **directory)
{
    if (*directory)
        closedir(*directory);
}

void walk_finish(struct walk *walk)
{
    free(walk->entries);
    arena_finish(&walk->arena);
    *walk = (struct walk){0};
}

static bool add(struct walk *walk, const struct tar_entry *entry, struct error *err)
{
    if (walk->n == UPLOAD_ENTRIES_MAX)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE,
                         "the project has over %d files; put what the tasks do not need elsewhere",
                         UPLOAD_ENTRIES_MAX);
    if (walk->bytes + entry->size > UPLOAD_BYTES_MAX)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE,
                         "the project is over 512 MiB (at %.*s); put large data elsewhere",
                         (int)(entry->path.len > 200 ? 200 : entry->path.len), entry->path.ptr);
    if (walk->n == walk->room) {
        walk->room = walk->room ? 2 * walk->room : 256;
        struct tar_entry *longer = realloc(walk->entries, walk->room * sizeof *longer);
        if (!longer)
            abort();
        walk->entries = longer;
    }
    walk->entries[walk->n++] = *entry;
    walk->bytes += entry->size;
    return true;
}

static bool add_link(struct walker *walker, int fd, const char *name, struct str path,
                     struct error *err)
{
    char target[PATH_BYTES_MAX];
    ssize_t len = readlinkat(fd, name, target, sizeof target);

    if (len < 0)
        return error_errno(err, "read the link %s", path.ptr);
    if ((size_t)len == sizeof target)
        return error_set(err, ERR_INVALID, "%s: the target of the link is too long", path.ptr);

    struct tar_entry entry = {
        .kind = TAR_LINK,
        .path = path,
        .target = arena_str(&walker->walk->arena, (struct str){target, (size_t)len}),
    };

    if (ignore_link_stays_inside(path, entry.target))
        return add(walker->walk, &entry, err);
    if (walker->request->skipped)
        walker->request->skipped(walker->request->skipped_arg, path.ptr, entry.target.ptr);
    return true;
}

static bool add_directory(struct walker *walker, int parent_fd, const char *name, struct str path,
                          struct error *err);

static bool add_child(struct walker *walker, int fd, const char *name, struct str path,
                      struct error *err)
{
    struct stat info;

    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, "%s", path.ptr);
    if (S_ISLNK(info.st_mode))
        return add_link(walker, fd, name, path, err);
    if (S_ISDIR(info.st_mode))
        return add_directory(walker, fd, name, path, err);
    if (!S_ISREG(info.st_mode))
        return error_set(err, ERR_INVALID,
                         "%s is a socket, pipe or device: remove it from the project", path.ptr);

    const struct tar_entry entry = {
        .kind = TAR_FILE,
        .path = path,
        .size = (uint64_t)info.st_size,
        .is_executable = (info.st_mode & S_IXUSR) != 0,
    };

    return add(walker->walk, &entry, err);
}

static bool check_name(const char *name, struct str path, struct error *err)
{
    if (!utf8_is_valid(str_of(name)))
        return error_set(err, ERR_INVALID, "%.300s: a name that is not UTF-8 cannot be archived",
                         path.ptr);
    if (path.len > PATH_BYTES_MAX - 2)
        return error_set(err, ERR_INVALID, "%.300s…: the path is too long", path.ptr);
    return true;
}

static bool read_directory(struct walker *walker, DIR *directory, int fd, struct str path,
                           struct error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *child = readdir(directory);

        if (!child)
            return errno == 0 || error_errno(err, "read %s", path.len ? path.ptr : ".");
        if (!strcmp(child->d_name, ".") || !strcmp(child->d_name, "..") ||
            ignore_name(str_of(child->d_name)))
            continue;

        struct str below =
            str_of(arena_printf(&walker->walk->arena, "%s%s%s", path.len ? path.ptr : "",
                                path.len ? "/" : "", child->d_name));

        if (!check_name(child->d_name, below, err) ||
            !add_child(walker, fd, child->d_name, below, err))
            return false;
    }
}

static bool add_directory(struct walker *walker, int parent_fd, const char *name, struct str path,
                          struct error *err)
{
    const struct tar_entry entry = {.kind = TAR_DIRECTORY, .path = path};
    AUTO_FD int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", path.len ? path.ptr : ".");
    if (path.len > 0 && !add(walker->walk, &entry, err))
        return false;
    if (walker->depth == DEPTH_MAX)
        return error_set(err, ERR_INVALID, "%.300s is nested too deeply", path.ptr);

    AUTO(close_directory) DIR *directory = fdopendir(fd);

    if (!directory)
        return error_errno(err, "read %s", path.len ? path.ptr : ".");

    int owned = take_fd(&fd); /* by the DIR */

    walker->depth++;
    bool ok = read_directory(walker, directory, owned, path, err);
    walker->depth--;
    return ok;
}

static int by_path(const void *left, const void *right)
{
    const struct tar_entry *a = left, *b = right;

    return strcmp(a->path.ptr, b->path.ptr);
}

bool walk_collect(int root_fd, const struct upload_request *request, struct walk *walk,
                  struct error *err)
{
    struct walker walker = {.request = request, .walk = walk};

    if (!add_directory(&walker, root_fd, ".", STR(""), err))
        return false;
    if (walk->n > 0)
        qsort(walk->entries, walk->n, sizeof *walk->entries, by_path);
    return true;
}
