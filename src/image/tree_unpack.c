/* What a machine sends, into a folder: the first half of image/tree_folder.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "image/aside.h"
#include "image/disk.h"
#include "image/extract.h"
#include "image/tree_folder.h"

enum { NANOSECONDS = 1000000000 };

struct late_folder {
    char *path;
    int64_t mtime_ns;
};

struct tree_unpack {
    struct tree_unpack_spec spec;
    int file;          /* whose contents come, or -1: they are left out */
    int64_t mtime_ns;  /* of it */
    struct stat facts; /* of it */
    struct buf xattrs; /* of it, encoded */
    char **firsts;     /* the first path of each group of hard links; NULL: it is left out */
    size_t n_firsts;
    struct late_folder *folders;
    size_t n_folders, room;
};

struct tree_unpack *tree_unpack_create(const struct tree_unpack_spec *spec)
{
    struct tree_unpack *made = alloc(sizeof *made);

    *made = (struct tree_unpack){.spec = *spec, .file = -1, .xattrs = {.max = TREE_XATTRS_MAX}};
    return made;
}

void tree_unpack_destroy(struct tree_unpack *unpack)
{
    if (!unpack)
        return;
    for (size_t i = 0; i < unpack->n_firsts; i++)
        free(unpack->firsts[i]);
    for (size_t i = 0; i < unpack->n_folders; i++)
        free(unpack->folders[i].path);
    free(unpack->firsts);
    free(unpack->folders);
    buf_finish(&unpack->xattrs);
    auto_close(&unpack->file);
    free(unpack);
}

static bool is_at_or_below(struct str path, const char *root)
{
    size_t len = strlen(root);

    return path.len >= len && memcmp(path.ptr, root, len) == 0 &&
           (path.len == len || path.ptr[len] == '/');
}

/* The path in the folder; false: it is left out. */
static bool path_in_folder(const struct tree_unpack *unpack, struct str path,
                           char inside[TREE_PATH_MAX + 1])
{
    const size_t len = strlen(unpack->spec.below);

    for (size_t i = 0; i < unpack->spec.n_without; i++)
        if (is_at_or_below(path, unpack->spec.without[i]))
            return false;
    if (len > 0 && (!is_at_or_below(path, unpack->spec.below) || path.len <= len + 1))
        return false;
    struct str rest = len ? (struct str){path.ptr + len + 1, path.len - len - 1} : path;
    if (rest.len > TREE_PATH_MAX)
        return false;
    memcpy(inside, rest.ptr, rest.len);
    inside[rest.len] = '\0';
    return true;
}

static struct timespec time_of(int64_t mtime_ns)
{
    int64_t seconds = mtime_ns / NANOSECONDS, rest = mtime_ns % NANOSECONDS;

    return rest < 0 ? (struct timespec){seconds - 1, rest + NANOSECONDS}
                    : (struct timespec){seconds, rest};
}

static bool set_attributes(int fd, struct str xattrs, struct error *err)
{
    struct str name, value;
    char text[XATTR_NAME_MAX + 1];

    while (tree_xattr_next(&xattrs, &name, &value)) {
        if (name.len >= sizeof text)
            return error_set(err, ERR_INVALID, "an attribute has a name that is too long");
        memcpy(text, name.ptr, name.len);
        text[name.len] = '\0';
        if (extract_keeps_attribute(text) &&
            fsetxattr(fd, aside_stored(text), value.ptr, value.len, 0) != 0)
            return error_errno(err, "set attribute %s", text);
    }
    return true;
}

/* Attributes last: a change of owner clears capabilities. */
static bool set_facts(const struct tree_unpack *unpack, int fd, mode_t mode, uid_t uid, gid_t gid,
                      struct str xattrs, struct error *err)
{
    if (unpack->spec.kind == TREE_OF_LAYER)
        return aside_set(fd, mode, uid, gid, err) && set_attributes(fd, xattrs, err);
    return fchmod(fd, S_ISDIR(mode) || (mode & 0111) ? 0755 : 0644) == 0 ||
           error_errno(err, "chmod");
}

static bool put_folder(struct tree_unpack *unpack, int parent, const char *name, const char *path,
                       const struct tree_entry *entry, struct error *err)
{
    if (mkdirat(parent, name, 0755) != 0)
        return error_errno(err, "mkdir %s", path);
    AUTO_FD int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "open %s", path);
    if (unpack->n_folders == unpack->room) {
        unpack->room = unpack->room ? unpack->room * 2 : 256;
        unpack->folders = alloc_more(unpack->folders, unpack->room * sizeof *unpack->folders);
    }
    unpack->folders[unpack->n_folders++] = (struct late_folder){alloc_text(path), entry->mtime_ns};
    if (entry->is_opaque && unpack->spec.kind == TREE_OF_LAYER && !aside_set_opaque(fd, err))
        return false;
    return set_facts(unpack, fd, S_IFDIR | entry->mode, entry->uid, entry->gid, entry->xattrs, err);
}

static bool put_link(const struct tree_unpack *unpack, int parent, const char *name,
                     const struct tree_entry *entry, struct error *err)
{
    const bool is_layer = unpack->spec.kind == TREE_OF_LAYER;
    const struct timespec times[2] = {time_of(entry->mtime_ns), time_of(entry->mtime_ns)};
    char target[TREE_TARGET_MAX + 1];

    memcpy(target, entry->target.ptr, entry->target.len);
    target[entry->target.len] = '\0';
    if (!is_layer)
        return symlinkat(target, parent, name) == 0 || error_errno(err, "symlink %s", name);
    return aside_symlink(target, parent, name, entry->uid, entry->gid, err) &&
           (utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) == 0 ||
            error_errno(err, "set times of %s", name));
}

static void first_note(struct tree_unpack *unpack, uint64_t group, const char *path)
{
    while (unpack->n_firsts < group) {
        unpack->firsts = alloc_more(unpack->firsts, (unpack->n_firsts + 1) * sizeof(char *));
        unpack->firsts[unpack->n_firsts++] = NULL;
    }
    if (path && !unpack->firsts[group - 1])
        unpack->firsts[group - 1] = alloc_text(path);
}

static bool put_hard_link(const struct tree_unpack *unpack, int parent, const char *name,
                          const char *path, uint64_t group, struct error *err)
{
    const char *first = group <= unpack->n_firsts ? unpack->firsts[group - 1] : NULL;
    const char *first_name;

    if (!first)
        return error_set(err, ERR_UNPROCESSABLE, "%.128s is a link to a file that is not kept",
                         path);
    AUTO_FD int folder = disk_open_parent(unpack->spec.root, first, &first_name);
    return (folder >= 0 && linkat(folder, first_name, parent, name, 0) == 0) ||
           error_errno(err, "link %s", path);
}

static bool put_file(struct tree_unpack *unpack, int parent, const char *name, const char *path,
                     const struct tree_entry *entry, struct error *err)
{
    if (entry->is_linked)
        return put_hard_link(unpack, parent, name, path, entry->link_group, err);
    unpack->file = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (unpack->file < 0)
        return error_errno(err, "create %s", path);
    unpack->mtime_ns = entry->mtime_ns;
    unpack->facts =
        (struct stat){.st_mode = S_IFREG | entry->mode, .st_uid = entry->uid, .st_gid = entry->gid};
    unpack->xattrs.len = 0;
    if (entry->link_group > 0)
        first_note(unpack, entry->link_group, path);
    return buf_append(&unpack->xattrs, entry->xattrs, err);
}

static bool put_other(const struct tree_unpack *unpack, int parent, const char *name,
                      const char *path, const struct tree_entry *entry, struct error *err)
{
    if (unpack->spec.kind == TREE_OF_PROJECT)
        return true;
    if (entry->kind == TREE_WHITEOUT)
        return mknodat(parent, name, S_IFCHR, makedev(0, 0)) == 0 ||
               error_errno(err, "whiteout %s", path);
    AUTO_FD int fd = aside_fifo(parent, name);
    if (fd < 0)
        return error_errno(err, "mkfifo %s", path);
    return aside_set(fd, S_IFIFO | entry->mode, entry->uid, entry->gid, err);
}

bool tree_unpack_entry(void *arg, const struct tree_entry *entry, struct error *err)
{
    struct tree_unpack *unpack = arg;
    char path[TREE_PATH_MAX + 1];
    const char *name;

    auto_close(&unpack->file);
    unpack->file = -1;
    if (!path_in_folder(unpack, entry->path, path)) {
        if (entry->link_group > 0)
            first_note(unpack, entry->link_group, NULL);
        return true;
    }
    AUTO_FD int parent = disk_open_parent(unpack->spec.root, path, &name);
    if (parent < 0)
        return error_errno(err, "open the folder of %s", path);
    switch (entry->kind) {
    case TREE_DIRECTORY: return put_folder(unpack, parent, name, path, entry, err);
    case TREE_SYMLINK: return put_link(unpack, parent, name, entry, err);
    case TREE_FILE: return put_file(unpack, parent, name, path, entry, err);
    case TREE_FIFO:
    case TREE_WHITEOUT: break;
    }
    return put_other(unpack, parent, name, path, entry, err);
}

bool tree_unpack_bytes(void *arg, struct str bytes, bool is_last, struct error *err)
{
    struct tree_unpack *unpack = arg;
    const struct timespec times[2] = {time_of(unpack->mtime_ns), time_of(unpack->mtime_ns)};

    if (unpack->file < 0)
        return true;
    if (!fd_write_all(unpack->file, bytes, err))
        return false;
    if (!is_last)
        return true;
    AUTO_FD int file = take_fd(&unpack->file);
    return set_facts(unpack, file, unpack->facts.st_mode, unpack->facts.st_uid,
                     unpack->facts.st_gid, buf_str(&unpack->xattrs), err) &&
           (futimens(file, times) == 0 || error_errno(err, "set the times of a file"));
}

bool tree_unpack_end(struct tree_unpack *unpack, struct error *err)
{
    for (size_t i = 0; i < unpack->n_folders; i++) {
        const struct late_folder *late = &unpack->folders[i];
        const struct timespec times[2] = {time_of(late->mtime_ns), time_of(late->mtime_ns)};
        AUTO_FD int fd = disk_open(unpack->spec.root, late->path, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || futimens(fd, times) != 0)
            return error_errno(err, "set times of %s", late->path);
    }
    return true;
}
