#include "worker/drives.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/own.h"
#include "base/sha256.h"
#include "image/disk.h"
#include "image/ext4.h"

enum { TRIES = 8, SCRATCH_MIN_MIB = 16 };

/* What is wanted: everything that decides the bytes is in its name. */
struct wish {
    const char *work_dir;
    const struct sandbox_spec *spec;
    enum drive_kind kind;
    struct str content; /* chain id, bundle's digest or size */
    char digest[SHA256_HEX];
};

static int64_t scratch_bytes(const struct sandbox_spec *spec)
{
    return (spec->disk_mib > SCRATCH_MIN_MIB ? spec->disk_mib : SCRATCH_MIN_MIB) << 20;
}

static struct str last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return str_of(slash ? slash + 1 : path);
}

/* Layers and bundles are kept under the digest of what they are, and only by that are they known to
 * be the same. */
static bool content_of(struct wish *wish, struct arena *arena, struct error *err)
{
    const struct sandbox_spec *spec = wish->spec;

    switch (wish->kind) {
    case DRIVE_ROOT:
        wish->content = spec->n_layers ? last_name(spec->layers[spec->n_layers - 1]) : STR("");
        break;
    case DRIVE_BUNDLE: wish->content = last_name(spec->bundle); break;
    case DRIVE_SCRATCH:
    case DRIVE_KINDS:
        wish->content = str_of(arena_printf(arena, "%lld", (long long)scratch_bytes(spec)));
        return true;
    }
    return sha256_hex_is_valid(wish->content) ||
           error_set(err, ERR_INVALID, "%.*s is not named by its content", (int)wish->content.len,
                     wish->content.ptr);
}

static bool wish_init(struct wish *wish, struct arena *arena, struct error *err)
{
    static const char *const names[] = {
        [DRIVE_ROOT] = "root", [DRIVE_BUNDLE] = "bundle", [DRIVE_SCRATCH] = "scratch"};

    if (!content_of(wish, arena, err))
        return false;
    sha256_of(str_of(arena_printf(arena, "%s %s %.*s", EXT4_WRITER, names[wish->kind],
                                  (int)wish->content.len, wish->content.ptr)),
              wish->digest);
    return true;
}

static bool write_drive(const struct wish *wish, int fd, struct error *err)
{
    const struct sandbox_spec *spec = wish->spec;

    if (wish->kind == DRIVE_ROOT) {
        const struct ext4_plan plan = {.layers = spec->layers,
                                       .n_layers = spec->n_layers,
                                       .seed = wish->content};
        return ext4_write(&plan, fd, err);
    }
    if (wish->kind == DRIVE_SCRATCH)
        return ext4_make_empty(fd, scratch_bytes(spec), err);
    AUTO_FD int folder = open(spec->bundle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder >= 0 ? ext4_write_tree(folder, fd, 0, wish->content, err)
                       : error_errno(err, "open %s", spec->bundle);
}

/* Whole or not at all. */
static bool publish(const struct wish *wish, const char *path, int folder, struct arena *arena,
                    struct error *err)
{
    char name[DISK_TEMPORARY];

    disk_temporary(name);
    const char *staging = arena_printf(arena, "%s/tmp/drive-%s", wish->work_dir, name);
    AUTO_FD int fd = open(staging, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "create %s", staging);
    bool is_whole = write_drive(wish, fd, err) &&
                    (fchmod(fd, 0444) == 0 || error_errno(err, "chmod %s", staging)) &&
                    disk_sync(fd, staging, err) &&
                    (rename(staging, path) == 0 || error_errno(err, "rename %s", path));
    if (!is_whole) {
        (void)unlink(staging);
        return false;
    }
    return disk_sync(folder, "the drives", err);
}

/* Holds what is there. What a collector took meanwhile is not there: it is another file, or none.
 * To hold is to use: what was used lately stays. */
static bool hold(const char *path, int *lock, struct error *err)
{
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat held, there;

    *lock = -1;
    if (fd < 0)
        return errno == ENOENT || error_errno(err, "open %s", path);
    while (flock(fd, LOCK_SH) != 0)
        if (errno != EINTR)
            return error_errno(err, "hold %s", path);
    if (fstat(fd, &held) != 0 || stat(path, &there) != 0 || held.st_dev != there.st_dev ||
        held.st_ino != there.st_ino)
        return true;
    if (futimens(fd, NULL) != 0)
        return error_errno(err, "mark %s as used", path);
    *lock = take_fd(&fd);
    return true;
}

/* Under a lock that a few digests share, so that there is not one left of each for ever. */
static bool make(const struct wish *wish, const char *path, struct arena *arena, struct error *err)
{
    const char *drives = arena_printf(arena, "%s/drives", wish->work_dir);
    const char *tmp = arena_printf(arena, "%s/tmp", wish->work_dir);
    const char shared[] = {'.', 'l', 'o', 'c', 'k', '-', wish->digest[0], '\0'};
    AUTO_FD int folder = -1, lock = -1;

    if (!directory_make(drives, 0700, err) || !directory_make(tmp, 0700, err))
        return false;
    folder = open(drives, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_errno(err, "open %s", drives);
    if (!disk_lock(folder, shared, false, &lock, err))
        return false;
    return access(path, F_OK) == 0 || publish(wish, path, folder, arena, err);
}

static bool open_own(struct wish *wish, struct drive *drive, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    char name[DISK_TEMPORARY];

    disk_temporary(name);
    wish->content = str_of(name);
    const char *path = arena_printf(&arena, "%s/tmp/drive-%s", wish->work_dir, name);
    AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "create %s", path);
    *drive = (struct drive){alloc_text(path), take_fd(&fd), true};
    return write_drive(wish, drive->lock, err);
}

static bool is_own(const struct wish *wish)
{
    return wish->kind == DRIVE_BUNDLE && wish->spec->kind && strcmp(wish->spec->kind, "build") == 0;
}

static bool open_drive(struct wish *wish, struct drive *drive, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    int lock = -1;

    if (is_own(wish))
        return open_own(wish, drive, err);

    if (!wish_init(wish, &arena, err))
        return false;
    const char *path = arena_printf(&arena, "%s/drives/%s.ext4", wish->work_dir, wish->digest);
    for (int i = 0; i < TRIES; i++) {
        if (!hold(path, &lock, err))
            return false;
        if (lock >= 0) {
            *drive = (struct drive){alloc_text(path), lock, false};
            return true;
        }
        if (!make(wish, path, &arena, err))
            return false;
    }
    return error_set(err, ERR_UNAVAILABLE, "%s is taken away again and again", path);
}

bool drives_open(const char *work_dir, const struct sandbox_spec *spec, struct drives *drives,
                 struct error *err)
{
    AUTO(drives_finish) struct drives opened = {0};

    for (enum drive_kind kind = 0; kind < DRIVE_KINDS; kind++) {
        struct wish wish = {.work_dir = work_dir, .spec = spec, .kind = kind};
        if (kind == DRIVE_BUNDLE && !spec->bundle)
            continue;
        if (!open_drive(&wish, &opened.held[kind], err))
            return false;
    }
    *drives = opened;
    memset(&opened, 0, sizeof opened);
    return true;
}

void drives_finish(struct drives *drives)
{
    for (size_t i = 0; i < DRIVE_KINDS; i++) {
        if (!drives->held[i].path)
            continue;
        close(drives->held[i].lock);
        if (drives->held[i].is_own)
            (void)unlink(drives->held[i].path);
        free(drives->held[i].path);
    }
    *drives = (struct drives){0};
}

struct sandbox_drives drives_paths(const struct drives *drives, const struct sandbox_spec *spec)
{
    return (struct sandbox_drives){
        .root = drives->held[DRIVE_ROOT].path,
        .bundle = drives->held[DRIVE_BUNDLE].path,
        .scratch = drives->held[DRIVE_SCRATCH].path,
        .scratch_bytes = scratch_bytes(spec),
    };
}
