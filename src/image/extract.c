#include "image/extract.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/own.h"
#include "image/disk.h"

struct late_folder {
    char *path;
    struct timespec modified;
};

struct extract {
    const struct extract_spec *spec;
    struct tar_reader *reader;
    int parent; /* the folder of the last entry, for the next one is mostly there too */
    char parent_path[TAR_PATH];
    /* Times of folders are set at the end: every new entry changes them. */
    struct late_folder *folders;
    size_t n_folders, room;
};

static void extract_finish(struct extract *extract)
{
    for (size_t i = 0; i < extract->n_folders; i++)
        free(extract->folders[i].path);
    free(extract->folders);
    if (extract->parent >= 0)
        close(extract->parent);
}

bool extract_keeps_attribute(const char *name)
{
    /* user.overlay.* would be read as a marker by an unprivileged overlay mount. */
    return strcmp(name, "security.capability") == 0 ||
           (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0);
}

bool extract_set_opaque(int folder, struct error *err)
{
    return fsetxattr(folder, OVERLAY_OPAQUE, "y", 1, 0) == 0 ||
           error_errno(err, "mark a folder opaque");
}

static struct timespec modified_of(struct archive_entry *entry)
{
    return (struct timespec){archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
}

static bool set_attributes(int fd, struct archive_entry *entry, struct error *err)
{
    const char *name;
    const void *value;
    size_t len;

    (void)archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &name, &value, &len) == ARCHIVE_OK)
        if (extract_keeps_attribute(name) && fsetxattr(fd, name, value, len, 0) != 0)
            return error_errno(err, "set attribute %s", name);
    return true;
}

static bool owner_of(struct archive_entry *entry, uid_t *uid, gid_t *gid, struct error *err)
{
    int64_t user = archive_entry_uid(entry), group = archive_entry_gid(entry);

    if (user < 0 || group < 0 || user >= UINT32_MAX || group >= UINT32_MAX)
        return error_set(err, ERR_ARCHIVE_INVALID, "the archive names an owner that cannot be");
    *uid = (uid_t)user;
    *gid = (gid_t)group;
    return true;
}

/* Mode after owner, and attributes last: a change of owner clears set-uid and capabilities. */
static bool set_facts(struct extract *extract, int fd, struct archive_entry *entry,
                      struct error *err)
{
    mode_t mode = archive_entry_perm(entry) & 07777;
    uid_t uid = 0;
    gid_t gid = 0;

    if (extract->spec->kind == EXTRACT_PROJECT) {
        bool is_open = archive_entry_filetype(entry) == AE_IFDIR || (mode & 0111);
        return fchmod(fd, is_open ? 0755 : 0644) == 0 || error_errno(err, "chmod");
    }
    if (!owner_of(entry, &uid, &gid, err))
        return false;
    if (fchown(fd, uid, gid) != 0)
        return error_errno(err, "chown");
    if (fchmod(fd, mode) != 0)
        return error_errno(err, "chmod");
    return set_attributes(fd, entry, err);
}

/* Whiteouts are the only devices ever made here. */
static bool is_whiteout(int parent, const char *name)
{
    struct stat found;

    return fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(found.st_mode);
}

static bool copy_facts(int from, int to, struct error *err)
{
    struct stat facts;
    char names[4096], value[4096];

    if (fstat(from, &facts) != 0 || fchown(to, facts.st_uid, facts.st_gid) != 0 ||
        fchmod(to, facts.st_mode & 07777) != 0)
        return error_errno(err, "copy a folder's owner");
    ssize_t len = flistxattr(from, names, sizeof names);
    for (const char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
        ssize_t n = extract_keeps_attribute(name) ? fgetxattr(from, name, value, sizeof value) : -1;
        if (n >= 0 && fsetxattr(to, name, value, (size_t)n, 0) != 0)
            return error_errno(err, "set attribute %s", name);
    }
    return true;
}

/* A folder the archive does not list keeps the owner and mode it has in the layers below. */
static bool inherit_facts(struct extract *extract, const char *path, int fd, struct error *err)
{
    const struct view *below = extract->spec->below;
    struct view_place place;
    bool blocked;

    if (!below)
        return true;
    if (!view_look(below, path, &place, &blocked, err))
        return false;
    if (blocked || (place.is_there && !S_ISDIR(place.facts.st_mode)))
        return error_set(err, ERR_ARCHIVE_INVALID,
                         "the archive's folder \"%.128s\" is no folder in a lower layer", path);
    if (!place.is_there)
        return true;
    AUTO_FD int lower = disk_open(below->layers[place.layer], path, O_RDONLY | O_DIRECTORY);
    if (lower < 0)
        return error_errno(err, "open %s", path);
    return copy_facts(lower, fd, err);
}

static void refuse_folder(int parent, const char *name, const char *path, struct error *err)
{
    struct stat found;
    bool is_link =
        fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode);

    (void)error_set(err, ERR_ARCHIVE_INVALID, "the archive has \"%.128s\" as a folder and as a %s",
                    path, is_link ? "symbolic link" : "file");
}

/* Makes folder `name` and opens it; *made says that it is new. -1 on failure. A whiteout there
 * turns into opaqueness. */
static int make_folder(int parent, const char *name, const char *path, bool *made,
                       struct error *err)
{
    bool hides = is_whiteout(parent, name);

    if (hides && unlinkat(parent, name, 0) != 0) {
        (void)error_errno(err, "remove %s", name);
        return -1;
    }
    *made = mkdirat(parent, name, 0755) == 0;
    if (!*made && errno != EEXIST) {
        (void)error_errno(err, "mkdir %s", path);
        return -1;
    }
    AUTO_FD int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        refuse_folder(parent, name, path, err);
        return -1;
    }
    if (*made && fchmod(folder, 0755) != 0) {
        (void)error_errno(err, "chmod %s", path);
        return -1;
    }
    if (hides && !extract_set_opaque(folder, err))
        return -1;
    return take_fd(&folder);
}

static bool make_parents(struct extract *extract, const char *path, struct error *err)
{
    char part[TAR_PATH];
    size_t len = strlen(path);

    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        part[i] = '\0';
        const char *name;
        bool made = false;
        AUTO_FD int parent = disk_open_parent(extract->spec->root, part, &name);
        if (parent < 0)
            return error_set(err, ERR_ARCHIVE_INVALID,
                             "the archive's entries pass through \"%.128s\", which is no folder",
                             part);
        AUTO_FD int fd = make_folder(parent, name, part, &made, err);
        if (fd < 0 || (made && !inherit_facts(extract, part, fd, err)))
            return false;
        part[i] = kept;
    }
    return true;
}

static bool open_parent(struct extract *extract, const char *path, const char **name,
                        struct error *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    char parent[TAR_PATH];

    *name = slash ? slash + 1 : path;
    memcpy(parent, path, len);
    parent[len] = '\0';
    if (extract->parent >= 0 && strcmp(parent, extract->parent_path) == 0)
        return true;

    AUTO_FD int fd = disk_open(extract->spec->root, parent, O_RDONLY | O_DIRECTORY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        if (!make_parents(extract, parent, err))
            return false;
        fd = disk_open(extract->spec->root, parent, O_RDONLY | O_DIRECTORY);
    }
    if (fd < 0 && (errno == ELOOP || errno == EXDEV || errno == ENOTDIR))
        return error_set(err, ERR_ARCHIVE_INVALID,
                         "the archive's entry \"%.128s\" passes through a symbolic link", path);
    if (fd < 0)
        return error_errno(err, "open %s", parent);
    if (extract->parent >= 0)
        close(extract->parent);
    extract->parent = take_fd(&fd);
    memcpy(extract->parent_path, parent, len + 1);
    return true;
}

static void remember_folder(struct extract *extract, const char *path, struct timespec modified)
{
    if (extract->n_folders == extract->room) {
        extract->room = extract->room ? extract->room * 2 : 256;
        extract->folders = alloc_more(extract->folders, extract->room * sizeof *extract->folders);
    }
    extract->folders[extract->n_folders++] = (struct late_folder){alloc_text(path), modified};
}

/* Makes room for a new entry: only our own whiteout may be there. */
static bool free_place(struct extract *extract, const char *name, const char *path,
                       struct error *err)
{
    if (!disk_has(extract->parent, name))
        return true;
    if (!is_whiteout(extract->parent, name))
        return error_set(err, ERR_ARCHIVE_INVALID, "the archive has \"%.128s\" twice", path);
    return unlinkat(extract->parent, name, 0) == 0 || error_errno(err, "remove %s", path);
}

static bool put_folder(struct extract *extract, struct archive_entry *entry, const char *name,
                       const char *path, struct error *err)
{
    bool made;
    AUTO_FD int fd = make_folder(extract->parent, name, path, &made, err);

    if (fd < 0 || !set_facts(extract, fd, entry, err))
        return false;
    remember_folder(extract, path, modified_of(entry));
    return true;
}

static bool write_content(struct extract *extract, int fd, int64_t size, struct error *err)
{
    struct str bytes;
    int64_t offset;

    for (;;) {
        if (!tar_reader_data(extract->reader, &bytes, &offset, err))
            return false;
        if (!bytes.len)
            return ftruncate(fd, size) == 0 || error_errno(err, "truncate");
        if (offset < 0 || offset > size || (int64_t)bytes.len > size - offset)
            return error_set(err, ERR_ARCHIVE_INVALID, "an entry is longer than it says");
        while (bytes.len) {
            ssize_t n = pwrite(fd, bytes.ptr, bytes.len, offset);
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return error_errno(err, "write");
            bytes = (struct str){bytes.ptr + n, bytes.len - (size_t)n};
            offset += n;
        }
    }
}

static bool put_file(struct extract *extract, struct archive_entry *entry, const char *name,
                     const char *path, struct error *err)
{
    if (!free_place(extract, name, path, err))
        return false;
    AUTO_FD int fd =
        openat(extract->parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "create %s", path);
    struct timespec times[2] = {modified_of(entry), modified_of(entry)};
    if (!write_content(extract, fd, archive_entry_size(entry), err) ||
        !set_facts(extract, fd, entry, err))
        return error_wrap(err, "%.128s", path);
    return futimens(fd, times) == 0 || error_errno(err, "set times of %s", path);
}

/* Owner, mode and times of what cannot be opened. */
static bool set_facts_at(struct extract *extract, struct archive_entry *entry, const char *name,
                         struct error *err)
{
    struct timespec times[2] = {modified_of(entry), modified_of(entry)};
    uid_t uid = 0;
    gid_t gid = 0;

    if (extract->spec->kind == EXTRACT_LAYER &&
        (!owner_of(entry, &uid, &gid, err) ||
         (fchownat(extract->parent, name, uid, gid, AT_SYMLINK_NOFOLLOW) != 0 &&
          !error_errno(err, "chown %s", name))))
        return false;
    if (archive_entry_filetype(entry) == AE_IFIFO &&
        fchmodat(extract->parent, name, archive_entry_perm(entry) & 07777, 0) != 0)
        return error_errno(err, "chmod %s", name);
    return utimensat(extract->parent, name, times, AT_SYMLINK_NOFOLLOW) == 0 ||
           error_errno(err, "set times of %s", name);
}

static bool put_link(struct extract *extract, struct archive_entry *entry, const char *name,
                     const char *path, struct error *err)
{
    const char *target = archive_entry_symlink(entry);
    size_t len = target ? strlen(target) : 0;

    if (len == 0 || len > TAR_PATH_MAX)
        return error_set(err, ERR_ARCHIVE_INVALID, "the link \"%.128s\" has no valid target", path);
    if (extract->spec->kind == EXTRACT_PROJECT && !tar_link_stays_inside(path, str_of(target)))
        return error_set(err, ERR_ARCHIVE_INVALID, "the link \"%.128s\" leads out of the project",
                         path);
    if (!free_place(extract, name, path, err))
        return false;
    if (symlinkat(target, extract->parent, name) != 0)
        return error_errno(err, "symlink %s", path);
    return set_facts_at(extract, entry, name, err);
}

static bool put_fifo(struct extract *extract, struct archive_entry *entry, const char *name,
                     const char *path, struct error *err)
{
    if (!free_place(extract, name, path, err))
        return false;
    if (mkfifoat(extract->parent, name, 0600) != 0)
        return error_errno(err, "mkfifo %s", path);
    return set_facts_at(extract, entry, name, err);
}

static bool put_hard_link(struct extract *extract, struct archive_entry *entry, const char *name,
                          const char *path, struct error *err)
{
    char target[TAR_PATH];
    const char *target_name;
    struct stat found;

    if (extract->spec->kind == EXTRACT_PROJECT)
        return error_set(err, ERR_ARCHIVE_INVALID, "the archive has a hard link, \"%.128s\"", path);
    if (!tar_path(str_of(archive_entry_hardlink(entry)), target, err))
        return false;
    AUTO_FD int folder = disk_open_parent(extract->spec->root, target, &target_name);
    if (folder < 0 || fstatat(folder, target_name, &found, AT_SYMLINK_NOFOLLOW) != 0 ||
        S_ISDIR(found.st_mode) || S_ISCHR(found.st_mode))
        return error_set(err, ERR_ARCHIVE_INVALID,
                         "the hard link \"%.128s\" is to a file that is not in the archive", path);
    if (!free_place(extract, name, path, err))
        return false;
    return linkat(folder, target_name, extract->parent, name, 0) == 0 ||
           error_errno(err, "link %s", path);
}

/* What a layer hides of the layers below. In the lowest one there is nothing to hide. */
static bool put_marker(struct extract *extract, const char *path, const char *hidden,
                       struct error *err)
{
    if (!extract->spec->below || extract->spec->below->n == 0)
        return true;
    if (!hidden)
        return extract_set_opaque(extract->parent, err);
    if (mknodat(extract->parent, hidden, S_IFCHR, makedev(0, 0)) == 0)
        return true;
    if (errno != EEXIST)
        return error_errno(err, "whiteout %s", path);
    AUTO_FD int folder =
        openat(extract->parent, hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return folder < 0 || extract_set_opaque(folder, err);
}

static bool put_by_kind(struct extract *extract, struct archive_entry *entry, const char *name,
                        const char *path, struct error *err)
{
    bool is_layer = extract->spec->kind == EXTRACT_LAYER;

    if (archive_entry_hardlink(entry))
        return put_hard_link(extract, entry, name, path, err);
    switch (archive_entry_filetype(entry)) {
    case AE_IFDIR: return put_folder(extract, entry, name, path, err);
    case AE_IFREG: return put_file(extract, entry, name, path, err);
    case AE_IFLNK: return put_link(extract, entry, name, path, err);
    case AE_IFIFO:
        if (is_layer)
            return put_fifo(extract, entry, name, path, err);
        break;
    case AE_IFCHR:
    case AE_IFBLK:
    case AE_IFSOCK:
        if (is_layer)
            return true;
        break;
    default: break;
    }
    return error_set(err, ERR_ARCHIVE_INVALID, "the archive's entry \"%.128s\" is a special file",
                     path);
}

static bool put_root(struct extract *extract, struct archive_entry *entry, struct error *err)
{
    if (archive_entry_filetype(entry) != AE_IFDIR)
        return error_set(err, ERR_ARCHIVE_INVALID, "the archive's root is not a folder");
    remember_folder(extract, "", modified_of(entry));
    return set_facts(extract, extract->spec->root, entry, err);
}

static bool put_entry(struct extract *extract, struct archive_entry *entry, struct error *err)
{
    const char *raw = archive_entry_pathname(entry), *name, *hidden = NULL;
    enum tar_marker marker = TAR_PLAIN;
    char path[TAR_PATH];

    if (!tar_path(str_of(raw ? raw : ""), path, err) ||
        !tar_spend(extract->spec->budget, archive_entry_size(entry), err))
        return false;
    if (!*path)
        return put_root(extract, entry, err);
    if (extract->spec->kind == EXTRACT_LAYER)
        marker = tar_marker(path, &hidden);
    if (marker == TAR_BOOKKEEPING)
        return true;
    if (marker == TAR_BAD_MARKER)
        return error_set(err, ERR_ARCHIVE_INVALID, "the whiteout \"%.128s\" hides nothing", path);
    if (!open_parent(extract, path, &name, err))
        return false;
    if (marker != TAR_PLAIN)
        return put_marker(extract, path, hidden, err);
    return put_by_kind(extract, entry, name, path, err);
}

static bool set_folder_times(struct extract *extract, struct error *err)
{
    for (size_t i = 0; i < extract->n_folders; i++) {
        const struct late_folder *late = &extract->folders[i];
        struct timespec times[2] = {late->modified, late->modified};
        AUTO_FD int fd = disk_open(extract->spec->root, late->path, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || futimens(fd, times) != 0)
            return error_errno(err, "set times of %s", late->path);
    }
    return true;
}

/* Stacked, the highest folder's owner, mode and time count, and a layer may not list the root. */
static bool inherit_root(struct extract *extract, int below, struct error *err)
{
    struct stat facts;

    if (fstat(below, &facts) != 0)
        return error_errno(err, "look at a layer");
    remember_folder(extract, "", facts.st_mtim);
    return copy_facts(below, extract->spec->root, err);
}

bool extract_archive(const struct extract_spec *spec, struct tar_reader *reader, struct error *err)
{
    AUTO(extract_finish) struct extract extract = {.spec = spec, .reader = reader, .parent = -1};
    const struct view *below = spec->below;
    struct archive_entry *entry;

    if (below && below->n && !inherit_root(&extract, below->layers[below->n - 1], err))
        return false;
    for (;;) {
        if (!tar_reader_next(reader, &entry, err))
            return false;
        if (!entry)
            return set_folder_times(&extract, err);
        if (!put_entry(&extract, entry, err))
            return false;
    }
}
