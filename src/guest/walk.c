#include "guest/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/own.h"

/* One level of the walk. */
struct walk_folder {
    struct walk_folder *parent;
    struct arena arena;
    int fd;
    int lower_fd;       /* of what is below and can be seen through it, or -1 */
    const char **names; /* sorted */
    size_t n, next;
    size_t path_len;            /* of the walk's path while here */
    struct seen_folder *before; /* what the table has of it, or NULL */
    struct seen_folder *made;   /* for the next table, until the one above has it; or NULL */
    uint64_t print;
};

void walk_init(struct walk *walk, int root_fd, walk_judge *judge, void *arg)
{
    *walk = (struct walk){
        .root_fd = root_fd,
        .lower_fd = -1,
        .path = {.max = TREE_PATH_MAX},
        .listing = {.max = KIB(64)},
        .judge = judge,
        .arg = arg,
        .file_fd = -1,
    };
}

enum { SPENT_MAX = 64 };

/* All at once: a system call costs what reading a file does. */
static void close_spent(struct walk *walk)
{
    int from = walk->spent, n = walk->n_spent;

    walk->n_spent = 0;
    if (n > 1 && syscall(SYS_close_range, from, from + n - 1, 0) == 0)
        return;
    for (int fd = from; fd < from + n; fd++)
        close(fd);
}

/* Numbers are given out in ascending order, as a rule: all in the range are ours. */
static void spend(struct walk *walk, int fd)
{
    if (walk->n_spent == SPENT_MAX || (walk->n_spent > 0 && fd != walk->spent + walk->n_spent))
        close_spent(walk);
    if (walk->n_spent++ == 0)
        walk->spent = fd;
}

static void folder_destroy(struct walk *walk, struct walk_folder *folder)
{
    if (folder->made)
        seen_folder_destroy(walk->seen, folder->made);
    auto_close(&folder->fd);
    auto_close(&folder->lower_fd);
    arena_finish(&folder->arena);
    free(folder);
}

/* A path for system calls; the walk's own has no end. */
static const char *path_text(const struct walk *walk, char text[TREE_PATH_MAX])
{
    if (walk->path.len)
        memcpy(text, walk->path.bytes, walk->path.len);
    text[walk->path.len] = '\0';
    return text;
}

/* Everything in it has been seen. */
static void remember_folder(struct walk *walk, struct walk_folder *folder)
{
    char path[TREE_PATH_MAX];
    struct walk_folder *above = folder->parent;

    walk->path.len = folder->path_len;
    if (folder->lower_fd >= 0)
        seen_watch_below(walk->seen, folder->made, path_text(walk, path), folder->lower_fd);
    if (!above) {
        walk->made = TAKE(folder->made);
        return;
    }
    const struct seen_entry entry = {.print = folder->print,
                                     .folder = folder->made,
                                     .kind = TREE_DIRECTORY};
    if (above->made)
        seen_add(walk->seen, above->made, TAKE(folder->made)->name, &entry);
}

static void leave_folder(struct walk *walk)
{
    struct walk_folder *folder = walk->folder;

    close_spent(walk);
    if (folder->made && folder->next == folder->n && walk->is_remembering)
        remember_folder(walk, folder);
    walk->folder = folder->parent;
    walk->path.len = walk->folder ? walk->folder->path_len : 0;
    folder_destroy(walk, folder);
}

void walk_finish(struct walk *walk)
{
    walk->is_remembering = false;
    while (walk->folder)
        leave_folder(walk);
    if (walk->made)
        seen_folder_destroy(walk->seen, walk->made);
    close_spent(walk);
    auto_close(&walk->file_fd);
    walk->file_fd = -1;
    map_finish(&walk->links);
    buf_finish(&walk->path);
    buf_finish(&walk->listing);
}

static bool fail_here(const struct walk *walk, const char *what, struct error *err)
{
    int shown = walk->path.len < 150 ? (int)walk->path.len : 150;

    return error_errno(err, "%s %.*s", what, shown, walk->path.bytes ? walk->path.bytes : "");
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
    return walk_names(fd, &walk->listing, &folder->arena, &folder->names, &folder->n, err) ||
           fail_here(walk, "reading the directory", err);
}

/* A folder that belongs into the tree, unlike those that are only looked into. */
static bool descend(struct walk *walk, int fd, int lower_fd, const struct stat *info,
                    struct seen_folder *before, struct error *err)
{
    struct walk_folder *above = walk->folder;
    char path[TREE_PATH_MAX];

    if (!enter_folder(walk, fd, lower_fd, err))
        return false;
    struct walk_folder *folder = walk->folder;
    folder->before = before && before->inode == info->st_ino ? before : NULL;
    folder->print = seen_print(info);
    if (walk->is_remembering && (!above || above->made))
        folder->made = seen_folder_make(walk->seen, above ? above->made : NULL,
                                        path_text(walk, path), info->st_ino);
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
    return walk->is_silent || tree_encode_entry(out, entry, err);
}

/* Nobody is there to put something else in the place of what was looked at. */
static int open_inside(const struct walk *walk, const char *name, int flags)
{
    return openat(walk->folder->fd, name, flags | O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
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
    walk->n_names_missing += entry->is_linked ? (uint64_t)-1 : (uint64_t)info->st_nlink - 1;
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
    if (entry.is_linked || walk->is_silent)
        return put_entry(walk, &entry, info, out, err);
    AUTO_FD int fd = open_inside(walk, name, 0);
    if (fd < 0)
        return fail_here(walk, "open", err);
    if (!walk_xattrs(fd, &xattrs, err))
        return false;
    entry.size = (uint64_t)info->st_size;
    entry.xattrs = buf_str(&xattrs);
    if (!put_entry(walk, &entry, info, out, err))
        return false;
    walk->file_left = entry.size;
    walk->n_read++;
    walk->bytes_read += entry.size;
    if (walk->file_left)
        walk->file_fd = take_fd(&fd);
    else
        spend(walk, take_fd(&fd));
    return true;
}

static bool is_opaque(int fd)
{
    char value[4];

    return fgetxattr(fd, "trusted.overlay.opaque", value, sizeof value) == 1 && value[0] == 'y';
}

static bool put_folder(struct walk *walk, const char *name, const struct stat *info,
                       const struct seen_entry *known, struct buf *out, struct error *err)
{
    AUTO(buf_finish) struct buf xattrs = {.max = TREE_XATTRS_MAX};
    AUTO_FD int fd = open_inside(walk, name, O_DIRECTORY);

    if (fd < 0)
        return fail_here(walk, "open", err);
    if (!walk->is_silent && !walk_xattrs(fd, &xattrs, err))
        return false;
    struct tree_entry entry = {
        .kind = TREE_DIRECTORY,
        .xattrs = buf_str(&xattrs),
        .is_cover = is_below(walk, name),
    };
    /* Where there is nothing to hide the mark says how the folder was made, and no more. */
    entry.is_opaque = (walk->lower_fd < 0 || entry.is_cover) && is_opaque(fd);
    if (!put_entry(walk, &entry, info, out, err))
        return false;
    int below = entry.is_opaque ? -1 : open_below(walk, name);
    return descend(walk, take_fd(&fd), below, info, known ? known->folder : NULL, err);
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

static bool put_any(struct walk *walk, const char *name, const struct stat *info,
                    const struct seen_entry *known, struct buf *out, struct error *err)
{
    struct tree_entry entry = {.kind = TREE_FIFO, .is_cover = is_below(walk, name)};

    switch (info->st_mode & S_IFMT) {
    case S_IFREG: return put_file(walk, name, info, out, err);
    case S_IFDIR: return put_folder(walk, name, info, known, out, err);
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
static bool is_left_whole(struct walk *walk, const char *name, bool *is, struct error *err)
{
    AUTO_FD int fd = open_inside(walk, name, O_DIRECTORY);
    size_t len = walk->path.len;

    *is = true;
    if (fd < 0)
        return fail_here(walk, "open", err);
    bool is_fine = enter_folder(walk, take_fd(&fd), -1, err);
    for (size_t i = 0; is_fine && *is && i < walk->folder->n; i++) {
        const char *child = walk->folder->names[i];
        is_fine = step_to(walk, child, err);
        enum walk_verdict verdict =
            is_fine ? walk->judge(walk->arg, buf_str(&walk->path)) : WALK_TAKE;
        *is = verdict != WALK_TAKE;
        if (is_fine && verdict == WALK_LEAVE_WHEN_EMPTY)
            is_fine = is_left_whole(walk, child, is, err);
    }
    leave_folder(walk);
    walk->path.len = len;
    return is_fine;
}

static enum tree_kind kind_of(const struct stat *info)
{
    switch (info->st_mode & S_IFMT) {
    case S_IFREG: return TREE_FILE;
    case S_IFDIR: return TREE_DIRECTORY;
    case S_IFLNK: return TREE_SYMLINK;
    case S_IFIFO: return TREE_FIFO;
    default: return TREE_WHITEOUT;
    }
}

/* Whether nothing happened to what the table has, as far as events tell. */
static bool is_quiet(const struct walk *walk, const struct seen_entry *known)
{
    const struct seen_folder *before = walk->folder->before;

    if (seen_is_named(walk->seen, before, known->name, walk->is_live))
        return false;
    return known->kind != TREE_DIRECTORY ||
           (known->folder && !known->folder->has_links &&
            seen_is_clean(walk->seen, known->folder, walk->is_live));
}

/* `info` is needed of what has other names. */
static bool put_same(struct walk *walk, struct seen_entry *known, const struct stat *info,
                     struct buf *out, struct error *err)
{
    const struct stat none = {0};
    struct tree_entry entry = {.kind = known->kind, .is_same = known->kind != TREE_WHITEOUT};

    if (known->kind == TREE_FILE && info)
        note_link(walk, info, &entry);
    if (!put_entry(walk, &entry, &none, out, err))
        return false;
    if (walk->folder->made) {
        seen_add(walk->seen, walk->folder->made, known->name, known);
        known->folder = NULL; /* it is in the new table by now */
    }
    return true;
}

/* What is left of a visit when it is known that the path belongs into the tree. */
static bool put_changed(struct walk *walk, const char *name, const struct stat *info,
                        const struct seen_entry *known, struct buf *out, struct error *err)
{
    struct walk_folder *folder = walk->folder;
    uint64_t before = walk->n_entries;
    const struct seen_entry entry = {
        .print = seen_print(info),
        .kind = kind_of(info),
        .is_linked = S_ISREG(info->st_mode) && info->st_nlink > 1,
    };

    if (!put_any(walk, name, info, known, out, err))
        return false;
    if (folder->made && entry.kind != TREE_DIRECTORY && walk->n_entries > before)
        seen_add(walk->seen, folder->made, name, &entry);
    return true;
}

static bool visit(struct walk *walk, const char *name, struct buf *out, struct error *err)
{
    struct seen_folder *before = walk->is_difference ? walk->folder->before : NULL;
    struct seen_entry *known = before ? (struct seen_entry *)seen_find(before, name) : NULL;
    bool is_quiet_here = known && is_quiet(walk, known), is_left = false;
    struct stat info;

    if (!step_to(walk, name, err))
        return error_wrap(err, "the path of %.100s", name);
    if (is_quiet_here && !known->is_linked && !seen_is_touched(walk->seen, before, walk->is_live))
        return put_same(walk, known, NULL, out, err);
    if (fstatat(walk->folder->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_here(walk, "looking at", err);
    if (info.st_dev != walk->device) {
        walk->n_skipped++;
        return true;
    }
    if (is_quiet_here && known->kind == kind_of(&info) && known->print == seen_print(&info))
        return put_same(walk, known, &info, out, err);
    enum walk_verdict verdict =
        walk->judge ? walk->judge(walk->arg, buf_str(&walk->path)) : WALK_TAKE;
    if (verdict == WALK_LEAVE_WHEN_EMPTY && S_ISDIR(info.st_mode) &&
        !is_left_whole(walk, name, &is_left, err))
        return false;
    if (verdict == WALK_LEAVE || is_left)
        return true;
    return put_changed(walk, name, &info, known, out, err);
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
    bool is_fine = walk->is_silent || (walk->is_difference ? tree_encode_start_difference(out, err)
                                                           : tree_encode_start(out, err));
    return is_fine && descend(walk, take_fd(&fd), take_fd(&lower), &info,
                              walk->is_difference ? walk->seen->root : NULL, err);
}

static bool read_piece(struct walk *walk, struct buf *out, struct error *err)
{
    size_t wanted = walk->file_left < WALK_STEP_MAX ? (size_t)walk->file_left : WALK_STEP_MAX;
    char *room = buf_room(out, wanted, err);

    if (!room)
        return false;
    ssize_t got = read(walk->file_fd, room, wanted);
    if (got < 0)
        return errno == EINTR || fail_here(walk, "reading", err);
    if (got == 0)
        return error_set(err, ERR_UNPROCESSABLE, "a file became shorter while it was read");
    out->len += (size_t)got;
    walk->file_left -= (uint64_t)got;
    if (walk->file_left == 0)
        spend(walk, take_fd(&walk->file_fd));
    return true;
}

bool walk_step(struct walk *walk, struct buf *out, struct error *err)
{
    struct walk_folder *folder = walk->folder;

    if (!walk->has_begun)
        return begin(walk, out, err);
    if (walk->file_fd >= 0)
        return read_piece(walk, out, err);
    /* Linked from where nobody looked: what is there is not what it was, and was not named. */
    if (!folder && walk->is_difference && walk->n_names_missing)
        return error_set(err, ERR_CONFLICT, "a file has other names where nothing was touched");
    if (!folder) {
        walk->is_done = true;
        return walk->is_silent || tree_encode_finish(out, err);
    }
    if (folder->next < folder->n)
        return visit(walk, folder->names[folder->next++], out, err);
    leave_folder(walk);
    return true;
}
