#include "image/copy.h"

#include <fcntl.h>
#include <sys/xattr.h>

#include "base/map.h"
#include "base/own.h"
#include "image/aside.h"
#include "image/extract.h"

/* Where a folder's content goes. One that the layer itself makes holds nothing yet. */
struct place {
    const char *path;
    bool is_new;
};

/* Writes the folders of a resolved path that the image lacks; `mode` is the last one's. */
static bool make_missing(struct copy *copy, const char *path, mode_t mode, bool *made,
                         struct error *err)
{
    char part[TAR_PATH];
    size_t len = strlen(path);

    *made = false;
    memcpy(part, path, len + 1);
    for (size_t i = 1; len && i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        struct view_place place;
        part[i] = '\0';
        if (!view_look(copy->view, part, &place, NULL, err))
            return false;
        if (place.is_there && !S_ISDIR(place.facts.st_mode))
            return error_set(err, ERR_UNPROCESSABLE, "/%.128s is not a directory in the image",
                             part);
        size_t part_len = strlen(part);
        bool is_made = strncmp(copy->last_made, part, part_len) == 0 &&
                       (copy->last_made[part_len] == '/' || copy->last_made[part_len] == '\0');
        if (!place.is_there && !is_made) {
            if (!layer_writer_folder(copy->writer, part, kept ? 0755 : mode, err))
                return false;
            memcpy(copy->last_made, part, part_len + 1);
        }
        *made = *made || !place.is_there;
        part[i] = kept;
    }
    return true;
}

/* Follows the image's links, then makes sure that a folder is there. */
static bool enter(struct copy *copy, const char *path, mode_t mode, struct place *place,
                  struct error *err)
{
    char resolved[TAR_PATH];

    if (!view_resolve(copy->view, path, resolved, err) ||
        !make_missing(copy, resolved, mode, &place->is_new, err))
        return false;
    place->path = arena_text(copy->arena, str_of(resolved));
    return true;
}

static const char *join(struct arena *arena, const char *folder, const char *name)
{
    return *folder ? arena_printf(arena, "%s/%s", folder, name) : name;
}

static bool enter_child(struct copy *copy, const struct place *parent, const char *name,
                        mode_t mode, struct place *child, struct error *err)
{
    const char *path = join(copy->arena, parent->path, name);

    if (!parent->is_new)
        return enter(copy, path, mode, child, err);
    *child = (struct place){path, true};
    return layer_writer_folder(copy->writer, path, mode, err);
}

/* A file replaces a file or a link; a folder of the image stays. */
static bool check_file_place(struct copy *copy, const struct place *parent, const char *path,
                             struct error *err)
{
    struct view_place place;

    if (strlen(path) > TAR_PATH_MAX)
        return error_set(err, ERR_UNPROCESSABLE, "%.128s… is too long a path", path);
    if (parent->is_new)
        return true;
    if (!view_look(copy->view, path, &place, NULL, err))
        return false;
    return !place.is_there || !S_ISDIR(place.facts.st_mode) ||
           error_set(err, ERR_UNPROCESSABLE,
                     "/%.128s is a directory in the image and a file in what is copied", path);
}

static struct archive_entry *new_entry(const char *path, mode_t mode, int64_t size)
{
    struct archive_entry *entry = archive_entry_new();

    if (!entry)
        abort();
    archive_entry_copy_pathname(entry, path);
    archive_entry_set_mode(entry, mode);
    archive_entry_set_size(entry, size);
    archive_entry_set_mtime(entry, 0, 0);
    return entry;
}

static const char *absolute(struct copy *copy, const char *path)
{
    return *path == '/' ? path : arena_printf(copy->arena, "%s/%s", copy->workdir, path);
}

/* Where a single file goes: into dest when that is a folder or ends in a slash, else there. */
static bool file_destination(struct copy *copy, const char *dest, const char *name,
                             struct place *parent, const char **path, struct error *err)
{
    const char *full = absolute(copy, dest);
    size_t len = strlen(full);
    char resolved[TAR_PATH];
    struct view_place place;

    if (!view_resolve(copy->view, full, resolved, err) ||
        !view_look(copy->view, resolved, &place, NULL, err))
        return false;
    bool is_folder = full[len - 1] == '/' || (place.is_there && S_ISDIR(place.facts.st_mode));
    if (!is_folder) {
        const char *slash = strrchr(full, '/');
        name = slash + 1;
        full = arena_text(copy->arena, (struct str){full, (size_t)(slash - full) + 1});
    }
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !*name)
        return error_set(err, ERR_UNPROCESSABLE, "%.128s names no file", dest);
    if (!enter(copy, full, 0755, parent, err))
        return false;
    *path = join(copy->arena, parent->path, name);
    return check_file_place(copy, parent, *path, err);
}

static bool put_source_file(struct copy *copy, const struct source *source,
                            const struct source_entry *from, const char *path, struct error *err)
{
    AUTO_FD int fd = -1;
    AUTO(layer_entry_free)
    struct archive_entry *entry =
        new_entry(path, S_IFREG | (from->is_executable ? 0755 : 0644), from->size);

    return source_open(source, from, &fd, err) && layer_writer_put(copy->writer, entry, fd, err);
}

static bool put_source_folder(struct copy *copy, const struct source *source,
                              const struct place *root, struct map *places, struct error *err)
{
    for (size_t i = 0; i < source->n; i++) {
        const struct source_entry *entry = &source->entries[i];
        const char *slash = strrchr(entry->path, '/');
        const char *name = slash ? slash + 1 : entry->path;
        struct str folder = {entry->path, slash ? (size_t)(slash - entry->path) : 0};
        const struct place *parent = slash ? map_find(places, folder) : root;
        if (entry->is_folder) {
            struct place *child = arena_alloc(copy->arena, sizeof *child);
            if (!enter_child(copy, parent, name, 0755, child, err))
                return false;
            (void)map_put(places, str_of(entry->path), child);
            continue;
        }
        const char *path = join(copy->arena, parent->path, name);
        if (!check_file_place(copy, parent, path, err) ||
            !put_source_file(copy, source, entry, path, err))
            return false;
    }
    return true;
}

bool copy_source(struct copy *copy, const struct source *source, const char *dest,
                 struct error *err)
{
    AUTO(map_finish) struct map places = {0};
    bool is_file = source->n == 1 && !*source->entries[0].path;
    const char *slash = strrchr(source->base, '/'), *path = NULL;
    struct place place = {0};

    if (is_file)
        return file_destination(copy, dest, slash ? slash + 1 : source->base, &place, &path, err) &&
               put_source_file(copy, source, &source->entries[0], path, err);
    return enter(copy, absolute(copy, dest), 0755, &place, err) &&
           put_source_folder(copy, source, &place, &places, err);
}

bool copy_folder(struct copy *copy, const char *path, struct error *err)
{
    struct place place;

    return enter(copy, absolute(copy, path), 0755, &place, err);
}

static void copy_capability(int fd, struct archive_entry *entry)
{
    char value[256];
    ssize_t len = fgetxattr(fd, aside_stored("security.capability"), value, sizeof value);

    if (len > 0)
        archive_entry_xattr_add_entry(entry, "security.capability", value, (size_t)len);
}

/* One file, link or fifo of another image. */
static bool put_image_file(struct copy *copy, const struct view *from, const char *source,
                           const struct view_place *found, const char *path, struct error *err)
{
    AUTO(layer_entry_free)
    struct archive_entry *entry =
        new_entry(path, found->facts.st_mode,
                  S_ISREG(found->facts.st_mode) ? found->facts.st_size : 0);
    const char *name;
    AUTO_FD int folder = disk_open_parent(from->layers[found->layer], source, &name);
    AUTO_FD int fd = -1;

    archive_entry_set_mtime(entry, found->facts.st_mtime, 0);
    if (folder < 0)
        return error_errno(err, "open %s", source);
    if (S_ISREG(found->facts.st_mode)) {
        fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return error_errno(err, "open %s", source);
        copy_capability(fd, entry);
    } else if (S_ISLNK(found->facts.st_mode)) {
        if (!layer_entry_link(entry, folder, name, err))
            return error_wrap(err, "reading %s", source);
    }
    return layer_writer_put(copy->writer, entry, fd, err);
}

static bool put_image_folder(struct copy *copy, const struct view *from, const char *source,
                             const struct view_place *folder, const struct place *into,
                             struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};

    if (!view_list(from, source, folder, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        const char *child = join(copy->arena, source, names.names[i]);
        const char *path = join(copy->arena, into->path, names.names[i]);
        struct view_place found;
        struct place place;
        if (!view_look(from, child, &found, NULL, err))
            return false;
        if (S_ISDIR(found.facts.st_mode)) {
            if (!enter_child(copy, into, names.names[i], found.facts.st_mode & 07777, &place,
                             err) ||
                !put_image_folder(copy, from, child, &found, &place, err))
                return false;
        } else if (!check_file_place(copy, into, path, err) ||
                   !put_image_file(copy, from, child, &found, path, err)) {
            return false;
        }
    }
    return true;
}

bool copy_image(struct copy *copy, const struct view *from, const char *path, const char *dest,
                struct error *err)
{
    char resolved[TAR_PATH];
    struct view_place found;
    struct place place = {0};

    if (!view_resolve(from, path, resolved, err) || !view_look(from, resolved, &found, NULL, err))
        return false;
    if (!found.is_there)
        return error_set(err, ERR_UNPROCESSABLE, "%.128s is not in the image it is copied from",
                         path);
    if (S_ISDIR(found.facts.st_mode))
        return enter(copy, absolute(copy, dest), 0755, &place, err) &&
               put_image_folder(copy, from, resolved, &found, &place, err);

    const char *slash = strrchr(resolved, '/'), *target = NULL;
    return file_destination(copy, dest, slash ? slash + 1 : resolved, &place, &target, err) &&
           put_image_file(copy, from, resolved, &found, target, err);
}
