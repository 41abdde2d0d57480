#include "image/extract_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/aside.h"

bool extract_keeps_attribute(const char *name)
{
    /* user.overlay.* would be read as a marker by an unprivileged overlay mount; user.helmr.* is
     * what we keep aside. */
    return strcmp(name, "security.capability") == 0 ||
           (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0 &&
            strncmp(name, "user.helmr.", 11) != 0);
}

struct timespec facts_modified(struct archive_entry *entry)
{
    return (struct timespec){archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
}

static bool set_attributes(int fd, struct archive_entry *entry, struct error *err)
{
    const char *name;
    const void *value;
    size_t len;

    (void)archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &name, &value, &len) == ARCHIVE_OK)
        if (extract_keeps_attribute(name) && fsetxattr(fd, aside_stored(name), value, len, 0) != 0)
            return error_errno(err, "set attribute %s", name);
    return true;
}

bool facts_owner(struct archive_entry *entry, uid_t *uid, gid_t *gid, struct error *err)
{
    int64_t user = archive_entry_uid(entry), group = archive_entry_gid(entry);

    if (user < 0 || group < 0 || user >= UINT32_MAX || group >= UINT32_MAX)
        return error_set(err, ERR_ARCHIVE_INVALID, "the archive names an owner that cannot be");
    *uid = (uid_t)user;
    *gid = (gid_t)group;
    return true;
}

/* Mode after owner, and attributes last: a change of owner clears set-uid and capabilities. */
bool facts_set(int fd, enum extract_kind kind, struct archive_entry *entry, struct error *err)
{
    mode_t mode = archive_entry_perm(entry) & 07777;
    uid_t uid = 0;
    gid_t gid = 0;

    if (kind == EXTRACT_PROJECT) {
        bool is_open = archive_entry_filetype(entry) == AE_IFDIR || (mode & 0111);
        return fchmod(fd, is_open ? 0755 : 0644) == 0 || error_errno(err, "chmod");
    }
    if (!facts_owner(entry, &uid, &gid, err))
        return false;
    return aside_set(fd, archive_entry_filetype(entry) | mode, uid, gid, err) &&
           set_attributes(fd, entry, err);
}

bool facts_set_time_at(int folder, const char *name, struct archive_entry *entry, struct error *err)
{
    struct timespec times[2] = {facts_modified(entry), facts_modified(entry)};

    return utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW) == 0 ||
           error_errno(err, "set times of %s", name);
}
