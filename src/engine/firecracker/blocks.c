#include "engine/firecracker/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/own.h"

enum { PIECE = 1 << 20 };

/* Whole or not at all. */
static bool piece_read(int fd, char *bytes, size_t len, off_t at, struct error *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(fd, bytes + done, len - done, at + (off_t)done);
        if (got < 0)
            return error_errno(err, "read memory");
        if (got == 0)
            return error_set(err, ERR_DAMAGED, "a file became shorter while it was read");
        done += (size_t)got;
    }
    return true;
}

static bool piece_write(int fd, const char *bytes, size_t len, off_t at, struct error *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t put = pwrite(fd, bytes + done, len - done, at + (off_t)done);
        if (put < 0)
            return error_errno(err, "write memory");
        done += (size_t)put;
    }
    return true;
}

static bool extent_copy(int from, int to, off_t start, off_t end, char *bytes, struct error *err)
{
    while (start < end) {
        size_t len = end - start < PIECE ? (size_t)(end - start) : PIECE;
        if (!piece_read(from, bytes, len, start, err) || !piece_write(to, bytes, len, start, err))
            return false;
        start += (off_t)len;
    }
    return true;
}

bool blocks_overlay(int changes, int to, struct error *err)
{
    AUTO_FREE char *bytes = alloc(PIECE);

    for (off_t end = 0;;) {
        off_t start = lseek(changes, end, SEEK_DATA);
        if (start < 0)
            return errno == ENXIO || error_errno(err, "look for data");
        end = lseek(changes, start, SEEK_HOLE);
        if (end < 0)
            return error_errno(err, "look for a hole");
        if (!extent_copy(changes, to, start, end, bytes, err))
            return false;
    }
}

bool blocks_equal(int one, int other, bool *is_equal, struct error *err)
{
    struct stat first, second;
    AUTO_FREE char *bytes = alloc(PIECE);
    AUTO_FREE char *others = alloc(PIECE);

    if (fstat(one, &first) < 0 || fstat(other, &second) < 0)
        return error_errno(err, "look at memory");
    *is_equal = first.st_size == second.st_size;
    for (off_t at = 0; *is_equal && at < first.st_size; at += PIECE) {
        size_t len = first.st_size - at < PIECE ? (size_t)(first.st_size - at) : PIECE;
        if (!piece_read(one, bytes, len, at, err) || !piece_read(other, others, len, at, err))
            return false;
        *is_equal = memcmp(bytes, others, len) == 0;
    }
    return true;
}
