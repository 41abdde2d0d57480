#include "image/usage.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/own.h"
#include "image/disk.h"

/* Deeper trees cannot be removed either. */
enum { DEPTH_MAX = 512 };

static void close_folder(DIR **folder)
{
    if (*folder)
        (void)closedir(*folder);
}

static int64_t usage_at(int parent, const char *name, int depth)
{
    struct stat facts;

    if (depth > DEPTH_MAX || fstatat(parent, name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    int64_t bytes = (int64_t)facts.st_blocks * 512;
    if (!S_ISDIR(facts.st_mode))
        return facts.st_nlink > 1 ? bytes / (int64_t)facts.st_nlink : bytes;
    int fd = disk_open(parent, name, O_RDONLY | O_DIRECTORY);
    AUTO(close_folder) DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return bytes;
    }
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            bytes += usage_at(fd, entry->d_name, depth + 1);
    return bytes;
}

int64_t usage_of(int parent, const char *name)
{
    return usage_at(parent, name, 0);
}
