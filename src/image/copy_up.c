#include "image/copy_up.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/own.h"
#include "image/aside.h"
#include "image/extract.h"

bool copy_up_facts(int from, int to, struct error *err)
{
    struct stat facts;
    char names[4096], value[4096];

    if (aside_stat(from, &facts) != 0)
        return error_errno(err, "copy an owner");
    if (!aside_set(to, facts.st_mode, facts.st_uid, facts.st_gid, err))
        return error_wrap(err, "copy an owner");
    ssize_t len = flistxattr(from, names, sizeof names);
    for (const char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
        const char *attribute = aside_attribute(name);
        ssize_t n = attribute && extract_keeps_attribute(attribute)
                        ? fgetxattr(from, name, value, sizeof value)
                        : -1;
        if (n >= 0 && fsetxattr(to, name, value, (size_t)n, 0) != 0)
            return error_errno(err, "set attribute %s", name);
    }
    return true;
}

static bool copy_content(int from, int to, off_t size, struct error *err)
{
    for (off_t at = 0; at < size;) {
        ssize_t n = sendfile(to, from, &at, 1 << 30);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "copy a file of a lower layer");
        if (n == 0)
            return error_set(err, ERR_INTERNAL, "a file of a lower layer became shorter");
    }
    return true;
}

static bool copy_file(int from, const char *from_name, int to, const char *to_name,
                      const struct stat *facts, struct error *err)
{
    AUTO_FD int source = openat(from, from_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_FD int copy =
        openat(to, to_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    const struct timespec times[2] = {facts->st_mtim, facts->st_mtim};

    if (source < 0 || copy < 0)
        return error_errno(err, "copy %s of a lower layer", from_name);
    if (!copy_content(source, copy, facts->st_size, err) || !copy_up_facts(source, copy, err))
        return false;
    return futimens(copy, times) == 0 || error_errno(err, "set times of %s", to_name);
}

static bool copy_link(int from, const char *from_name, int to, const char *to_name,
                      const struct stat *facts, struct error *err)
{
    const struct timespec times[2] = {facts->st_mtim, facts->st_mtim};
    char target[TAR_PATH];
    ssize_t len = aside_readlink(from, from_name, target, TAR_PATH_MAX);

    if (len < 0)
        return error_errno(err, "read the link %s", from_name);
    target[len] = '\0';
    if (!aside_symlink(target, to, to_name, facts->st_uid, facts->st_gid, err))
        return false;
    return utimensat(to, to_name, times, AT_SYMLINK_NOFOLLOW) == 0 ||
           error_errno(err, "copy the link %s of a lower layer", from_name);
}

bool copy_up(int from, const char *from_name, int to, const char *to_name, struct error *err)
{
    struct stat facts;

    if (aside_statat(from, from_name, &facts) != 0)
        return error_errno(err, "look at %s", from_name);
    if (S_ISREG(facts.st_mode))
        return copy_file(from, from_name, to, to_name, &facts, err);
    if (S_ISLNK(facts.st_mode))
        return copy_link(from, from_name, to, to_name, &facts, err);
    return error_set(err, ERR_ARCHIVE_INVALID, "\"%.128s\" of a lower layer cannot be linked to",
                     from_name);
}
