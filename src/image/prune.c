#include "image/prune.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>

#include "base/file.h"
#include "base/own.h"
#include "image/aside.h"

static const char *const platform_paths[] = {
    "proc",    "sys",          "dev",       "run/helmr",       "opt/helmr",
    "newroot", "etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/machine-id",
};

static bool is_empty(int folder, bool *empty, struct error *err)
{
    struct disk_names names = {0};

    if (disk_list(folder, 1, &names, err)) {
        *empty = names.n == 0;
        disk_names_finish(&names);
        return true;
    }
    *empty = false;
    return err->code == ERR_TOO_LARGE;
}

/* Whether an empty folder of the upper says nothing the layers below do not say. */
static bool is_idle(int folder, const char *path, const struct view *below, bool *idle,
                    struct error *err)
{
    struct view_place place;
    struct stat facts;

    *idle = false;
    if (aside_stat(folder, &facts) != 0)
        return error_errno(err, "look at %s", path);
    if (aside_is_opaque(folder))
        return true;
    if (!view_look(below, path, &place, NULL, err))
        return false;
    *idle = !place.is_there ||
            (S_ISDIR(place.facts.st_mode) && place.facts.st_mode == facts.st_mode &&
             place.facts.st_uid == facts.st_uid && place.facts.st_gid == facts.st_gid);
    return true;
}

/* Removes the folder and then its parents, as long as they hold nothing of their own. */
static bool remove_idle(int upper, char *path, const struct view *below, struct error *err)
{
    while (*path) {
        bool empty = false, idle = false;
        const char *name;
        AUTO_FD int folder = disk_open(upper, path, O_RDONLY | O_DIRECTORY);
        AUTO_FD int parent = disk_open_parent(upper, path, &name);
        if (folder >= 0) {
            if (!is_empty(folder, &empty, err) ||
                (empty && !is_idle(folder, path, below, &idle, err)))
                return false;
            if (!idle)
                return true;
            if (parent < 0 || unlinkat(parent, name, AT_REMOVEDIR) != 0)
                return error_errno(err, "remove %s", path);
        } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
            return error_errno(err, "open %s", path);
        }
        char *slash = strrchr(path, '/');
        *(slash ? slash : path) = '\0';
    }
    return true;
}

static bool remove_platform_path(int upper, const char *path, const struct view *below,
                                 struct error *err)
{
    char parent_path[TAR_PATH];
    const char *name, *slash = strrchr(path, '/');
    AUTO_FD int parent = disk_open_parent(upper, path, &name);

    if (parent < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ||
               error_errno(err, "open %s", path);
    if (!tree_remove(parent, name, err))
        return false;
    (void)snprintf(parent_path, sizeof parent_path, "%.*s", slash ? (int)(slash - path) : 0, path);
    return remove_idle(upper, parent_path, below, err);
}

bool prune_upper(int upper, const struct view *below, const char *const *mounts, size_t n,
                 struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(platform_paths); i++)
        if (!remove_platform_path(upper, platform_paths[i], below, err))
            return error_wrap(err, "taking the platform's files out of a layer");
    for (size_t i = 0; i < n; i++) {
        char path[TAR_PATH];
        if (!view_resolve(below, mounts[i], path, err) || !remove_idle(upper, path, below, err))
            return error_wrap(err, "taking a mount point out of a layer");
    }
    return true;
}
