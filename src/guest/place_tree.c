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

void place_tree_init(struct place_tree *tree, int root_fd)
{
    struct stat info;

    *tree = (struct place_tree){
        .folders = alloc((TREE_DEPTH_MAX + 1) * sizeof *tree->folders),
        .n_folders = 1,
        .folder = {.max = TREE_PATH_MAX},
        .mask = umask(0),
        .uid = geteuid(),
        .gid = getegid(),
        .file_fd = -1,
        .file_path = {.max = TREE_PATH_MAX},
        .file_xattrs = {.max = TREE_XATTRS_MAX},
        .contents = {.max = PLACE_WRITE},
    };
    umask(tree->mask);
    tree->folders[0] = (struct placed_folder){
        .fd = root_fd,
        .gives_group = fstat(root_fd, &info) != 0 || info.st_mode & S_ISGID,
    };
}

void place_tree_finish(struct place_tree *tree)
{
    auto_close(&tree->file_fd);
    while (tree->n_folders > 0)
        close(tree->folders[--tree->n_folders].fd);
    free(tree->folders);
    buf_finish(&tree->folder);
    buf_finish(&tree->file_path);
    buf_finish(&tree->file_xattrs);
    buf_finish(&tree->contents);
    arena_finish(&tree->arena);
    *tree = (struct place_tree){.file_fd = -1};
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

static struct placed_folder *last_folder(const struct place_tree *tree)
{
    return &tree->folders[tree->n_folders - 1];
}

/* Nothing more comes into it. */
static bool leave_folder(struct place_tree *tree, struct error *err)
{
    const struct placed_folder folder = *last_folder(tree);
    const struct timespec time = time_of(folder.mtime_ns), times[2] = {time, time};
    struct str path = {tree->folder.bytes, folder.path_len};
    bool fine = !folder.has_time || futimens(folder.fd, times) == 0 ||
                fail("setting the time of", path, err);

    close(folder.fd);
    tree->n_folders--;
    tree->folder.len = last_folder(tree)->path_len;
    return fine;
}

static bool is_inside(struct str path, struct str folder)
{
    return folder.len == 0 || str_equal(path, folder) ||
           (path.len > folder.len && memcmp(path.ptr, folder.ptr, folder.len) == 0 &&
            path.ptr[folder.len] == '/');
}

/* The paths of a tree are in order, and every folder has its own entry: the one that is wanted is
 * among those that are open. */
static bool go_to_folder(struct place_tree *tree, struct str path, struct error *err)
{
    while (tree->n_folders > 1 && !is_inside(path, buf_str(&tree->folder)))
        if (!leave_folder(tree, err))
            return false;
    return path.len == tree->folder.len ||
           error_set(err, ERR_INVALID, "%.*s is not there", path.len < 150 ? (int)path.len : 150,
                     path.ptr);
}

/* Any folder, by its whole path. */
static int open_path(const struct place_tree *tree, struct str path)
{
    AUTO_FD int at = openat(tree->folders[0].fd, ".", FOLDER_FLAGS);
    char copy[TREE_PATH_MAX + 1], *rest = path.len > 0 ? copy : NULL;

    copy_text(copy, path);
    for (char *name; at >= 0 && (name = strsep(&rest, "/"));) {
        int next = openat(at, name, FOLDER_FLAGS);
        close(at);
        at = next;
    }
    return take_fd(&at);
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

/* Whether what was just made has the owner and the mode it is to have. */
static bool is_made_so(const struct place_tree *tree, const struct tree_entry *entry)
{
    return entry->uid == tree->uid && entry->gid == tree->gid && !last_folder(tree)->gives_group &&
           !(entry->mode & (S_ISUID | S_ISGID | S_ISVTX | tree->mask));
}

/* One that is there stays, unless what it has is to be hidden. */
static bool make_room(int folder, const char *name, const struct tree_entry *entry, bool *is_there,
                      struct error *err)
{
    struct stat info;

    *is_there = fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode) &&
                !entry->is_opaque;
    return *is_there || remove_at(folder, name, 0, err);
}

static bool enter_folder(struct place_tree *tree, int fd, const struct tree_entry *entry,
                         struct error *err)
{
    tree->folder.len = 0;
    if (!buf_append(&tree->folder, entry->path, err))
        return false;
    tree->folders[tree->n_folders++] = (struct placed_folder){
        .fd = fd,
        .path_len = entry->path.len,
        .gives_group = entry->mode & S_ISGID,
        .has_time = true,
        .mtime_ns = entry->mtime_ns,
    };
    return true;
}

static bool make_folder(struct place_tree *tree, int folder, const char *name,
                        const struct tree_entry *entry, struct error *err)
{
    bool is_there = false, is_new = mkdirat(folder, name, entry->mode & 0777) == 0;

    if (!is_new && errno != EEXIST)
        return fail("making the folder", entry->path, err);
    if (!is_new && !make_room(folder, name, entry, &is_there, err))
        return false;
    if (!is_new && !is_there && mkdirat(folder, name, 0700) != 0)
        return fail("making the folder", entry->path, err);
    AUTO_FD int fd = openat(folder, name, FOLDER_FLAGS);
    if (fd < 0)
        return fail("opening the folder", entry->path, err);
    bool fine = is_new && is_made_so(tree, entry) ? set_xattrs(fd, entry->xattrs, err)
                                                  : set_owner_mode_xattrs(fd, entry, err);
    return fine && enter_folder(tree, take_fd(&fd), entry, err);
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
    AUTO_FD int source = open_path(tree, parent_of(first));
    char first_name[TREE_NAME_MAX + 1];

    if (source < 0)
        return fail("opening the folder of", first, err);
    name_of(first, first_name);
    return (linkat(source, first_name, folder, name, 0) == 0 ||
            fail("linking", entry->path, err)) &&
           keep_owner(folder, name, entry, err);
}

static bool make_file(struct place_tree *tree, int folder, const char *name,
                      const struct tree_entry *entry, struct error *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const mode_t mode = entry->mode & 0777;
    tree->file_fd = openat(folder, name, flags, mode);
    if (tree->file_fd < 0 && errno == EEXIST && remove_at(folder, name, 0, err))
        tree->file_fd = openat(folder, name, flags, mode);
    if (tree->file_fd < 0)
        return fail("making the file", entry->path, err);
    if (entry->link_group > tree->n_groups)
        keep_group(tree, entry);
    tree->has_facts = is_made_so(tree, entry);
    tree->contents.len = 0;
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

    name_of(entry->path, name);
    tree->n_entries++;
    if (!go_to_folder(tree, parent_of(entry->path), err))
        return false;
    int folder = last_folder(tree)->fd;
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

static bool write_contents(struct place_tree *tree, struct str bytes, struct error *err)
{
    while (bytes.len > 0) {
        ssize_t put = write(tree->file_fd, bytes.ptr, bytes.len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail("writing", tree->file.path, err);
        bytes = (struct str){bytes.ptr + put, bytes.len - (size_t)put};
    }
    return true;
}

static bool end_file(struct place_tree *tree, struct error *err)
{
    const struct timespec time = time_of(tree->file.mtime_ns), times[2] = {time, time};
    AUTO_FD int fd = take_fd(&tree->file_fd);

    return (tree->has_facts ? set_xattrs(fd, tree->file.xattrs, err)
                            : set_owner_mode_xattrs(fd, &tree->file, err)) &&
           (futimens(fd, times) == 0 || fail("setting the time of", tree->file.path, err));
}

/* Bytes come in smaller pieces than are worth a system call. */
bool place_tree_bytes(void *arg, struct str bytes, bool is_last, struct error *err)
{
    struct place_tree *tree = arg;

    tree->n_bytes += bytes.len;
    while (bytes.len > 0) {
        size_t room = PLACE_WRITE - tree->contents.len, n = bytes.len < room ? bytes.len : room;

        if (!buf_append(&tree->contents, (struct str){bytes.ptr, n}, err))
            return false;
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
        if (tree->contents.len < PLACE_WRITE)
            continue;
        if (!write_contents(tree, buf_str(&tree->contents), err))
            return false;
        tree->contents.len = 0;
    }
    return !is_last || (write_contents(tree, buf_str(&tree->contents), err) && end_file(tree, err));
}

bool place_tree_end(struct place_tree *tree, struct error *err)
{
    while (tree->n_folders > 1)
        if (!leave_folder(tree, err))
            return false;
    return true;
}
