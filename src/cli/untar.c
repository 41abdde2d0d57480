#include "cli/untar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/own.h"

enum { BLOCK = 256 * 1024, DEPTH_MAX = 128 };

/* Directories get their own mode and time when nothing more is written into them. */
struct later {
    const char *path;
    mode_t mode;
    struct timespec mtime;
};

struct unpacking {
    struct archive *tar;
    int root;
    struct arena arena;
    struct later *folders;
    size_t n_folders, room;
};

static void unpacking_finish(struct unpacking *unpacking)
{
    archive_read_free(unpacking->tar);
    arena_finish(&unpacking->arena);
    free(unpacking->folders);
}

static bool refuse(const char *path, const char *why, struct error *err)
{
    return error_set(err, ERR_ARCHIVE_INVALID, "the archive's entry %.200s %s", path, why);
}

/* Without slashes around it; only names that lead down. */
static bool clean_path(struct unpacking *unpacking, const char *raw, const char **path,
                       struct error *err)
{
    struct str rest, part;
    int depth = 0;

    if (!raw)
        return error_set(err, ERR_ARCHIVE_INVALID, "an entry of the archive has no name");
    char *text = arena_alloc(&unpacking->arena, strlen(raw) + 1);
    size_t len = 0;
    if (raw[0] == '/')
        return refuse(raw, "is an absolute path", err);
    rest = str_of(raw);
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_equal(part, STR(".")))
            continue;
        if (str_equal(part, STR("..")) || ++depth > DEPTH_MAX)
            return refuse(raw, "leads out of its folder or too deep", err);
        if (len > 0)
            text[len++] = '/';
        memcpy(text + len, part.ptr, part.len);
        len += part.len;
    }
    *path = text;
    return true;
}

/* A directory below the root, reached without following any link. */
static int open_folder(const struct unpacking *unpacking, const char *path)
{
    const struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, unpacking->root, *path ? path : ".", &how, sizeof how);
}

/* The directory that a path is in, made where it is not, and the name there. */
static bool enter(struct unpacking *unpacking, const char *path, int *folder, const char **name,
                  struct error *err)
{
    const char *slash = strrchr(path, '/');

    *name = slash ? slash + 1 : path;
    const char *above =
        slash ? arena_text(&unpacking->arena, (struct str){path, (size_t)(slash - path)}) : "";
    *folder = open_folder(unpacking, above);
    if (*folder >= 0)
        return true;
    if (errno != ENOENT || !*above)
        return error_errno(err, "open %s", *above ? above : "the folder");
    AUTO_FD int upper = -1;
    const char *own;
    if (!enter(unpacking, above, &upper, &own, err))
        return false;
    if (mkdirat(upper, own, 0777) < 0 && errno != EEXIST)
        return error_errno(err, "make %s", above);
    *folder = open_folder(unpacking, above);
    return *folder >= 0 || error_errno(err, "open %s", above);
}

static bool clear(int folder, const char *name, const char *path, struct error *err)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return true;
    return error_errno(err, "replace %s", path);
}

static struct timespec time_of(struct archive_entry *entry)
{
    return (struct timespec){archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
}

static bool fail(struct unpacking *unpacking, struct error *err)
{
    const char *why = archive_error_string(unpacking->tar);

    return error_set(err, ERR_ARCHIVE_INVALID, "the archive cannot be read: %s",
                     why ? why : "it is damaged");
}

static bool put_contents(struct unpacking *unpacking, int fd, const char *path, int64_t size,
                         struct error *err)
{
    const void *bytes;
    size_t len;
    la_int64_t at;
    int result;

    while ((result = archive_read_data_block(unpacking->tar, &bytes, &len, &at)) == ARCHIVE_OK) {
        if (lseek(fd, at, SEEK_SET) < 0 || !fd_write_all(fd, (struct str){bytes, len}, err))
            return error_errno(err, "write %s", path);
    }
    if (result != ARCHIVE_EOF)
        return fail(unpacking, err);
    return ftruncate(fd, size) == 0 || error_errno(err, "write %s", path);
}

static bool put_file(struct unpacking *unpacking, int folder, const char *name, const char *path,
                     struct archive_entry *entry, struct error *err)
{
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        time_of(entry),
    };

    if (!clear(folder, name, path, err))
        return false;
    AUTO_FD int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "make %s", path);
    if (!put_contents(unpacking, fd, path, archive_entry_size(entry), err))
        return false;
    return (fchmod(fd, archive_entry_perm(entry) & 0777) == 0 && futimens(fd, times) == 0) ||
           error_errno(err, "set the mode of %s", path);
}

static bool put_folder(struct unpacking *unpacking, int folder, const char *name, const char *path,
                       struct archive_entry *entry, struct error *err)
{
    struct stat facts;

    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(facts.st_mode) &&
        !clear(folder, name, path, err))
        return false;
    if (mkdirat(folder, name, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "make %s", path);
    if (unpacking->n_folders == unpacking->room) {
        unpacking->room = unpacking->room ? 2 * unpacking->room : 64;
        unpacking->folders =
            alloc_more(unpacking->folders, unpacking->room * sizeof *unpacking->folders);
    }
    unpacking->folders[unpacking->n_folders++] =
        (struct later){path, archive_entry_perm(entry) & 0777, time_of(entry)};
    return true;
}

static bool put_link(struct unpacking *unpacking, int folder, const char *name, const char *path,
                     const char *raw, struct error *err)
{
    const char *target, *own;
    AUTO_FD int from = -1;

    return clean_path(unpacking, raw, &target, err) && enter(unpacking, target, &from, &own, err) &&
           clear(folder, name, path, err) &&
           (linkat(from, own, folder, name, 0) == 0 || error_errno(err, "link %s", path));
}

static bool put_at(struct unpacking *unpacking, int folder, const char *name, const char *path,
                   struct archive_entry *entry, struct error *err)
{
    const char *link = archive_entry_hardlink(entry);

    if (link)
        return put_link(unpacking, folder, name, path, link, err);
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG: return put_file(unpacking, folder, name, path, entry, err);
    case AE_IFDIR: return put_folder(unpacking, folder, name, path, entry, err);
    case AE_IFLNK:
        return clear(folder, name, path, err) &&
               (symlinkat(archive_entry_symlink(entry), folder, name) == 0 ||
                error_errno(err, "link %s", path));
    case AE_IFIFO:
        return clear(folder, name, path, err) &&
               (mkfifoat(folder, name, archive_entry_perm(entry) & 0777) == 0 ||
                error_errno(err, "make %s", path));
    default: break;
    }
    return refuse(path, "is no file, folder, link or pipe", err);
}

static bool put_entry(struct unpacking *unpacking, struct archive_entry *entry, struct error *err)
{
    const char *path = "", *name;
    AUTO_FD int folder = -1;

    if (!clean_path(unpacking, archive_entry_pathname(entry), &path, err))
        return false;
    return !*path || (enter(unpacking, path, &folder, &name, err) &&
                      put_at(unpacking, folder, name, path, entry, err));
}

/* The innermost first, so that one that may not be entered any more is left behind. */
static bool settle_folders(struct unpacking *unpacking, struct error *err)
{
    for (size_t i = unpacking->n_folders; i-- > 0;) {
        const struct later *later = &unpacking->folders[i];
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, later->mtime};
        AUTO_FD int fd = open_folder(unpacking, later->path);

        if (fd < 0 || fchmod(fd, later->mode) < 0 || futimens(fd, times) < 0)
            return error_errno(err, "set the mode of %s", later->path);
    }
    return true;
}

static bool put_all(struct unpacking *unpacking, uint64_t *n_files, struct error *err)
{
    struct archive_entry *entry;
    int result;

    *n_files = 0;
    while ((result = archive_read_next_header(unpacking->tar, &entry)) == ARCHIVE_OK) {
        if (!put_entry(unpacking, entry, err))
            return false;
        *n_files += archive_entry_filetype(entry) == AE_IFREG;
    }
    return result == ARCHIVE_EOF ? settle_folders(unpacking, err) : fail(unpacking, err);
}

bool untar(int tar_fd, int folder_fd, uint64_t *n_files, struct error *err)
{
    AUTO(unpacking_finish)
    struct unpacking unpacking = {.tar = archive_read_new(), .root = folder_fd};

    /* Names go through the locale; those of an archive are UTF-8. */
    setlocale(LC_CTYPE, "C.UTF-8");
    if (!unpacking.tar)
        abort();
    if (archive_read_support_format_tar(unpacking.tar) != ARCHIVE_OK ||
        archive_read_support_format_empty(unpacking.tar) != ARCHIVE_OK ||
        archive_read_open_fd(unpacking.tar, tar_fd, BLOCK) != ARCHIVE_OK)
        return fail(&unpacking, err);
    return put_all(&unpacking, n_files, err);
}
