#include "engine/sparse.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/own.h"

bool sparse_reader_init(struct sparse_reader *reader, int fd, struct error *err)
{
    struct stat about;

    if (fstat(fd, &about) != 0)
        return error_errno(err, "see how large a file is");
    *reader = (struct sparse_reader){
        .fd = fd,
        .size = about.st_size,
        .window = alloc(SPARSE_RUN_MAX),
    };
    return true;
}

void sparse_reader_finish(struct sparse_reader *reader)
{
    free(reader->window);
    *reader = (struct sparse_reader){0};
}

static int64_t smaller(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

static int64_t round_down(int64_t offset, int64_t unit)
{
    return offset - offset % unit;
}

/* Moves on to where there is data. Each question walks to the next hole: not for every window. */
static bool skip_hole(struct sparse_reader *reader, struct error *err)
{
    if (reader->at < reader->hole)
        return true;
    off_t data = lseek(reader->fd, reader->at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
        reader->at = reader->hole = reader->size;
        return true;
    }
    off_t hole = data < 0 ? -1 : lseek(reader->fd, data, SEEK_HOLE);
    if (hole < 0)
        return error_errno(err, "find the holes of a file");
    reader->at = smaller(round_down(data, SPARSE_BLOCK), reader->size);
    reader->hole = smaller(round_down(hole + SPARSE_BLOCK - 1, SPARSE_BLOCK), reader->size);
    return true;
}

static bool fill(struct sparse_reader *reader, struct error *err)
{
    if (!skip_hole(reader, err))
        return false;
    int64_t from = reader->at;
    int64_t to = smaller(reader->hole, round_down(from, SPARSE_RUN_MAX) + SPARSE_RUN_MAX);
    reader->at = to;
    reader->begin = 0;
    for (reader->end = 0; reader->end < (size_t)(to - from);) {
        ssize_t got = pread(reader->fd, reader->window + reader->end,
                            (size_t)(to - from) - reader->end, from + (off_t)reader->end);

        if (got < 0)
            return error_errno(err, "read a file with holes");
        if (got == 0)
            return error_set(err, ERR_DAMAGED, "a file became shorter while it was read");
        reader->end += (size_t)got;
    }
    return true;
}

static size_t block_at(const struct sparse_reader *reader, size_t at)
{
    size_t left = reader->end - at;

    return left < SPARSE_BLOCK ? left : SPARSE_BLOCK;
}

static bool is_zero(const char *bytes, size_t n)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

/* Takes the first run out of the window, if there is one. */
static struct str next_run(struct sparse_reader *reader, int64_t *offset)
{
    size_t begin = reader->begin;

    while (begin < reader->end && is_zero(reader->window + begin, block_at(reader, begin)))
        begin += block_at(reader, begin);
    size_t end = begin;
    while (end < reader->end && !is_zero(reader->window + end, block_at(reader, end)))
        end += block_at(reader, end);
    reader->begin = end;
    *offset = reader->at - (int64_t)(reader->end - begin);
    return (struct str){reader->window + begin, end - begin};
}

bool sparse_read(struct sparse_reader *reader, int64_t *offset, struct str *bytes,
                 struct error *err)
{
    for (;;) {
        *bytes = next_run(reader, offset);
        if (bytes->len > 0 || reader->at == reader->size)
            return true;
        if (!fill(reader, err))
            return false;
    }
}

bool sparse_write(int fd, int64_t offset, struct str bytes, struct error *err)
{
    for (size_t done = 0; done < bytes.len;) {
        ssize_t n = pwrite(fd, bytes.ptr + done, bytes.len - done, offset + (off_t)done);

        if (n < 0)
            return error_errno(err, "write a file with holes");
        done += (size_t)n;
    }
    return true;
}

bool sparse_copy(int from, int to, struct error *err)
{
    AUTO(sparse_reader_finish) struct sparse_reader reader = {0};
    struct str bytes;
    int64_t offset;

    if (ioctl(to, FICLONE, from) == 0)
        return true;
    if (!sparse_reader_init(&reader, from, err))
        return false;
    if (ftruncate(to, reader.size) != 0)
        return error_errno(err, "size the copy of a file");
    for (;;) {
        if (!sparse_read(&reader, &offset, &bytes, err))
            return false;
        if (bytes.len == 0)
            return true;
        if (!sparse_write(to, offset, bytes, err))
            return false;
    }
}
