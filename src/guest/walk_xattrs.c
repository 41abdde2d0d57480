/* The attributes of a file that a tree holds. */
#include <errno.h>
#include <stdlib.h>
#include <sys/xattr.h>

#include "base/arena.h"
#include "base/own.h"
#include "guest/walk.h"

enum { NAMES_MAX = 65536 };

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_kept_name(const char *name)
{
    return (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0) ||
           strcmp(name, "security.capability") == 0;
}

static bool append_xattr(int fd, const char *name, struct buf *out, struct error *err)
{
    AUTO_FREE char *value = alloc(TREE_XATTRS_MAX);
    ssize_t len = fgetxattr(fd, name, value, TREE_XATTRS_MAX);

    if (len < 0)
        return errno == ENODATA || error_errno(err, "reading the attribute %.100s", name);
    return tree_xattr_append(out, str_of(name), (struct str){value, (size_t)len}, err);
}

/* Of file systems without attributes there are none. */
bool walk_xattrs(int fd, struct buf *out, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    ssize_t len = flistxattr(fd, NULL, 0); /* mostly there are none */
    size_t n = 0;

    if (len == 0)
        return true;
    AUTO_FREE char *list = alloc(NAMES_MAX);
    if (len > 0)
        len = flistxattr(fd, list, NAMES_MAX);
    if (len < 0)
        return errno == ENOTSUP || errno == ENOSYS || error_errno(err, "reading the attributes");
    char **names = arena_array(&arena, (size_t)len + 1, sizeof *names);
    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(list + at) + 1) {
        if (is_kept_name(list + at))
            names[n++] = list + at;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 0; i < n; i++) {
        if (!append_xattr(fd, names[i], out, err))
            return false;
    }
    return true;
}
