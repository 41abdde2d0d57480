#include "guest/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/arena.h"
#include "base/own.h"

enum { PIECE = 32768, NAMES_MAX = 65536 };

/* One level of the walk. */
struct walk_folder {
    struct walk_folder *parent;
    struct arena arena;
    int fd;
    int lower_fd; /* of what is below and can be seen through it, or -1 */
    char **names; /* sorted */
    size_t n, next, cap;
    size_t path_len; /* of the walk's path while here */
};

void walk_init(struct walk *walk, int root_fd, walk_judge *judge, void *arg)
{
    *walk = (struct walk){
        .root_fd = root_fd,
        .lower_fd = -1,
        .path = {.max = TREE_PATH_MAX},
        .judge = judge,
        .arg = arg,
        .file_fd = -1,
    };
}

static void folder_destroy(struct walk_folder *folder)
{
    auto_close(&folder->fd);
    auto_close(&folder->lower_fd);
    free(folder->names);
    arena_finish(&folder->arena);
    free(folder);
}

static void leave_folder(struct walk *walk)
{
    struct walk_folder *folder = walk->folder;

    walk->folder = folder->parent;
    walk->path.len = walk->folder ? walk->folder->path_len : 0;
    folder_destroy(folder);
}

void walk_finish(struct walk *walk)
{
    while (walk->folder)
        leave_folder(walk);
    auto_close(&walk->file_fd);
    walk->file_fd = -1;
    map_finish(&walk->links);
    buf_finish(&walk->path);
}

static bool fail_here(const struct walk *walk, const char *what, struct error *err)
{
    int shown = walk->path.len < 150 ? (int)walk->path.len : 150;

    return error_errno(err, "%s %.*s", what, shown, walk->path.bytes ? walk->path.bytes : "");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_name(struct walk_folder *folder, const char *name)
{
    if (folder->n == folder->cap) {
        size_t cap = folder->cap ? folder->cap * 2 : 16;
        char **grown = alloc(cap * sizeof *grown);
        if (folder->n)
            memcpy(grown, folder->names, folder->n * sizeof *grown);
        free(folder->names);
        folder->names = grown;
        folder->cap = cap;
    }
    folder->names[folder->n++] = arena_text(&folder->arena, str_of(name));
}

static bool read_names(const struct walk *walk, struct walk_folder *folder, struct error *err)
{
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream) {
        auto_close(&fd);
        return fail_here(walk, "reading the directory", err);
    }
    errno = 0;
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            add_name(folder, entry->d_name);
        if (folder->n > TREE_ENTRIES_MAX)
            break;
        errno = 0;
    }
    bool is_fine = errno == 0 || fail_here(walk, "reading the directory", err);
    closedir(stream);
    if (folder->n > 1)
        qsort(folder->names, folder->n, sizeof *folder->names, compare_names);
    return is_fine;
}

/* Takes the descriptors. */
static bool enter_folder(struct walk *walk, int fd, int lower_fd, struct error *err)
{
    struct walk_folder *folder = alloc(sizeof *folder);

    *folder = (struct walk_folder){
        .parent = walk->folder,
        .fd = fd,
        .lower_fd = lower_fd,
        .path_len = walk->path.len,
    };
    walk->folder = folder;
    return read_names(walk, folder, err);
}

static bool is_kept_name(const char *name)
{
    return (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0) ||
           strcmp(name, "security.capability") == 0;
}

static bool append_xattr(int fd, const char *name, struct buf *out, struct error *err)
{
    AUTO_FREE char *value = alloc(TREE_XATTRS_MAX);
    ssize_t len = fgetxattr(fd, name, value, TREE_XATTRS_MAX);

    if (len < 0)
        return errno == ENODATA || error_errno(err, "reading the attribute %.100s", name);
    return tree_xattr_append(out, str_of(name), (struct str){value, (size_t)len}, err);
}

/* Of file systems without attributes there are none. */
static bool read_xattrs(int fd, struct buf *out, struct error *err)
{
    AUTO_FREE char *list = alloc(NAMES_MAX);
    ssize_t len = flistxattr(fd, list, NAMES_MAX);
    AUTO(arena_finish) struct arena arena = {0};
    size_t n = 0;

    if (len < 0)
        return errno == ENOTSUP || errno == ENOSYS || error_errno(err, "reading the attributes");
    char **names = arena_array(&arena, (size_t)len + 1, sizeof *names);
    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(list + at) + 1) {
        if (is_kept_name(list + at))
            names[n++] = list + at;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 0; i < n; i++) {
        if (!append_xattr(fd, names[i], out, err))
            return false;
    }
    return true;
}

/* Whether the name is there without what was laid over it. */
static bool is_below(const struct walk *walk, const char *name)
{
    struct stat info;

    return walk->folder->lower_fd >= 0 &&
           fstatat(walk->folder->lower_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The directory of that name below, or -1. */
static int open_below(const struct walk *walk, const char *name)
{
    if (walk->folder->lower_fd < 0)
        return -1;
    return openat(walk->folder->lower_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool put_entry(struct walk *walk, struct tree_entry *entry, const struct stat *info,
                      struct buf *out, struct error *err)
{
    entry->path = buf_str(&walk->path);
    if (entry->kind != TREE_WHITEOUT) {
        entry->mode = info->st_mode & 07777;
        entry->uid = info->st_uid;
        entry->gid = info->st_gid;
        entry->mtime_ns = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
    }
    if (++walk->n_entries > TREE_ENTRIES_MAX)
        return error_set(err, ERR_TOO_LARGE, "over %d files, at %.*s", TREE_ENTRIES_MAX,
                         walk->path.len < 150 ? (int)walk->path.len : 150, walk->path.bytes);
    walk->n_bytes += entry->size;
    if (walk->n_bytes > TREE_BYTES_MAX)
        return error_set(err, ERR_TOO_LARGE, "over 64 GiB, at %.*s",
                         walk->path.len < 150 ? (int)walk->path.len : 150, walk->path.bytes);
    return tree_encode_entry(out, entry, err);
}

/* Opens what was looked at, and nothing that took its place. */
static int open_same(const struct walk *walk, const char *name, const struct stat *info)
{
    AUTO_FD int fd = openat(walk->folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat opened;

    if (fd < 0 || fstat(fd, &opened) != 0)
        return -1;
    if (opened.st_ino != info->st_ino || opened.st_dev != info->st_dev) {
        errno = ESTALE;
        return -1;
    }
    return take_fd(&fd);
}

/* The first name of a file carries the contents; the others refer to it. */
static void note_link(struct walk *walk, const struct stat *info, struct tree_entry *entry)
{
    const uint64_t key[2] = {info->st_dev, info->st_ino};
    struct str bytes = {(const char *)key, sizeof key};

    if (info->st_nlink < 2)
        return;
    entry->link_group = (uint64_t)(uintptr_t)map_find(&walk->links, bytes);
    entry->is_linked = entry->link_group != 0;
    if (entry->is_linked)
        return;
    entry->link_group = walk->links.count + 1;
    map_put(&walk->links, bytes, (void *)(uintptr_t)entry->link_group);
}

static bool put_file(struct walk *walk, const char *name, const struct stat *info, struct buf *out,
                     struct error *err)
{
    AUTO(buf_finish) struct buf xattrs = {.max = TREE_XATTRS_MAX};
    struct tree_entry entry = {.kind = TREE_FILE, .is_cover = is_below(walk, name)};

    note_link(walk, info, &entry);
    if (entry.is_linked)
        return put_entry(walk, &entry, info, out, err);
    AUTO_FD int fd = open_same(walk, name, info);
    if (fd < 0)
        return fail_here(walk, "open", err);
    if (!read_xattrs(fd, &xattrs, err))
        return false;
    entry.size = (uint64_t)info->st_size;
    entry.xattrs = buf_str(&xattrs);
    if (!put_entry(walk, &entry, info, out, err))
        return false;
    walk->file_left = entry.size;
    if (walk->file_left)
        walk->file_fd = take_fd(&fd);
    return true;
}

static bool is_opaque(int fd)
{
    char value[4];

    return fgetxattr(fd, "trusted.overlay.opaque", value, sizeof value) == 1 && value[0] == 'y';
}

static bool put_folder(struct walk *walk, const char *name, const struct stat *info,
                       struct buf *out, struct error *err)
{
    AUTO(buf_finish) struct buf xattrs = {.max = TREE_XATTRS_MAX};
    AUTO_FD int fd = open_same(walk, name, info);

    if (fd < 0)
        return fail_here(walk, "open", err);
    if (!read_xattrs(fd, &xattrs, err))
        return false;
    struct tree_entry entry = {
        .kind = TREE_DIRECTORY,
        .xattrs = buf_str(&xattrs),
        .is_cover = is_below(walk, name),
    };
    /* Where there is nothing to hide the mark says how the folder was made, and no more. */
    entry.is_opaque = is_opaque(fd) && (walk->lower_fd < 0 || entry.is_cover);
    if (!put_entry(walk, &entry, info, out, err))
        return false;
    return enter_folder(walk, take_fd(&fd), entry.is_opaque ? -1 : open_below(walk, name), err);
}

static bool put_symlink(struct walk *walk, const char *name, const struct stat *info,
                        struct buf *out, struct error *err)
{
    char target[TREE_TARGET_MAX];
    ssize_t len = readlinkat(walk->folder->fd, name, target, sizeof target);

    if (len < 0)
        return fail_here(walk, "reading the link", err);
    struct tree_entry entry = {
        .kind = TREE_SYMLINK,
        .target = {target, (size_t)len},
        .is_cover = is_below(walk, name),
    };
    return put_entry(walk, &entry, info, out, err);
}

static bool put_any(struct walk *walk, const char *name, const struct stat *info, struct buf *out,
                    struct error *err)
{
    struct tree_entry entry = {.kind = TREE_FIFO, .is_cover = is_below(walk, name)};

    switch (info->st_mode & S_IFMT) {
    case S_IFREG: return put_file(walk, name, info, out, err);
    case S_IFDIR: return put_folder(walk, name, info, out, err);
    case S_IFLNK: return put_symlink(walk, name, info, out, err);
    case S_IFIFO: return put_entry(walk, &entry, info, out, err);
    default: break;
    }
    if (S_ISCHR(info->st_mode) && info->st_rdev == makedev(0, 0)) {
        /* Of what a program made and took away again the overlay may leave one, too. */
        if (walk->lower_fd >= 0 && !entry.is_cover)
            return true;
        entry = (struct tree_entry){.kind = TREE_WHITEOUT};
        return put_entry(walk, &entry, info, out, err);
    }
    walk->n_skipped++;
    return true;
}

/* Sets the walk's path to that of a name in the folder. */
static bool step_to(struct walk *walk, const char *name, struct error *err)
{
    walk->path.len = walk->folder->path_len;
    return (!walk->path.len || buf_append(&walk->path, STR("/"), err)) &&
           buf_append(&walk->path, str_of(name), err);
}

/* Whether everything in the folder, which is not to be in the tree, is not either. */
static bool is_left_whole(struct walk *walk, const char *name, const struct stat *info, bool *is,
                          struct error *err)
{
    AUTO_FD int fd = open_same(walk, name, info);
    size_t len = walk->path.len;

    *is = true;
    if (fd < 0)
        return fail_here(walk, "open", err);
    bool is_fine = enter_folder(walk, take_fd(&fd), -1, err);
    for (size_t i = 0; is_fine && *is && i < walk->folder->n; i++) {
        const char *child = walk->folder->names[i];
        struct stat inside;
        is_fine = step_to(walk, child, err);
        enum walk_verdict verdict =
            is_fine ? walk->judge(walk->arg, buf_str(&walk->path)) : WALK_TAKE;
        *is = verdict != WALK_TAKE;
        if (is_fine && verdict == WALK_LEAVE_WHEN_EMPTY)
            is_fine = fstatat(walk->folder->fd, child, &inside, AT_SYMLINK_NOFOLLOW) == 0
                          ? is_left_whole(walk, child, &inside, is, err)
                          : fail_here(walk, "looking at", err);
    }
    leave_folder(walk);
    walk->path.len = len;
    return is_fine;
}

static bool visit(struct walk *walk, const char *name, struct buf *out, struct error *err)
{
    struct stat info;
    bool is_left = false;

    if (!step_to(walk, name, err))
        return error_wrap(err, "the path of %.100s", name);
    if (fstatat(walk->folder->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_here(walk, "looking at", err);
    if (info.st_dev != walk->device) {
        walk->n_skipped++;
        return true;
    }
    enum walk_verdict verdict =
        walk->judge ? walk->judge(walk->arg, buf_str(&walk->path)) : WALK_TAKE;
    if (verdict == WALK_LEAVE_WHEN_EMPTY && S_ISDIR(info.st_mode) &&
        !is_left_whole(walk, name, &info, &is_left, err))
        return false;
    if (verdict == WALK_LEAVE || is_left)
        return true;
    return put_any(walk, name, &info, out, err);
}

static bool begin(struct walk *walk, struct buf *out, struct error *err)
{
    struct stat info;
    AUTO_FD int fd = openat(walk->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    walk->has_begun = true;
    if (fd < 0 || fstat(fd, &info) != 0)
        return error_errno(err, "open the root of a walk");
    walk->device = info.st_dev;
    AUTO_FD int lower =
        walk->lower_fd < 0 ? -1 : openat(walk->lower_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk->lower_fd >= 0 && lower < 0)
        return error_errno(err, "open what a walk is laid over");
    return tree_encode_start(out, err) && enter_folder(walk, take_fd(&fd), take_fd(&lower), err);
}

static bool read_piece(struct walk *walk, struct buf *out, struct error *err)
{
    char bytes[PIECE];
    size_t wanted = walk->file_left < sizeof bytes ? (size_t)walk->file_left : sizeof bytes;
    ssize_t got = read(walk->file_fd, bytes, wanted);

    if (got < 0)
        return errno == EINTR || fail_here(walk, "reading", err);
    if (got == 0)
        return error_set(err, ERR_CONFLICT, "a file became shorter while it was read");
    walk->file_left -= (uint64_t)got;
    if (walk->file_left == 0)
        close(take_fd(&walk->file_fd));
    return buf_append(out, (struct str){bytes, (size_t)got}, err);
}

bool walk_step(struct walk *walk, struct buf *out, struct error *err)
{
    struct walk_folder *folder = walk->folder;

    if (!walk->has_begun)
        return begin(walk, out, err);
    if (walk->file_fd >= 0)
        return read_piece(walk, out, err);
    if (!folder) {
        walk->is_done = true;
        return tree_encode_finish(out, err);
    }
    if (folder->next < folder->n)
        return visit(walk, folder->names[folder->next++], out, err);
    leave_folder(walk);
    return true;
}
