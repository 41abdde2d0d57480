#include "http/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "base/id.h"
#include "base/own.h"

/* For file systems without O_TMPFILE: a name nobody can guess, taken away at once. */
static bool open_unlinked(const char *folder, int *fd, struct error *err)
{
    char path[PATH_MAX], name[ID_TEXT];

    id_make(name);
    if (snprintf(path, sizeof path, "%s/%s.spool", folder, name) >= (int)sizeof path)
        return error_set(err, ERR_INTERNAL, "the spool folder's path is too long");
    AUTO_FD int opened = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (opened < 0)
        return error_errno(err, "open %s", path);
    if (unlink(path) < 0)
        return error_errno(err, "unlink %s", path);
    *fd = take_fd(&opened);
    return true;
}

bool spool_open(const char *folder, int *fd, struct error *err)
{
    if (!folder)
        return error_set(err, ERR_INTERNAL, "there is no spool folder");
    int opened = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (opened < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        return open_unlinked(folder, fd, err);
    if (opened < 0)
        return error_errno(err, "open a file in %s", folder);
    *fd = opened;
    return true;
}

bool spool_write(int fd, struct str bytes, uint64_t offset, struct error *err)
{
    while (bytes.len > 0) {
        ssize_t wrote = pwrite(fd, bytes.ptr, bytes.len, (off_t)offset);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && (errno == ENOSPC || errno == EDQUOT))
            return error_set(err, ERR_UNAVAILABLE, "no room on the disk for this body");
        if (wrote < 0)
            return error_errno(err, "write the spooled body");
        bytes = (struct str){bytes.ptr + wrote, bytes.len - (size_t)wrote};
        offset += (uint64_t)wrote;
    }
    return true;
}
