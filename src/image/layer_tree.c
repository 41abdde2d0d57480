/* A folder as a tar: layer_write_tree of image/layer.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/map.h"
#include "base/own.h"
#include "image/aside.h"
#include "image/extract.h"
#include "image/layer.h"

struct tree {
    struct layer_writer *writer;
    int root;
    enum layer_tree kind;
    int64_t newest;
    struct map links; /* "device:inode" to the path it was first seen at */
};

static void tree_finish(struct tree *tree)
{
    struct str key;
    void *path;

    for (size_t at = 0; map_next(&tree->links, &at, &key, &path);)
        free(path);
    map_finish(&tree->links);
}

static struct archive_entry *entry_of(const struct tree *tree, const char *path,
                                      const struct stat *facts)
{
    struct archive_entry *entry = archive_entry_new();
    int64_t modified = facts->st_mtime;

    if (!entry)
        abort();
    if (tree->newest && modified > tree->newest)
        modified = tree->newest;
    archive_entry_copy_pathname(entry, path);
    archive_entry_set_mode(entry, facts->st_mode);
    archive_entry_set_uid(entry, facts->st_uid);
    archive_entry_set_gid(entry, facts->st_gid);
    archive_entry_set_mtime(entry, modified, 0);
    archive_entry_set_size(entry, S_ISREG(facts->st_mode) ? facts->st_size : 0);
    if (tree->kind == LAYER_OF_PROJECT) {
        bool is_open = S_ISDIR(facts->st_mode) || (facts->st_mode & 0111);
        archive_entry_set_perm(entry, S_ISLNK(facts->st_mode) ? 0777 : is_open ? 0755 : 0644);
        archive_entry_set_uid(entry, 0);
        archive_entry_set_gid(entry, 0);
        archive_entry_set_mtime(entry, 0, 0);
    }
    return entry;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In sorted order: file systems list them in the order they were set. */
static bool add_attributes(int fd, struct archive_entry *entry, struct error *err)
{
    AUTO_FREE char *names = alloc(XATTR_LIST_MAX);
    AUTO_FREE char *value = alloc(XATTR_SIZE_MAX);
    const char *sorted[256];
    size_t n = 0;
    ssize_t len = flistxattr(fd, names, XATTR_LIST_MAX);

    if (len < 0)
        return errno == ENOTSUP || error_errno(err, "list attributes");
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        const char *attribute = aside_attribute(name);
        if (!attribute || !extract_keeps_attribute(attribute))
            continue;
        if (n == COUNT_OF(sorted))
            return error_set(err, ERR_TOO_LARGE, "a file has over 256 extended attributes");
        sorted[n++] = attribute;
    }
    if (n)
        qsort(sorted, n, sizeof *sorted, by_text);
    for (size_t i = 0; i < n; i++) {
        ssize_t size = fgetxattr(fd, aside_stored(sorted[i]), value, XATTR_SIZE_MAX);
        if (size < 0)
            return error_errno(err, "read attribute %s", sorted[i]);
        archive_entry_xattr_add_entry(entry, sorted[i], value, (size_t)size);
    }
    return true;
}

static bool put_whiteout(struct tree *tree, const char *folder, const char *name, struct error *err)
{
    AUTO(layer_entry_free) struct archive_entry *entry = archive_entry_new();
    char path[TAR_PATH + 16];

    if (!entry)
        abort();
    (void)snprintf(path, sizeof path, "%s%s.wh.%s", folder, *folder ? "/" : "", name);
    archive_entry_copy_pathname(entry, path);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0);
    archive_entry_set_mtime(entry, 0, 0);
    archive_entry_set_size(entry, 0);
    return layer_writer_put(tree->writer, entry, -1, err);
}

/* The path this file was written under before, or NULL the first time. */
static const char *first_path(struct tree *tree, const struct stat *facts, const char *path)
{
    char key[64];
    int len =
        snprintf(key, sizeof key, "%ju:%ju", (uintmax_t)facts->st_dev, (uintmax_t)facts->st_ino);
    struct str name = {key, (size_t)len};

    if (facts->st_nlink < 2 || tree->kind == LAYER_OF_PROJECT)
        return NULL;
    const char *found = map_find(&tree->links, name);
    if (!found)
        (void)map_put(&tree->links, name, alloc_text(path));
    return found;
}

/* Mounts are made without redirects and metadata-only copies; a layer cannot express them. */
static bool check_overlay(const struct tree *tree, int fd, const char *path, struct error *err)
{
    static const char *const marks[] = {"trusted.overlay.redirect", "trusted.overlay.metacopy"};

    for (size_t i = 0; tree->kind == LAYER_OF_OVERLAY && i < COUNT_OF(marks); i++)
        if (fgetxattr(fd, marks[i], NULL, 0) >= 0)
            return error_set(err, ERR_INTERNAL, "%.128s has %s and cannot be captured", path,
                             marks[i]);
    return true;
}

static bool put_file(struct tree *tree, int parent, const char *name, const char *path,
                     const struct stat *facts, struct error *err)
{
    AUTO(layer_entry_free) struct archive_entry *entry = entry_of(tree, path, facts);
    const char *first = first_path(tree, facts, path);

    if (first) {
        archive_entry_set_size(entry, 0);
        archive_entry_copy_hardlink(entry, first);
        return layer_writer_put(tree->writer, entry, -1, err);
    }
    AUTO_FD int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_errno(err, "open %s", path);
    if (!check_overlay(tree, fd, path, err) ||
        (tree->kind != LAYER_OF_PROJECT && !add_attributes(fd, entry, err)))
        return false;
    return layer_writer_put(tree->writer, entry, fd, err);
}

static bool put_other(struct tree *tree, int parent, const char *name, const char *path,
                      const struct stat *facts, struct error *err)
{
    AUTO(layer_entry_free) struct archive_entry *entry = entry_of(tree, path, facts);
    const char *first = first_path(tree, facts, path);

    if (first)
        archive_entry_copy_hardlink(entry, first);
    else if (S_ISLNK(facts->st_mode) && !layer_entry_link(entry, parent, name, err))
        return error_wrap(err, "reading %s", path);
    return layer_writer_put(tree->writer, entry, -1, err);
}

static bool put_tree(struct tree *tree, const char *path, int depth, struct error *err);

static bool put_entry(struct tree *tree, int parent, const char *folder, const char *name,
                      int depth, struct error *err)
{
    char path[TAR_PATH];
    struct stat facts;
    int len = snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);

    if (len < 0 || len > TAR_PATH_MAX || depth >= TAR_DEPTH_MAX)
        return error_set(err, ERR_TOO_LARGE, "%.128s… lies too deep to be kept", folder);
    if (aside_statat(parent, name, &facts) != 0)
        return error_errno(err, "look at %s", path);
    /* A file of that name would come back as a hole in the layers below. */
    if (tree->kind != LAYER_OF_PROJECT && strncmp(name, ".wh.", 4) == 0)
        return error_set(err, ERR_UNPROCESSABLE, "%.128s has a name layers reserve", path);

    switch (facts.st_mode & S_IFMT) {
    case S_IFDIR: return put_tree(tree, path, depth + 1, err);
    case S_IFREG: return put_file(tree, parent, name, path, &facts, err);
    case S_IFLNK: return put_other(tree, parent, name, path, &facts, err);
    case S_IFIFO:
        return tree->kind == LAYER_OF_PROJECT || put_other(tree, parent, name, path, &facts, err);
    case S_IFCHR:
        if (tree->kind == LAYER_OF_OVERLAY && facts.st_rdev == makedev(0, 0))
            return put_whiteout(tree, folder, name, err);
        return true;
    default: return true; /* sockets and devices stay behind */
    }
}

static bool put_folder(struct tree *tree, int fd, const char *path, struct error *err)
{
    struct stat facts;

    if (aside_stat(fd, &facts) != 0)
        return error_errno(err, "look at %s", path);
    AUTO(layer_entry_free) struct archive_entry *entry = entry_of(tree, *path ? path : ".", &facts);
    if (!check_overlay(tree, fd, path, err) ||
        (tree->kind != LAYER_OF_PROJECT && !add_attributes(fd, entry, err)))
        return false;
    if (!layer_writer_put(tree->writer, entry, -1, err))
        return false;
    bool is_opaque = tree->kind == LAYER_OF_OVERLAY && aside_is_opaque(fd);
    return !is_opaque || put_whiteout(tree, path, ".wh..opq", err);
}

static bool put_tree(struct tree *tree, const char *path, int depth, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    AUTO_FD int fd = disk_open(tree->root, path, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return error_errno(err, "open %s", path);
    /* The root of an upper folder says nothing of the image's root. */
    if ((*path || tree->kind == LAYER_OF_ROOT) && !put_folder(tree, fd, path, err))
        return false;
    if (!disk_list(fd, TAR_ENTRIES_MAX, &names, err))
        return error_wrap(err, "%.128s", path);
    for (size_t i = 0; i < names.n; i++)
        if (!put_entry(tree, fd, path, names.names[i], depth, err))
            return false;
    return true;
}

bool layer_write_tree(struct layer_writer *writer, int folder, enum layer_tree kind, int64_t newest,
                      struct error *err)
{
    AUTO(tree_finish)
    struct tree tree = {.writer = writer, .root = folder, .kind = kind, .newest = newest};

    return put_tree(&tree, "", 0, err);
}
