#include "cli/local_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/own.h"
#include "cli/tar.h"

enum { STEP = 256 * 1024, DEPTH_MAX = 128, NS_PER_S = 1000000000 };

static bool put(void *arg, struct str bytes, struct error *err)
{
    const struct local_tree *tree = arg;

    return fd_write_all(tree->out, bytes, err);
}

static bool put_contents(struct local_tree *tree, int fd, uint64_t size, const char *path,
                         struct error *err)
{
    AUTO_FREE char *step = alloc(STEP);
    uint64_t left = size;

    while (left > 0) {
        ssize_t got = read(fd, step, left < STEP ? (size_t)left : STEP);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "read %s", path);
        if (got == 0)
            return error_set(err, ERR_CONFLICT, "%s became shorter while it was read; try again",
                             path);
        left -= (uint64_t)got;
        if (!put(tree, (struct str){step, (size_t)got}, err))
            return false;
    }
    return tar_pad(size, put, tree, err);
}

static int64_t time_of(const struct stat *facts)
{
    return facts->st_mtim.tv_sec * (int64_t)NS_PER_S + facts->st_mtim.tv_nsec;
}

static bool put_file(struct local_tree *tree, int folder, const char *name, const char *path,
                     struct error *err)
{
    AUTO_FD int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat facts;

    if (fd < 0 || fstat(fd, &facts) < 0)
        return error_errno(err, "open %s", path);
    const struct tar_entry entry = {
        .kind = TAR_FILE,
        .path = str_of(path),
        .size = (uint64_t)facts.st_size,
        .has_facts = true,
        .mode = facts.st_mode & 07777,
        .mtime_ns = time_of(&facts),
    };
    tree->n_files++;
    return tar_header(&entry, put, tree, err) && put_contents(tree, fd, entry.size, path, err);
}

static bool put_link(struct local_tree *tree, int folder, const char *name, const char *path,
                     const struct stat *facts, struct error *err)
{
    char target[4097];
    ssize_t len = readlinkat(folder, name, target, sizeof target);

    if (len <= 0 || len == (ssize_t)sizeof target)
        return error_errno(err, "read the link %s", path);
    const struct tar_entry entry = {
        .kind = TAR_LINK,
        .path = str_of(path),
        .target = {target, (size_t)len},
        .has_facts = true,
        .mode = 0777,
        .mtime_ns = time_of(facts),
    };
    return tar_header(&entry, put, tree, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in a directory, sorted. */
static bool list_names(int fd, const char *path, struct arena *arena, const char ***names,
                       size_t *n, struct error *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *folder = copy >= 0 ? fdopendir(copy) : NULL;
    AUTO_FREE const char **list = NULL;
    size_t room = 0;

    if (!folder) {
        auto_close(&copy);
        return error_errno(err, "list %s", path);
    }
    *n = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (*n == room) {
            room = room ? 2 * room : 64;
            list = alloc_more(list, room * sizeof *list);
        }
        list[(*n)++] = arena_text(arena, str_of(entry->d_name));
    }
    closedir(folder);
    if (*n > 0)
        qsort(list, *n, sizeof *list, by_text);
    *names = TAKE(list);
    return true;
}

static bool put_folder(struct local_tree *tree, int fd, const char *path, int depth,
                       struct error *err);

static bool put_below(struct local_tree *tree, int folder, const char *name, const char *path,
                      const struct stat *facts, int depth, struct error *err)
{
    const struct tar_entry entry = {
        .kind = TAR_DIRECTORY,
        .path = str_of(path),
        .has_facts = true,
        .mode = facts->st_mode & 07777,
        .mtime_ns = time_of(facts),
    };
    AUTO_FD int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", path);
    return tar_header(&entry, put, tree, err) && put_folder(tree, fd, path, depth + 1, err);
}

static bool put_one(struct local_tree *tree, int folder, const char *name, const char *path,
                    int depth, struct error *err)
{
    struct stat facts;

    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, "look at %s", path);
    if (S_ISREG(facts.st_mode))
        return put_file(tree, folder, name, path, err);
    if (S_ISLNK(facts.st_mode))
        return put_link(tree, folder, name, path, &facts, err);
    if (S_ISDIR(facts.st_mode))
        return put_below(tree, folder, name, path, &facts, depth, err);
    tree->n_skipped++;
    return true;
}

static bool put_folder(struct local_tree *tree, int fd, const char *path, int depth,
                       struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FREE const char **names = NULL;
    size_t n = 0;

    if (depth > DEPTH_MAX)
        return error_set(err, ERR_INVALID, "%s lies over %d folders deep", path, DEPTH_MAX);
    if (!list_names(fd, path, &arena, &names, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *below = arena_printf(&arena, "%s%s%s", path, *path ? "/" : "", names[i]);

        if (!put_one(tree, fd, names[i], below, depth, err))
            return false;
    }
    return true;
}

static bool put_root(struct local_tree *tree, struct error *err)
{
    AUTO_FD int fd = open(tree->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", tree->root);
    return put_folder(tree, fd, "", 0, err);
}

static bool put_single(struct local_tree *tree, struct error *err)
{
    struct stat facts;

    if (fstat(tree->file_fd, &facts) < 0)
        return error_errno(err, "look at %s", tree->name);
    const struct tar_entry entry = {
        .kind = TAR_FILE,
        .path = str_of(tree->name),
        .size = (uint64_t)facts.st_size,
        .has_facts = true,
        .mode = tree->mode,
        .mtime_ns = time_of(&facts),
    };
    tree->n_files++;
    return tar_header(&entry, put, tree, err) &&
           put_contents(tree, tree->file_fd, entry.size, tree->name, err);
}

void local_tree_write(struct local_tree *tree)
{
    bool fine = tree->root ? put_root(tree, &tree->err) : put_single(tree, &tree->err);

    fine = fine && tar_end(put, tree, &tree->err);
    tree->has_failed = !fine;
    close(tree->out);
}
