#include "image/extract_content.h"

#include <errno.h>
#include <unistd.h>

/* Zeros of this length, aligned to it, are not written. */
enum { HOLE = 64 * 1024 };

static bool write_all_at(int fd, struct str bytes, int64_t offset, struct error *err)
{
    while (bytes.len) {
        ssize_t n = pwrite(fd, bytes.ptr, bytes.len, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "write");
        bytes = (struct str){bytes.ptr + n, bytes.len - (size_t)n};
        offset += n;
    }
    return true;
}

static bool is_zero(struct str bytes)
{
    return bytes.ptr[0] == '\0' && memcmp(bytes.ptr, bytes.ptr + 1, bytes.len - 1) == 0;
}

/* How much of the bytes, from their start, is data or hole throughout. Only whole aligned blocks
 * are holes: smaller ones save nothing. */
static size_t measure_run(struct str bytes, int64_t offset, bool *is_hole)
{
    size_t len = 0;

    for (*is_hole = false; len < bytes.len;) {
        size_t to_border = HOLE - (size_t)((offset + (int64_t)len) % HOLE);
        size_t step = bytes.len - len < to_border ? bytes.len - len : to_border;
        bool zero = step == HOLE && is_zero((struct str){bytes.ptr + len, step});
        if (len > 0 && zero != *is_hole)
            break;
        *is_hole = zero;
        len += step;
    }
    return len;
}

/* Zeros become holes, whether the archive says so or not. */
static bool write_piece(int fd, struct str bytes, int64_t offset, int64_t *end, struct error *err)
{
    while (bytes.len) {
        bool is_hole;
        size_t len = measure_run(bytes, offset, &is_hole);
        if (!is_hole && !write_all_at(fd, (struct str){bytes.ptr, len}, offset, err))
            return false;
        offset += (int64_t)len;
        if (!is_hole && offset > *end)
            *end = offset;
        bytes = (struct str){bytes.ptr + len, bytes.len - len};
    }
    return true;
}

bool extract_content(struct tar_reader *reader, int fd, int64_t size, struct error *err)
{
    struct str bytes;
    int64_t offset, end = 0;

    for (;;) {
        if (!tar_reader_data(reader, &bytes, &offset, err))
            return false;
        if (!bytes.len)
            return end == size || ftruncate(fd, size) == 0 || error_errno(err, "truncate");
        if (offset < 0 || offset > size || (int64_t)bytes.len > size - offset)
            return error_set(err, ERR_ARCHIVE_INVALID, "an entry is longer than it says");
        if (!write_piece(fd, bytes, offset, &end, err))
            return false;
    }
}
