#include "guest/place_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/own.h"

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

struct placed_folder {
    struct placed_folder *next;
    const char *path;
    int64_t mtime_ns;
};

void place_tree_init(struct place_tree *tree, int root_fd)
{
    *tree = (struct place_tree){
        .root_fd = root_fd,
        .folder_fd = -1,
        .folder = {.max = TREE_PATH_MAX},
        .file_fd = -1,
        .file_path = {.max = TREE_PATH_MAX},
        .file_xattrs = {.max = TREE_XATTRS_MAX},
    };
}

void place_tree_finish(struct place_tree *tree)
{
    auto_close(&tree->file_fd);
    auto_close(&tree->folder_fd);
    auto_close(&tree->root_fd);
    buf_finish(&tree->folder);
    buf_finish(&tree->file_path);
    buf_finish(&tree->file_xattrs);
    arena_finish(&tree->arena);
    *tree = (struct place_tree){.root_fd = -1, .folder_fd = -1, .file_fd = -1};
}

static bool fail(const char *what, struct str path, struct error *err)
{
    return error_errno(err, "%s %.*s", what, path.len < 150 ? (int)path.len : 150, path.ptr);
}

static struct timespec time_of(int64_t ns)
{
    int64_t second = 1000000000, part = ((ns % second) + second) % second;

    return (struct timespec){.tv_sec = (time_t)((ns - part) / second), .tv_nsec = (long)part};
}

/* --- where an entry goes --- */

/* The decoder has checked lengths, and that there is no NUL. */
static void copy_text(char *to, struct str text)
{
    if (text.len > 0)
        memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
}

static struct str parent_of(struct str path)
{
    size_t len = path.len;

    while (len > 0 && path.ptr[len - 1] != '/')
        len--;
    return (struct str){path.ptr, len > 0 ? len - 1 : 0};
}

/* The paths of a tree are in order: mostly the last folder is the next one's as well. */
static bool open_folder(struct place_tree *tree, struct str path, int *fd, struct error *err)
{
    *fd = tree->folder_fd >= 0 ? tree->folder_fd : tree->root_fd;
    if (str_equal(path, buf_str(&tree->folder)))
        return true;
    AUTO_FD int at = openat(tree->root_fd, ".", FOLDER_FLAGS);
    char copy[TREE_PATH_MAX + 1], *rest = path.len > 0 ? copy : NULL;
    copy_text(copy, path);
    for (char *name; at >= 0 && (name = strsep(&rest, "/"));) {
        int next = openat(at, name, FOLDER_FLAGS);
        close(at);
        at = next;
    }
    if (at < 0)
        return fail("opening the folder", path, err);
    auto_close(&tree->folder_fd);
    tree->folder_fd = take_fd(&at);
    tree->folder.len = 0;
    *fd = tree->folder_fd;
    return buf_append(&tree->folder, path, err);
}

static void name_of(struct str path, char name[TREE_NAME_MAX + 1])
{
    size_t skip = parent_of(path).len;

    skip += skip > 0;
    copy_text(name, (struct str){path.ptr + skip, path.len - skip});
}

/* --- what was there --- */

static bool remove_at(int folder, const char *name, int depth, struct error *err);

static bool remove_contents(int fd, int depth, struct error *err)
{
    int copy = openat(fd, ".", FOLDER_FLAGS);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    bool is_fine = true;

    if (!stream) {
        auto_close(&copy);
        return error_errno(err, "reading a folder to be removed");
    }
    for (const struct dirent *entry; is_fine && (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            is_fine = remove_at(fd, entry->d_name, depth + 1, err);
    closedir(stream);
    return is_fine;
}

/* Nothing there is fine. Deeper than any tree may be, the image plays games. */
static bool remove_at(int folder, const char *name, int depth, struct error *err)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return true;
    if ((errno != EISDIR && errno != EPERM) || depth > TREE_DEPTH_MAX)
        return error_errno(err, "removing %.100s", name);
    AUTO_FD int fd = openat(folder, name, FOLDER_FLAGS);
    if (fd < 0)
        return error_errno(err, "removing %.100s", name);
    return remove_contents(fd, depth, err) &&
           (unlinkat(folder, name, AT_REMOVEDIR) == 0 ||
            error_errno(err, "removing the folder %.100s", name));
}

/* --- what is to be there --- */

static bool set_xattrs(int fd, struct str xattrs, struct error *err)
{
    struct str name, value;

    while (tree_xattr_next(&xattrs, &name, &value)) {
        AUTO_FREE char *text = alloc(name.len + 1);
        memcpy(text, name.ptr, name.len);
        text[name.len] = '\0';
        if (fsetxattr(fd, text, value.ptr, value.len, 0) != 0)
            return error_errno(err, "setting the attribute %.100s", text);
    }
    return true;
}

/* In this order: a new owner takes special bits and capabilities away. */
static bool set_owner_mode_xattrs(int fd, const struct tree_entry *entry, struct error *err)
{
    if (fchown(fd, entry->uid, entry->gid) != 0 || fchmod(fd, entry->mode) != 0)
        return fail("setting owner and mode of", entry->path, err);
    return set_xattrs(fd, entry->xattrs, err);
}

static bool make_folder(struct place_tree *tree, int folder, const char *name,
                        const struct tree_entry *entry, struct error *err)
{
    struct stat info;
    bool is_there = fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISDIR(info.st_mode) && !entry->is_opaque;

    if (!is_there && !remove_at(folder, name, 0, err))
        return false;
    if (!is_there && mkdirat(folder, name, 0700) != 0)
        return fail("making the folder", entry->path, err);
    AUTO_FD int fd = openat(folder, name, FOLDER_FLAGS);
    if (fd < 0)
        return fail("opening the folder", entry->path, err);
    struct placed_folder *placed = arena_alloc(&tree->arena, sizeof *placed);
    *placed = (struct placed_folder){
        .next = tree->folders,
        .path = arena_text(&tree->arena, entry->path),
        .mtime_ns = entry->mtime_ns,
    };
    tree->folders = placed;
    return set_owner_mode_xattrs(fd, entry, err);
}

static void keep_group(struct place_tree *tree, const struct tree_entry *entry)
{
    if (tree->n_groups == tree->groups_cap) {
        size_t cap = tree->groups_cap ? tree->groups_cap * 2 : 16;
        struct str *grown = arena_array(&tree->arena, cap, sizeof *grown);
        if (tree->n_groups)
            memcpy(grown, tree->groups, tree->n_groups * sizeof *grown);
        tree->groups = grown;
        tree->groups_cap = cap;
    }
    tree->groups[tree->n_groups++] = arena_str(&tree->arena, entry->path);
}

/* gVisor gives a file to whoever links it. */
static bool keep_owner(int folder, const char *name, const struct tree_entry *entry,
                       struct error *err)
{
    const struct timespec time = time_of(entry->mtime_ns), times[2] = {time, time};
    struct stat info;

    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return fail("looking at", entry->path, err);
    if (info.st_uid == entry->uid && info.st_gid == entry->gid)
        return true;
    if (fchownat(folder, name, entry->uid, entry->gid, AT_SYMLINK_NOFOLLOW) != 0 ||
        fchmodat(folder, name, entry->mode, 0) != 0 ||
        utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW) != 0)
        return fail("giving back", entry->path, err);
    return true;
}

/* The group's first name is opened by its folders once more: none of them is a link. */
static bool make_link(struct place_tree *tree, int folder, const char *name,
                      const struct tree_entry *entry, struct error *err)
{
    struct str first = tree->groups[entry->link_group - 1];
    AUTO_FD int keep = openat(folder, ".", FOLDER_FLAGS);
    char first_name[TREE_NAME_MAX + 1];
    int source;

    if (keep < 0)
        return fail("opening the folder of", entry->path, err);
    name_of(first, first_name);
    return open_folder(tree, parent_of(first), &source, err) &&
           (linkat(source, first_name, keep, name, 0) == 0 || fail("linking", entry->path, err)) &&
           keep_owner(keep, name, entry, err);
}

static bool make_file(struct place_tree *tree, int folder, const char *name,
                      const struct tree_entry *entry, struct error *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    tree->file_fd = openat(folder, name, flags, 0600);
    if (tree->file_fd < 0 && errno == EEXIST && remove_at(folder, name, 0, err))
        tree->file_fd = openat(folder, name, flags, 0600);
    if (tree->file_fd < 0)
        return fail("making the file", entry->path, err);
    if (entry->link_group > tree->n_groups)
        keep_group(tree, entry);
    tree->file_path.len = tree->file_xattrs.len = 0;
    if (!buf_append(&tree->file_path, entry->path, err) ||
        !buf_append(&tree->file_xattrs, entry->xattrs, err))
        return false;
    tree->file = *entry;
    tree->file.path = buf_str(&tree->file_path);
    tree->file.xattrs = buf_str(&tree->file_xattrs);
    return true;
}

static bool make_other(int folder, const char *name, const struct tree_entry *entry,
                       struct error *err)
{
    char target[TREE_TARGET_MAX + 1];
    const struct timespec times[2] = {time_of(entry->mtime_ns), time_of(entry->mtime_ns)};
    bool is_link = entry->kind == TREE_SYMLINK;

    copy_text(target, entry->target);
    bool is_made = is_link ? symlinkat(target, folder, name) == 0
                           : mknodat(folder, name, S_IFIFO | 0600, 0) == 0;
    if (!is_made || fchownat(folder, name, entry->uid, entry->gid, AT_SYMLINK_NOFOLLOW) != 0 ||
        (!is_link && fchmodat(folder, name, entry->mode, 0) != 0) ||
        utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW) != 0)
        return fail("making", entry->path, err);
    return true;
}

bool place_tree_entry(void *arg, const struct tree_entry *entry, struct error *err)
{
    struct place_tree *tree = arg;
    char name[TREE_NAME_MAX + 1];
    int folder;

    name_of(entry->path, name);
    tree->n_entries++;
    if (!open_folder(tree, parent_of(entry->path), &folder, err))
        return false;
    if (entry->kind == TREE_DIRECTORY)
        return make_folder(tree, folder, name, entry, err);
    /* Mostly there is nothing where a file goes, which shows when it is made. */
    if (entry->kind == TREE_FILE && !entry->is_linked)
        return make_file(tree, folder, name, entry, err);
    if (!remove_at(folder, name, 0, err))
        return false;
    if (entry->kind == TREE_FILE)
        return make_link(tree, folder, name, entry, err);
    return entry->kind == TREE_WHITEOUT || make_other(folder, name, entry, err);
}

static bool end_file(struct place_tree *tree, struct error *err)
{
    const struct timespec time = time_of(tree->file.mtime_ns), times[2] = {time, time};
    AUTO_FD int fd = take_fd(&tree->file_fd);

    return set_owner_mode_xattrs(fd, &tree->file, err) &&
           (futimens(fd, times) == 0 || fail("setting the time of", tree->file.path, err));
}

bool place_tree_bytes(void *arg, struct str bytes, bool is_last, struct error *err)
{
    struct place_tree *tree = arg;

    tree->n_bytes += bytes.len;
    while (bytes.len > 0) {
        ssize_t put = write(tree->file_fd, bytes.ptr, bytes.len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail("writing", tree->file.path, err);
        bytes = (struct str){bytes.ptr + put, bytes.len - (size_t)put};
    }
    return !is_last || end_file(tree, err);
}

bool place_tree_end(struct place_tree *tree, struct error *err)
{
    for (const struct placed_folder *placed = tree->folders; placed; placed = placed->next) {
        const struct timespec time = time_of(placed->mtime_ns), times[2] = {time, time};
        struct str path = str_of(placed->path);
        char name[TREE_NAME_MAX + 1];
        int folder;
        name_of(path, name);
        if (!open_folder(tree, parent_of(path), &folder, err))
            return false;
        if (utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW) != 0)
            return fail("setting the time of", path, err);
    }
    return true;
}
