#include "image/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "image/extract.h"

#define FACTS      "user.helmr.facts"
#define OPAQUE     "user.helmr.opaque"
#define CAPABILITY "user.helmr.capability"
#define OURS       "user.helmr."

enum { FACTS_MAX = 64, FILE_NEEDS = 0600, FOLDER_NEEDS = 0700, PLAIN = 0777 };

bool aside_is_needed(void)
{
    return geteuid() != 0;
}

/* What this user must be able to do with its own files whatever their modes say. */
static mode_t mode_needed(mode_t kind)
{
    return S_ISDIR(kind) ? FOLDER_NEEDS : FILE_NEEDS;
}

bool aside_set(int fd, mode_t mode, uid_t uid, gid_t gid, struct error *err)
{
    const mode_t needed = mode_needed(mode);
    const bool is_plain =
        (S_ISDIR(mode) || S_ISREG(mode)) && (mode & ~(mode_t)(S_IFMT | PLAIN)) == 0;
    char text[FACTS_MAX];

    if (!aside_is_needed()) {
        if (fchown(fd, uid, gid) != 0)
            return error_errno(err, "chown");
        return fchmod(fd, mode & 07777) == 0 || error_errno(err, "chmod");
    }
    if (fchmod(fd, (mode & PLAIN) | needed) != 0)
        return error_errno(err, "chmod");
    if (is_plain && (mode & needed) == needed && uid == 0 && gid == 0)
        return fremovexattr(fd, FACTS) == 0 || errno == ENODATA || error_errno(err, "keep facts");
    int len = snprintf(text, sizeof text, "%o %u %u", (unsigned)mode, (unsigned)uid, (unsigned)gid);
    return fsetxattr(fd, FACTS, text, (size_t)len, 0) == 0 ||
           error_errno(err, "keep an owner aside (does the file system have attributes?)");
}

/* Also of what was opened only to be looked at. */
static ssize_t attribute_get(int fd, const char *name, char *value, size_t room)
{
    char path[40];
    ssize_t len = fgetxattr(fd, name, value, room);

    if (len >= 0 || errno != EBADF)
        return len;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return getxattr(path, name, value, room);
}

static void facts_read(int fd, struct stat *facts)
{
    unsigned mode, uid, gid;
    char text[FACTS_MAX + 1];

    facts->st_uid = facts->st_gid = 0;
    if (!S_ISREG(facts->st_mode) && !S_ISDIR(facts->st_mode))
        return;
    ssize_t len = attribute_get(fd, FACTS, text, FACTS_MAX);
    if (len <= 0)
        return;
    text[len] = '\0';
    if (sscanf(text, "%o %u %u", &mode, &uid, &gid) != 3)
        return;
    facts->st_mode = mode;
    facts->st_uid = uid;
    facts->st_gid = gid;
}

int aside_stat(int fd, struct stat *facts)
{
    if (fstat(fd, facts) != 0)
        return -1;
    if (aside_is_needed())
        facts_read(fd, facts);
    return 0;
}

int aside_statat(int folder, const char *name, struct stat *facts)
{
    if (!aside_is_needed())
        return fstatat(folder, name, facts, AT_SYMLINK_NOFOLLOW);
    AUTO_FD int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? aside_stat(fd, facts) : -1;
}

bool aside_symlink(const char *target, int folder, const char *name, uid_t uid, gid_t gid,
                   struct error *err)
{
    if (!aside_is_needed() || (uid == 0 && gid == 0))
        return (symlinkat(target, folder, name) == 0 &&
                (aside_is_needed() ||
                 fchownat(folder, name, uid, gid, AT_SYMLINK_NOFOLLOW) == 0)) ||
               error_errno(err, "symlink %s", name);
    AUTO_FD int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "create %s", name);
    return fd_write_all(fd, str_of(target), err) && aside_set(fd, S_IFLNK | 0777, uid, gid, err);
}

ssize_t aside_readlink(int folder, const char *name, char *target, size_t room)
{
    ssize_t len = readlinkat(folder, name, target, room);

    if (len >= 0 || errno != EINVAL || !aside_is_needed())
        return len;
    AUTO_FD int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? pread(fd, target, room, 0) : -1;
}

int aside_fifo(int folder, const char *name)
{
    if (aside_is_needed())
        return openat(folder, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return mkfifoat(folder, name, 0600) == 0
               ? openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)
               : -1;
}

bool aside_set_opaque(int folder, struct error *err)
{
    return fsetxattr(folder, aside_is_needed() ? OPAQUE : OVERLAY_OPAQUE, "y", 1, 0) == 0 ||
           error_errno(err, "mark a folder opaque");
}

bool aside_is_opaque(int folder)
{
    char value;

    return fgetxattr(folder, aside_is_needed() ? OPAQUE : OVERLAY_OPAQUE, &value, 1) == 1 &&
           value == 'y';
}

const char *aside_stored(const char *attribute)
{
    return aside_is_needed() && strcmp(attribute, "security.capability") == 0 ? CAPABILITY
                                                                              : attribute;
}

const char *aside_attribute(const char *stored)
{
    if (aside_is_needed() && strcmp(stored, CAPABILITY) == 0)
        return "security.capability";
    return strncmp(stored, OURS, strlen(OURS)) == 0 ? NULL : stored;
}
