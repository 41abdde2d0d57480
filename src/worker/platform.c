#include "worker/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "image/image.h"
#include "worker/platform_archive.h"

enum { PLATFORM_BYTES_MAX = 256 * 1024 * 1024, PLATFORM_ENTRIES_MAX = 10000 };

/* Mount points of the platform root (src/guest/README.md). */
static const char *const mount_points[] = {"proc",  "dev",    "sys",     "run",    "tmp",
                                           "image", "bundle", "scratch", "newroot"};

static bool lay_out(const char *folder, struct error *err)
{
    AUTO_FD int fd = memfd_create("platform", MFD_CLOEXEC);
    struct str bytes = {platform_archive, platform_archive_len};

    if (fd < 0)
        return error_errno(err, "memfd_create");
    if (!fd_write_all(fd, bytes, err) || lseek(fd, 0, SEEK_SET) != 0)
        return error_wrap(err, "unpacking the platform");
    if (!directory_make(folder, 0755, err) ||
        !archive_unpack(fd, folder, PLATFORM_BYTES_MAX, PLATFORM_ENTRIES_MAX, err))
        return error_wrap(err, "unpacking the platform");
    for (size_t i = 0; i < COUNT_OF(mount_points); i++) {
        AUTO(arena_finish) struct arena arena = {0};
        if (!directory_make(arena_printf(&arena, "%s/%s", folder, mount_points[i]), 0755, err))
            return false;
    }
    return true;
}

bool platform_prepare(const char *images_dir, struct platform *platform, struct error *err)
{
    char staging[4400], id[ID_TEXT];
    struct stat info;

    if (platform_archive_len == 0)
        return error_set(err, ERR_UNSUPPORTED,
                         "this binary holds no guest files; build it with make");
    sha256_of((struct str){platform_archive, platform_archive_len}, platform->digest);
    snprintf(platform->root, sizeof platform->root, "%s/platform-%.16s", images_dir,
             platform->digest);
    if (stat(platform->root, &info) == 0)
        return true;

    id_make(id);
    snprintf(staging, sizeof staging, "%s/.platform-%s", images_dir, id);
    if (!directory_make(images_dir, 0755, err) || !lay_out(staging, err))
        return false;
    if (rename(staging, platform->root) == 0)
        return true;
    /* Another worker of this host was faster: its files are the same. */
    if (errno != EEXIST && errno != ENOTEMPTY)
        return error_errno(err, "rename %s", platform->root);
    return folder_remove(staging, err);
}
