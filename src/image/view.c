#include "image/view.h"

#include <errno.h>
#include <fcntl.h>

#include "base/own.h"
#include "image/aside.h"

enum { LINKS_MAX = 40 };

void view_finish(struct view *view)
{
    for (size_t i = 0; i < view->n; i++)
        close(view->layers[i]);
    view->n = 0;
}

bool view_open(const char *const *folders, size_t n, struct view *view, struct error *err)
{
    AUTO(view_finish) struct view opened = {0};

    if (n > VIEW_LAYERS_MAX)
        return error_set(err, ERR_TOO_LARGE, "an image has over %d layers", VIEW_LAYERS_MAX);
    for (size_t i = 0; i < n; i++) {
        int fd = open(folders[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return error_errno(err, "open %s", folders[i]);
        opened.layers[opened.n++] = fd;
    }
    *view = opened;
    opened.n = 0;
    return true;
}

static bool is_opaque(int layer, const char *path)
{
    AUTO_FD int fd = disk_open(layer, path, O_RDONLY | O_DIRECTORY);

    return fd >= 0 && aside_is_opaque(fd);
}

static void view_root(const struct view *view, struct view_place *place)
{
    *place = (struct view_place){.is_there = true, .facts = {.st_mode = S_IFDIR | 0755}};
    for (size_t i = view->n; i-- > 0;)
        place->folders[place->n_folders++] = i;
    if (view->n) {
        place->layer = view->n - 1;
        (void)aside_stat(view->layers[place->layer], &place->facts);
    }
}

/* From a merged folder to what `path`, one segment longer, is in it. */
static bool view_child(const struct view *view, const struct view_place *parent, const char *path,
                       struct view_place *child, struct error *err)
{
    *child = (struct view_place){0};
    for (size_t i = 0; i < parent->n_folders; i++) {
        size_t layer = parent->folders[i];
        AUTO_FD int fd = disk_open(view->layers[layer], path, O_PATH);
        struct stat facts;
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0 || aside_stat(fd, &facts) != 0)
            return error_errno(err, "look at %s", path);
        if (S_ISCHR(facts.st_mode) || (child->is_there && !S_ISDIR(facts.st_mode)))
            return true;
        if (!child->is_there) {
            child->is_there = true;
            child->facts = facts;
            child->layer = layer;
        }
        if (!S_ISDIR(facts.st_mode))
            return true;
        child->folders[child->n_folders++] = layer;
        if (is_opaque(view->layers[layer], path))
            return true;
    }
    return true;
}

bool view_look(const struct view *view, const char *path, struct view_place *place, bool *blocked,
               struct error *err)
{
    struct view_place at, next;
    char part[TAR_PATH];
    size_t len = strlen(path);

    if (len >= sizeof part)
        return error_set(err, ERR_INVALID, "a path in the image is too long");
    if (blocked)
        *blocked = false;
    memcpy(part, path, len + 1);
    view_root(view, &at);
    for (size_t i = 1; len && i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        if (at.is_there && !S_ISDIR(at.facts.st_mode)) {
            if (blocked)
                *blocked = true;
            at = (struct view_place){0};
        }
        if (!at.is_there)
            break;
        char kept = part[i];
        part[i] = '\0';
        if (!view_child(view, &at, part, &next, err))
            return false;
        at = next;
        part[i] = kept;
    }
    *place = at;
    return true;
}

static bool read_link(const struct view *view, const struct view_place *place, const char *path,
                      char target[TAR_PATH], struct error *err)
{
    const char *name;
    AUTO_FD int folder = disk_open_parent(view->layers[place->layer], path, &name);
    ssize_t len = folder < 0 ? -1 : aside_readlink(folder, name, target, TAR_PATH_MAX);

    if (len < 0)
        return error_errno(err, "read the link %s", path);
    target[len] = '\0';
    return true;
}

/* rest = target + "/" + rest */
static bool push_front(char *rest, size_t size, const char *target, struct error *err)
{
    struct str added = str_of(target);
    size_t len = strlen(rest);

    if (added.len + len + 2 > size)
        return error_set(err, ERR_UNPROCESSABLE, "a path in the image is too long");
    memmove(rest + added.len + 1, rest, len + 1);
    memcpy(rest, added.ptr, added.len);
    rest[added.len] = '/';
    return true;
}

static void drop_last(char *path)
{
    char *slash = strrchr(path, '/');

    *(slash ? slash : path) = '\0';
}

static bool add_segment(char *path, struct str segment, struct error *err)
{
    size_t len = strlen(path);

    if (len + segment.len + 2 > TAR_PATH || segment.len > TAR_NAME_MAX)
        return error_set(err, ERR_UNPROCESSABLE, "a path in the image is too long");
    if (len)
        path[len++] = '/';
    memcpy(path + len, segment.ptr, segment.len);
    path[len + segment.len] = '\0';
    return true;
}

bool view_resolve(const struct view *view, const char *path, char resolved[TAR_PATH],
                  struct error *err)
{
    char rest[2 * TAR_PATH] = "", done[TAR_PATH] = "", target[TAR_PATH];
    int links = 0;

    if (!push_front(rest, sizeof rest, path, err))
        return false;
    while (*rest) {
        size_t len = strcspn(rest, "/");
        struct str segment = {rest, len};
        struct view_place place = {0};
        if (str_equal(segment, STR("..")) && !*done)
            return error_set(err, ERR_UNPROCESSABLE, "%.128s leaves the image's root", path);
        if (str_equal(segment, STR("..")))
            drop_last(done);
        bool is_name = len && !str_equal(segment, STR(".")) && !str_equal(segment, STR(".."));
        if (is_name && !add_segment(done, segment, err))
            return false;
        memmove(rest, rest + len + (rest[len] == '/'), strlen(rest + len + (rest[len] == '/')) + 1);
        if (!is_name)
            continue;
        if (!view_look(view, done, &place, NULL, err))
            return false;
        if (!place.is_there || !S_ISLNK(place.facts.st_mode))
            continue;
        if (++links > LINKS_MAX)
            return error_set(err, ERR_UNPROCESSABLE, "%.128s has too many symbolic links", path);
        if (!read_link(view, &place, done, target, err) ||
            !push_front(rest, sizeof rest, target, err))
            return false;
        drop_last(done);
        if (*target == '/')
            *done = '\0';
    }
    memcpy(resolved, done, strlen(done) + 1);
    return true;
}

static void add_names(struct disk_names *all, struct disk_names *more)
{
    if (!more->n)
        return;
    all->names = alloc_more(all->names, (all->n + more->n) * sizeof *all->names);
    memcpy(all->names + all->n, more->names, more->n * sizeof *all->names);
    all->n += more->n;
    more->n = 0;
}

static bool collect(const struct view *view, const char *path, const struct view_place *place,
                    struct disk_names *all, struct error *err)
{
    for (size_t i = 0; i < place->n_folders; i++) {
        AUTO_FD int fd = disk_open(view->layers[place->folders[i]], path, O_RDONLY | O_DIRECTORY);
        AUTO(disk_names_finish) struct disk_names some = {0};
        if (fd < 0)
            return error_errno(err, "open %s", path);
        if (!disk_list(fd, TAR_ENTRIES_MAX, &some, err))
            return false;
        add_names(all, &some);
    }
    disk_names_sort(all);
    return true;
}

bool view_list(const struct view *view, const char *path, const struct view_place *place,
               struct disk_names *names, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names all = {0};
    size_t kept = 0;

    if (!collect(view, path, place, &all, err))
        return false;
    for (size_t i = 0; i < all.n; i++) {
        char child[TAR_PATH];
        struct view_place found = {0};
        bool is_repeated = kept > 0 && strcmp(all.names[kept - 1], all.names[i]) == 0;
        if (!is_repeated) {
            (void)snprintf(child, sizeof child, "%s", path);
            if (!add_segment(child, str_of(all.names[i]), err) ||
                !view_child(view, place, child, &found, err))
                return false;
        }
        if (!found.is_there)
            continue;
        char *swapped = all.names[kept];
        all.names[kept++] = all.names[i];
        all.names[i] = swapped;
    }
    for (size_t i = kept; i < all.n; i++)
        free(all.names[i]);
    all.n = kept;
    *names = all;
    all = (struct disk_names){0};
    return true;
}
