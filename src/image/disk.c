#include "image/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "base/own.h"

int disk_open(int root, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };

    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
}

int disk_open_parent(int root, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];

    *name = slash ? slash + 1 : path;
    if (!slash)
        return disk_open(root, "", O_RDONLY | O_DIRECTORY);
    size_t len = (size_t)(slash - path);
    if (len >= sizeof parent) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, path, len);
    parent[len] = '\0';
    return disk_open(root, parent, O_RDONLY | O_DIRECTORY);
}

bool disk_sync(int fd, const char *what, struct error *err)
{
    return fsync(fd) == 0 || error_errno(err, "fsync %s", what);
}

void disk_temporary(char name[DISK_TEMPORARY])
{
    char id[ID_TEXT];

    id_make(id);
    (void)snprintf(name, DISK_TEMPORARY, ".new-%s", id);
}

bool disk_has(int folder, const char *name)
{
    struct stat found;

    return fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

static void close_folder(DIR **folder)
{
    if (*folder)
        (void)closedir(*folder);
}

/* A stream with its own offset over an open folder. */
static DIR *open_stream(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream && fd >= 0)
        close(fd);
    return stream;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool open_lock(int folder, const char *name, int *fd, struct error *err)
{
    *fd = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return *fd >= 0 || error_errno(err, "open %s", name);
}

bool disk_lock(int folder, const char *name, bool is_shared, int *fd, struct error *err)
{
    AUTO_FD int lock = -1;

    if (!open_lock(folder, name, &lock, err))
        return false;
    while (flock(lock, is_shared ? LOCK_SH : LOCK_EX) != 0)
        if (errno != EINTR)
            return error_errno(err, "lock %s", name);
    *fd = take_fd(&lock);
    return true;
}

bool disk_try_lock(int folder, const char *name, int *fd, struct error *err)
{
    AUTO_FD int lock = -1;

    *fd = -1;
    if (!open_lock(folder, name, &lock, err))
        return false;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0)
        *fd = take_fd(&lock);
    else if (errno != EWOULDBLOCK)
        return error_errno(err, "lock %s", name);
    return true;
}

static void add_name(struct disk_names *list, size_t *room, const char *name)
{
    if (list->n == *room) {
        *room = *room ? *room * 2 : 64;
        list->names = alloc_more(list->names, *room * sizeof *list->names);
    }
    list->names[list->n++] = alloc_text(name);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void disk_names_sort(struct disk_names *names)
{
    if (names->n)
        qsort(names->names, names->n, sizeof *names->names, by_bytes);
}

bool disk_list(int folder, size_t max, struct disk_names *names, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names list = {0};
    AUTO(close_folder) DIR *stream = open_stream(folder);
    size_t room = 0;

    if (!stream)
        return error_errno(err, "open a folder");
    for (struct dirent *entry; (errno = 0, entry = readdir(stream));) {
        if (is_dots(entry->d_name))
            continue;
        if (list.n == max)
            return error_set(err, ERR_TOO_LARGE, "a folder has over %zu entries", max);
        add_name(&list, &room, entry->d_name);
    }
    if (errno)
        return error_errno(err, "read a folder");
    disk_names_sort(&list);
    *names = list;
    list = (struct disk_names){0};
    return true;
}

void disk_names_finish(struct disk_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct disk_names){0};
}
