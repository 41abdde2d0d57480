#include "image/ext4_attributes.h"

#include <errno.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#include "base/own.h"
#include "image/aside.h"
#include "image/extract.h"

enum { ATTRIBUTES_MAX = 256 };

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct ext4_attribute *)left)->name,
                  ((const struct ext4_attribute *)right)->name);
}

static bool read_value(int fd, const char *name, struct arena *arena, struct str *value,
                       struct error *err)
{
    AUTO_FREE char *room = alloc(XATTR_SIZE_MAX);
    ssize_t len = fgetxattr(fd, name, room, XATTR_SIZE_MAX);

    if (len < 0)
        return error_errno(err, "read attribute %s", name);
    *value = arena_str(arena, (struct str){room, (size_t)len});
    return true;
}

static bool read_all(int fd, const char *names, size_t len, struct arena *arena,
                     const struct ext4_attribute **attributes, size_t *n, struct error *err)
{
    struct ext4_attribute found[ATTRIBUTES_MAX], *kept;
    size_t count = 0;

    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        const char *attribute = aside_attribute(name);
        if (!attribute || !extract_keeps_attribute(attribute))
            continue;
        if (count == COUNT_OF(found))
            return error_set(err, ERR_TOO_LARGE, "it has over %d extended attributes",
                             ATTRIBUTES_MAX);
        found[count].name = arena_text(arena, str_of(attribute));
        if (!read_value(fd, name, arena, &found[count++].value, err))
            return false;
    }
    if (!count)
        return true;
    qsort(found, count, sizeof *found, by_name);
    kept = arena_array(arena, count, sizeof *kept);
    memcpy(kept, found, count * sizeof *kept);
    *attributes = kept;
    *n = count;
    return true;
}

bool ext4_attributes_read(int fd, struct arena *arena, const struct ext4_attribute **attributes,
                          size_t *n, struct error *err)
{
    /* Mostly there are none. */
    ssize_t len = flistxattr(fd, NULL, 0);

    *attributes = NULL;
    *n = 0;
    if (len == 0 || (len < 0 && errno == ENOTSUP))
        return true;
    AUTO_FREE char *names = alloc(XATTR_LIST_MAX);
    len = len < 0 ? len : flistxattr(fd, names, XATTR_LIST_MAX);
    if (len < 0)
        return error_errno(err, "list attributes");
    return read_all(fd, names, (size_t)len, arena, attributes, n, err);
}
