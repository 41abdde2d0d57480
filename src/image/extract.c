#include "image/extract.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "base/own.h"
#include "image/aside.h"
#include "image/copy_up.h"
#include "image/disk.h"
#include "image/extract_content.h"
#include "image/extract_facts.h"

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
    bool hides_root; /* the layer shows nothing of those below */
};

static void extract_finish(struct extract *extract)
{
    for (size_t i = 0; i < extract->n_folders; i++)
        free(extract->folders[i].path);
    free(extract->folders);
    if (extract->parent >= 0)
        close(extract->parent);
}

/* Whiteouts are the only devices ever made here. */
static bool is_whiteout(int parent, const char *name)
{
    struct stat found;

    return fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(found.st_mode);
}

static bool has_below(const struct extract *extract)
{
    return extract->spec->below && extract->spec->below->n > 0;
}

/* What the image has at a path with this layer on top, as far as it has come. */
static bool look(const struct extract *extract, const char *path, struct view *merged,
                 struct view_place *place, bool *blocked, struct error *err)
{
    *merged = extract->spec->below ? *extract->spec->below : (struct view){0};
    if (merged->n == VIEW_LAYERS_MAX)
        return error_set(err, ERR_TOO_LARGE, "an image has over %d layers", VIEW_LAYERS_MAX);
    merged->layers[merged->n++] = extract->spec->root;
    return view_look(merged, path, place, blocked, err);
}

static void refuse_folder(int parent, const char *name, const char *path, struct error *err)
{
    struct stat found;
    bool is_link =
        fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode);

    (void)error_set(err, ERR_ARCHIVE_INVALID, "the archive has \"%.128s\" as a folder and as a %s",
                    path, is_link ? "symbolic link" : "file");
}

/* Makes room for a new entry. Of two entries for one place in a layer the last counts, as in other
 * tools; *hides says that something of the layers below must not come back there. */
static bool free_place(struct extract *extract, const char *name, const char *path, bool *hides,
                       struct error *err)
{
    *hides = disk_has(extract->parent, name);
    if (!*hides)
        return true;
    if (extract->spec->kind == EXTRACT_PROJECT)
        return error_set(err, ERR_ARCHIVE_INVALID, "the archive has \"%.128s\" twice", path);
    return tree_remove(extract->parent, name, err);
}

/* Opens folder `name`, made if need be. -1 on failure. */
static int make_folder(int parent, const char *name, const char *path, bool hides,
                       struct error *err)
{
    bool made = mkdirat(parent, name, 0755) == 0;

    if (!made && errno != EEXIST) {
        (void)error_errno(err, "mkdir %s", path);
        return -1;
    }
    AUTO_FD int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        refuse_folder(parent, name, path, err);
        return -1;
    }
    if (made && fchmod(folder, 0755) != 0) {
        (void)error_errno(err, "chmod %s", path);
        return -1;
    }
    if (hides && !aside_set_opaque(folder, err))
        return -1;
    return take_fd(&folder);
}

static void remember_folder(struct extract *extract, const char *path, struct timespec modified)
{
    if (extract->n_folders == extract->room) {
        extract->room = extract->room ? extract->room * 2 : 256;
        extract->folders = alloc_more(extract->folders, extract->room * sizeof *extract->folders);
    }
    extract->folders[extract->n_folders++] = (struct late_folder){alloc_text(path), modified};
}

/* A folder the archive does not list keeps the owner, mode and time it has in the layers below. */
static bool make_unlisted(struct extract *extract, int parent, const char *name, const char *path,
                          struct error *err)
{
    struct view_place place = {0};
    bool blocked = false, hides = is_whiteout(parent, name);
    struct view merged;

    if (hides && unlinkat(parent, name, 0) != 0)
        return error_errno(err, "remove %s", path);
    if (!hides && has_below(extract) && !look(extract, path, &merged, &place, &blocked, err))
        return false;
    bool is_lower = place.is_there && place.layer < merged.n - 1;
    if (blocked || (is_lower && !S_ISDIR(place.facts.st_mode)))
        return error_set(err, ERR_ARCHIVE_INVALID,
                         "the archive's folder \"%.128s\" is no folder in a lower layer", path);
    AUTO_FD int folder = make_folder(parent, name, path, hides, err);
    if (folder < 0 || !is_lower)
        return folder >= 0;
    AUTO_FD int lower = disk_open(merged.layers[place.layer], path, O_RDONLY | O_DIRECTORY);
    if (lower < 0)
        return error_errno(err, "open %s", path);
    remember_folder(extract, path, place.facts.st_mtim);
    return copy_up_facts(lower, folder, err);
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
        AUTO_FD int parent = disk_open_parent(extract->spec->root, part, &name);
        if (parent < 0)
            return error_set(err, ERR_ARCHIVE_INVALID,
                             "the archive's entries pass through \"%.128s\", which is no folder",
                             part);
        if (!make_unlisted(extract, parent, name, part, err))
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

static bool is_folder(int parent, const char *name)
{
    struct stat found;

    return fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode);
}

static bool put_folder(struct extract *extract, struct archive_entry *entry, const char *name,
                       const char *path, struct error *err)
{
    bool hides = false, may_replace = extract->spec->kind == EXTRACT_LAYER;

    if (may_replace && !is_folder(extract->parent, name) &&
        !free_place(extract, name, path, &hides, err))
        return false;
    AUTO_FD int fd = make_folder(extract->parent, name, path, hides && has_below(extract), err);

    if (fd < 0 || !facts_set(fd, extract->spec->kind, entry, err))
        return false;
    remember_folder(extract, path, facts_modified(entry));
    return true;
}

/* Mostly the place is free, so that is not asked first. */
static int create_file(struct extract *extract, const char *name, const char *path,
                       struct error *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(extract->parent, name, flags, 0600);
    bool hides;

    if (fd < 0 && errno == EEXIST) {
        if (!free_place(extract, name, path, &hides, err))
            return -1;
        fd = openat(extract->parent, name, flags, 0600);
    }
    if (fd < 0)
        (void)error_errno(err, "create %s", path);
    return fd;
}

static bool put_file(struct extract *extract, struct archive_entry *entry, const char *name,
                     const char *path, struct error *err)
{
    AUTO_FD int fd = create_file(extract, name, path, err);
    if (fd < 0)
        return false;
    struct timespec times[2] = {facts_modified(entry), facts_modified(entry)};
    if (!extract_content(extract->reader, fd, archive_entry_size(entry), err) ||
        !facts_set(fd, extract->spec->kind, entry, err))
        return error_wrap(err, "%.128s", path);
    return futimens(fd, times) == 0 || error_errno(err, "set times of %s", path);
}

static bool put_link(struct extract *extract, struct archive_entry *entry, const char *name,
                     const char *path, struct error *err)
{
    const char *target = archive_entry_symlink(entry);
    size_t len = target ? strlen(target) : 0;
    bool hides;

    if (len == 0 || len > TAR_PATH_MAX)
        return error_set(err, ERR_ARCHIVE_INVALID, "the link \"%.128s\" has no valid target", path);
    if (extract->spec->kind == EXTRACT_PROJECT && !tar_link_stays_inside(path, str_of(target)))
        return error_set(err, ERR_ARCHIVE_INVALID, "the link \"%.128s\" leads out of the project",
                         path);
    if (!free_place(extract, name, path, &hides, err))
        return false;
    uid_t uid = 0;
    gid_t gid = 0;
    if (extract->spec->kind == EXTRACT_PROJECT)
        return (symlinkat(target, extract->parent, name) == 0 ||
                error_errno(err, "symlink %s", path)) &&
               facts_set_time_at(extract->parent, name, entry, err);
    return facts_owner(entry, &uid, &gid, err) &&
           aside_symlink(target, extract->parent, name, uid, gid, err) &&
           facts_set_time_at(extract->parent, name, entry, err);
}

static bool put_fifo(struct extract *extract, struct archive_entry *entry, const char *name,
                     const char *path, struct error *err)
{
    bool hides;

    if (!free_place(extract, name, path, &hides, err))
        return false;
    uid_t uid = 0;
    gid_t gid = 0;
    AUTO_FD int fd = aside_fifo(extract->parent, name);
    if (fd < 0)
        return error_errno(err, "mkfifo %s", path);
    return facts_owner(entry, &uid, &gid, err) &&
           aside_set(fd, S_IFIFO | (archive_entry_perm(entry) & 07777), uid, gid, err) &&
           facts_set_time_at(extract->parent, name, entry, err);
}

/* A link may be to a file of a lower layer, which this one then takes over. */
static bool take_over(struct extract *extract, const char *target, const char *path,
                      struct error *err)
{
    struct view_place place = {0};
    const char *name, *lower_name;
    struct view merged;

    if (has_below(extract) && !look(extract, target, &merged, &place, NULL, err))
        return false;
    if (!place.is_there || S_ISDIR(place.facts.st_mode))
        return error_set(err, ERR_ARCHIVE_INVALID,
                         "the hard link \"%.128s\" is to a file that is not in the archive", path);
    AUTO_FD int lower = disk_open_parent(merged.layers[place.layer], target, &lower_name);
    if (lower < 0)
        return error_errno(err, "open %s", target);
    return tar_spend(extract->spec->budget, place.facts.st_size, err) &&
           open_parent(extract, target, &name, err) &&
           copy_up(lower, lower_name, extract->parent, name, err);
}

static bool find_target(struct extract *extract, const char *target, struct stat *found)
{
    const char *name;
    AUTO_FD int folder = disk_open_parent(extract->spec->root, target, &name);

    return folder >= 0 && fstatat(folder, name, found, AT_SYMLINK_NOFOLLOW) == 0 &&
           !S_ISDIR(found->st_mode) && !S_ISCHR(found->st_mode);
}

static bool link_to(struct extract *extract, const char *target, const char *path,
                    struct error *err)
{
    const char *target_name, *name;
    AUTO_FD int folder = disk_open_parent(extract->spec->root, target, &target_name);
    bool hides;

    if (folder < 0)
        return error_errno(err, "open %s", target);
    if (!open_parent(extract, path, &name, err) || !free_place(extract, name, path, &hides, err))
        return false;
    if (linkat(folder, target_name, extract->parent, name, 0) == 0)
        return true;
    if (errno == ENOENT)
        return error_set(err, ERR_ARCHIVE_INVALID, "the hard link \"%.128s\" replaces its target",
                         path);
    return error_errno(err, "link %s", path);
}

static bool put_hard_link(struct extract *extract, struct archive_entry *entry, const char *name,
                          const char *path, struct error *err)
{
    char target[TAR_PATH];
    struct stat found, there;

    if (extract->spec->kind == EXTRACT_PROJECT)
        return error_set(err, ERR_ARCHIVE_INVALID, "the archive has a hard link, \"%.128s\"", path);
    if (!tar_path(str_of(archive_entry_hardlink(entry)), target, err))
        return false;
    if (!find_target(extract, target, &found)) {
        if (!take_over(extract, target, path, err))
            return false;
    } else if (fstatat(extract->parent, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
               there.st_ino == found.st_ino) {
        return true;
    }
    return link_to(extract, target, path, err);
}

/* What a layer hides of the layers below. Where there is nothing to hide no mark is left: in a
 * folder of this layer alone overlayfs would show it as a file that nobody can open. */
static bool hide(struct extract *extract, int parent, const char *name, const char *path,
                 struct error *err)
{
    struct view_place place = {0};
    struct view merged = {0};

    if (has_below(extract) && !look(extract, path, &merged, &place, NULL, err))
        return false;
    if (!place.is_there)
        return true;
    if (place.layer < merged.n - 1)
        return mknodat(parent, name, S_IFCHR, makedev(0, 0)) == 0 ||
               error_errno(err, "whiteout %s", name);
    if (place.n_folders < 2)
        return true;
    AUTO_FD int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return folder >= 0 ? aside_set_opaque(folder, err) : error_errno(err, "open %s", name);
}

/* When a folder became a file or a link, umoci lists what was in it all the same: below something
 * that is no folder there is nothing to hide. */
static bool is_idle(const struct extract *extract, const char *path, bool *idle, struct error *err)
{
    const char *slash = strrchr(path, '/');
    struct view_place place = {0};
    char parent[TAR_PATH];
    struct view merged;
    bool blocked = false;

    *idle = false;
    if (!slash)
        return true;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    if (!look(extract, parent, &merged, &place, &blocked, err))
        return false;
    *idle = blocked || (place.is_there && !S_ISDIR(place.facts.st_mode));
    return true;
}

static bool put_marker(struct extract *extract, const char *path, const char *hidden,
                       struct error *err)
{
    const char *name;
    bool idle;

    if (!is_idle(extract, path, &idle, err))
        return false;
    if (idle)
        return true;
    if (!open_parent(extract, path, &name, err))
        return false;
    if (hidden) {
        char target[TAR_PATH];
        (void)snprintf(target, sizeof target, "%.*s%s", (int)(name - path), path, hidden);
        return hide(extract, extract->parent, hidden, target, err);
    }
    extract->hides_root = extract->hides_root || !*extract->parent_path;
    return !*extract->parent_path || !has_below(extract) || aside_set_opaque(extract->parent, err);
}

/* overlayfs merges the roots of all layers whatever is written on them. */
static bool hide_root(struct extract *extract, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    struct view_place place;

    if (!extract->hides_root || !has_below(extract))
        return true;
    if (!view_look(extract->spec->below, "", &place, NULL, err) ||
        !view_list(extract->spec->below, "", &place, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++)
        if (!hide(extract, extract->spec->root, names.names[i], names.names[i], err))
            return false;
    return true;
}

/* Left out, and yet it stands where something of a lower layer may be. */
static bool leave_out(struct extract *extract, const char *name, const char *path,
                      struct error *err)
{
    bool hides;

    return free_place(extract, name, path, &hides, err) &&
           hide(extract, extract->parent, name, path, err);
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
            return leave_out(extract, name, path, err);
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
    remember_folder(extract, "", facts_modified(entry));
    return facts_set(extract->spec->root, extract->spec->kind, entry, err);
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
    if (marker != TAR_PLAIN)
        return put_marker(extract, path, hidden, err);
    if (!open_parent(extract, path, &name, err))
        return false;
    return put_by_kind(extract, entry, name, path, err);
}

static bool set_folder_times(struct extract *extract, struct error *err)
{
    for (size_t i = 0; i < extract->n_folders; i++) {
        const struct late_folder *late = &extract->folders[i];
        struct timespec times[2] = {late->modified, late->modified};
        AUTO_FD int fd = disk_open(extract->spec->root, late->path, O_RDONLY | O_DIRECTORY);
        /* A later entry may have replaced it. */
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
            continue;
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
    return copy_up_facts(below, extract->spec->root, err);
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
            return hide_root(&extract, err) && set_folder_times(&extract, err);
        if (!put_entry(&extract, entry, err))
            return false;
    }
}
