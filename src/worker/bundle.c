#include "worker/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "image/image.h"

#define BUNDLE_BYTES_MAX (INT64_C(16) * 1024 * 1024 * 1024)

enum { BUNDLE_ENTRIES_MAX = 2000000, READ_MAX = 1024 * 1024 };

static int open_unnamed(const char *folder, struct error *err)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        error_errno(err, "temporary file in %s", folder);
    return fd;
}

/* Another run may have put it there first: that is as good. */
static bool publish(const char *staging, const char *path, struct error *err)
{
    if (rename(staging, path) == 0)
        return true;
    if (errno != EEXIST && errno != ENOTEMPTY)
        return error_errno(err, "rename %s", path);
    return folder_remove(staging, err);
}

static bool fetch(struct line *line, const char *tmp, const char *staging, const char *digest,
                  int64_t size, struct error *err)
{
    AUTO_FD int fd = open_unnamed(tmp, err);

    if (fd < 0 || !line_fetch(line, digest, size, fd, err))
        return false;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return error_errno(err, "rewind the bundle");
    return archive_unpack(fd, staging, BUNDLE_BYTES_MAX, BUNDLE_ENTRIES_MAX, err);
}

bool bundle_open(struct line *line, const char *work_dir, const char *digest, int64_t size,
                 struct arena *arena, const char **path, struct error *err)
{
    char *folder = arena_printf(arena, "%s/bundles/%s", work_dir, digest);
    struct error ignored;
    char id[ID_TEXT];

    *path = folder;
    /* To look is to use it: what was used lately stays. */
    if (utimensat(AT_FDCWD, folder, NULL, 0) == 0)
        return true;
    id_make(id);

    const char *staging = arena_printf(arena, "%s/tmp/bundle-%s", work_dir, id);
    const char *tmp = arena_printf(arena, "%s/tmp", work_dir);
    const char *bundles = arena_printf(arena, "%s/bundles", work_dir);
    if (!directory_make(bundles, 0700, err) || !directory_make(staging, 0755, err))
        return false;
    if (fetch(line, tmp, staging, digest, size, err) && publish(staging, folder, err))
        return true;
    (void)!folder_remove(staging, &ignored);
    return false;
}

static bool hash_file(int fd, char digest[65], int64_t *size, struct error *err)
{
    AUTO_FREE char *bytes = alloc(READ_MAX);
    AUTO(sha256_finish) struct sha256 hash;
    ssize_t got = 0;

    *size = 0;
    sha256_init(&hash);
    while ((got = pread(fd, bytes, READ_MAX, *size)) > 0) {
        sha256_update(&hash, (struct str){bytes, (size_t)got});
        *size += got;
    }
    if (got < 0)
        return error_errno(err, "read the bundle");
    sha256_take(&hash, digest);
    return true;
}

bool bundle_seal(struct line *line, const char *work_dir, const char *folder, char digest[65],
                 int64_t *size, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *bundles = arena_printf(&arena, "%s/bundles", work_dir);

    if (!directory_make(bundles, 0700, err))
        return false;
    AUTO_FD int fd = open_unnamed(bundles, err);
    if (fd < 0 || !archive_pack(folder, fd, err) || !hash_file(fd, digest, size, err))
        return error_wrap(err, "sealing the bundle");
    if (lseek(fd, 0, SEEK_SET) != 0)
        return error_errno(err, "rewind the bundle");
    return line_store(line, digest, *size, fd, err) &&
           publish(folder, arena_printf(&arena, "%s/%s", bundles, digest), err);
}
