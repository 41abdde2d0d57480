#include "server/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_MAX = 100000, PATH_BYTES_MAX = 4096, READ_STEP = 16 * 1024 };

/* The archive is a slice of the spooled request. */
struct slice {
    int fd;
    uint64_t at, end;
    char bytes[READ_STEP];
};

static la_ssize_t slice_read(struct archive *archive, void *arg, const void **bytes)
{
    struct slice *slice = arg;
    uint64_t left = slice->end - slice->at;
    size_t want = left < READ_STEP ? (size_t)left : READ_STEP;
    ssize_t got = want ? pread(slice->fd, slice->bytes, want, (off_t)slice->at) : 0;
    if (got < 0) {
        archive_set_error(archive, errno, "cannot read the upload");
        return -1;
    }
    slice->at += (uint64_t)got;
    *bytes = slice->bytes;
    return got;
}

static la_int64_t slice_skip(struct archive *archive UNUSED, void *arg, la_int64_t wanted)
{
    struct slice *slice = arg;
    uint64_t left = slice->end - slice->at;
    uint64_t step = (uint64_t)wanted < left ? (uint64_t)wanted : left;
    slice->at += step;
    return (la_int64_t)step;
}

static void archive_release(struct archive **archive)
{
    archive_read_free(*archive);
}

bool archive_path_is_safe(struct str path)
{
    struct str piece;
    if (path.len == 0 || path.len > PATH_BYTES_MAX || path.ptr[0] == '/' ||
        memchr(path.ptr, '\0', path.len))
        return false;
    if (path.len > 2 && memcmp(path.ptr, "./", 2) == 0)
        path = (struct str){path.ptr + 2, path.len - 2};
    if (path.ptr[path.len - 1] == '/')
        path.len--;
    while (str_split(&path, '/', &piece))
        if (piece.len == 0 || str_equal(piece, STR(".")) || str_equal(piece, STR("..")))
            return false;
    return true;
}

static bool check_entry(struct archive_entry *entry, struct error *err)
{
    const char *path = archive_entry_pathname(entry);
    unsigned type = archive_entry_filetype(entry);
    if (!path)
        return error_set(err, ERR_ARCHIVE_INVALID, "an entry has no name");
    bool is_root = type == AE_IFDIR && (strcmp(path, ".") == 0 || strcmp(path, "./") == 0);
    if (!is_root && !archive_path_is_safe(str_of(path)))
        return error_set(err, ERR_ARCHIVE_INVALID, "%.200s is not a safe name", path);
    if (type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK)
        return error_set(err, ERR_ARCHIVE_INVALID, "%.200s is no file, directory or link", path);
    return true;
}

bool archive_check(int fd, uint64_t offset, uint64_t len, struct error *err)
{
    struct slice slice = {.fd = fd, .at = offset, .end = offset + len};
    AUTO(archive_release) struct archive *archive = archive_read_new();
    if (!archive || archive_read_support_format_tar(archive) != ARCHIVE_OK ||
        archive_read_set_read_callback(archive, slice_read) != ARCHIVE_OK ||
        archive_read_set_skip_callback(archive, slice_skip) != ARCHIVE_OK ||
        archive_read_set_callback_data(archive, &slice) != ARCHIVE_OK)
        return error_set(err, ERR_INTERNAL, "archives cannot be read");
    if (archive_read_open1(archive) != ARCHIVE_OK)
        return error_set(err, ERR_ARCHIVE_INVALID, "the source is not a tar archive");

    struct archive_entry *entry;
    int status = ARCHIVE_OK;
    for (int n = 0; (status = archive_read_next_header(archive, &entry)) == ARCHIVE_OK; n++) {
        if (n == ENTRIES_MAX)
            return error_set(err, ERR_ARCHIVE_INVALID, "the source has over %d entries",
                             ENTRIES_MAX);
        if (!check_entry(entry, err))
            return false;
        if (archive_read_data_skip(archive) != ARCHIVE_OK)
            return error_set(err, ERR_ARCHIVE_INVALID, "the source is cut short");
    }
    if (status != ARCHIVE_EOF)
        return error_set(err, ERR_ARCHIVE_INVALID, "the source is damaged: %s",
                         archive_error_string(archive));
    return true;
}
