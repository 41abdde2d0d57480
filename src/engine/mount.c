#include "engine/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>

#include "base/file.h"
#include "base/own.h"

enum { OPTIONS_ROOM = 4096, MOUNTINFO_MAX = 8 << 20 };

bool mount_isolate(struct error *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return error_errno(err, "new mount namespace");
    return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 ||
           error_errno(err, "detach from the host's mounts");
}

bool mount_bind(const char *source, const char *target, bool is_writable, struct error *err)
{
    if (mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0)
        return error_errno(err, "bind %s", source);
    if (is_writable)
        return true;
    return mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0 ||
           error_errno(err, "make %s read-only", target);
}

/* Layers are named by descriptor: paths of any length and with any character fit then. */
static bool lower_append(const char *layer, char *options, size_t *len, struct error *err)
{
    int fd = open(layer, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open the layer %s", layer);

    int added = snprintf(options + *len, OPTIONS_ROOM - *len, "/proc/self/fd/%d:", fd);
    if (added < 0 || (size_t)added >= OPTIONS_ROOM - *len)
        return error_set(err, ERR_TOO_LARGE, "too many layers");
    *len += (size_t)added;
    return true;
}

static bool upper_append(const char *key, const char *path, char *options, size_t *len,
                         struct error *err)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", path);

    int added = snprintf(options + *len, OPTIONS_ROOM - *len, ",%s=/proc/self/fd/%d", key, fd);
    if (added < 0 || (size_t)added >= OPTIONS_ROOM - *len)
        return error_set(err, ERR_TOO_LARGE, "too many layers");
    *len += (size_t)added;
    return true;
}

bool mount_layers(const char *const *layers, size_t n, const char *upper, const char *work,
                  const char *target, struct error *err)
{
    char options[OPTIONS_ROOM] = "lowerdir=";
    size_t len = strlen(options);

    if (n == 0 || n > MOUNT_LAYERS_MAX)
        return error_set(err, ERR_INVALID, "%zu layers cannot be stacked", n);
    if (n == 1 && !upper)
        return mount_bind(layers[0], target, false, err);

    /* Overlay wants the uppermost first. */
    for (size_t i = n; i > 0; i--) {
        if (!lower_append(layers[i - 1], options, &len, err))
            return false;
    }
    options[--len] = '\0';
    if (upper && (!upper_append("upperdir", upper, options, &len, err) ||
                  !upper_append("workdir", work, options, &len, err)))
        return false;
    return mount("overlay", target, "overlay", upper ? 0 : MS_RDONLY, options) == 0 ||
           error_errno(err, "stack %zu layers", n);
}

bool mount_empty(const char *target, struct error *err)
{
    return mount("tmpfs", target, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                 "size=4k,mode=755") == 0 ||
           error_errno(err, "hide %s", target);
}

/* The fifth word of a mountinfo line, with its \040 escapes undone. */
static bool mount_point_read(struct str line, char *path, size_t room)
{
    struct str word;
    size_t len = 0;

    for (int i = 0; i < 5; i++) {
        if (!str_split(&line, ' ', &word))
            return false;
    }
    for (size_t i = 0; i < word.len && len + 1 < room; i++) {
        if (word.ptr[i] == '\\' && i + 3 < word.len) {
            path[len++] = (char)((word.ptr[i + 1] - '0') * 64 + (word.ptr[i + 2] - '0') * 8 +
                                 (word.ptr[i + 3] - '0'));
            i += 3;
        } else {
            path[len++] = word.ptr[i];
        }
    }
    path[len] = '\0';
    return true;
}

static bool is_at_or_below(const char *path, const char *root)
{
    size_t len = strlen(root);

    return strncmp(path, root, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* The last mount in the table at or below the path: of two, the deeper comes later. */
static bool last_below(const char *root, char *found, size_t room, struct error *err)
{
    AUTO_FREE char *text = NULL;

    found[0] = '\0';
    if (!file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &text, err))
        return false;

    struct str rest = str_of(text), line;
    while (str_split(&rest, '\n', &line)) {
        char path[PATH_MAX];
        if (mount_point_read(line, path, sizeof(path)) && is_at_or_below(path, root))
            snprintf(found, room, "%s", path);
    }
    return true;
}

bool mount_is_below(const char *path, bool *is_below, struct error *err)
{
    char found[PATH_MAX];

    if (!last_below(path, found, sizeof(found), err))
        return false;
    *is_below = found[0] != '\0';
    return true;
}

bool mount_remove_below(const char *path, struct error *err)
{
    char found[PATH_MAX];

    for (int tries = 0; tries < 1024; tries++) {
        if (!last_below(path, found, sizeof(found), err))
            return false;
        if (!found[0])
            return true;
        if (umount2(found, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
            return error_errno(err, "unmount %s", found);
    }
    return error_set(err, ERR_INTERNAL, "mounts below %s keep coming back", path);
}
