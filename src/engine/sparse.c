#include "engine/sparse.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/own.h"

bool sparse_reader_init(struct sparse_reader *reader, int fd, struct error *err)
{
    return sparse_reader_init_over(reader, fd, -1, err);
}

bool sparse_reader_init_over(struct sparse_reader *reader, int fd, int over, struct error *err)
{
    struct stat about;

    if (fstat(fd, &about) != 0)
        return error_errno(err, "see how large a file is");
    *reader = (struct sparse_reader){
        .fd = fd,
        .over = over,
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

/* The next place with data, from `at` on; the size where there is none. */
static bool find_data(int fd, int64_t at, int64_t size, int64_t *data, struct error *err)
{
    *data = size;
    if (fd < 0)
        return true;
    off_t found = lseek(fd, at, SEEK_DATA);
    if (found < 0)
        return errno == ENXIO || error_errno(err, "find the holes of a file");
    *data = smaller(round_down(found, SPARSE_BLOCK), size);
    return true;
}

/* Where the data that is at `at` ends, if there is any. */
static bool find_end(int fd, int64_t size, int64_t *at, struct error *err)
{
    int64_t data;

    if (*at >= size || !find_data(fd, *at, size, &data, err))
        return *at >= size;
    if (data > *at)
        return true;
    off_t hole = lseek(fd, *at, SEEK_HOLE);
    if (hole < 0)
        return error_errno(err, "find the holes of a file");
    *at = smaller(round_down(hole + SPARSE_BLOCK - 1, SPARSE_BLOCK), size);
    return true;
}

/* Moves on to where there is data. Each question walks to the next hole: not for every window. */
static bool skip_hole(struct sparse_reader *reader, struct error *err)
{
    int64_t data, data_over, before;

    if (reader->at < reader->hole)
        return true;
    if (!find_data(reader->fd, reader->at, reader->size, &data, err) ||
        !find_data(reader->over, reader->at, reader->size, &data_over, err))
        return false;
    reader->at = reader->hole = smaller(data, data_over);

    /* Where one file has a hole the other may go on. */
    do {
        before = reader->hole;
        if (!find_end(reader->fd, reader->size, &reader->hole, err) ||
            !find_end(reader->over, reader->size, &reader->hole, err))
            return false;
    } while (reader->over >= 0 && reader->hole > before);
    return true;
}

static bool read_part(int fd, char *into, int64_t from, int64_t to, struct error *err)
{
    while (from < to) {
        ssize_t got = pread(fd, into, (size_t)(to - from), from);

        if (got < 0)
            return error_errno(err, "read a file with holes");
        if (got == 0)
            return error_set(err, ERR_DAMAGED, "a file became shorter while it was read");
        into += got;
        from += got;
    }
    return true;
}

/* What is there of the file that is laid over the other. */
static bool read_over(const struct sparse_reader *reader, int64_t from, int64_t to,
                      struct error *err)
{
    for (int64_t at = from, end; reader->over >= 0;) {
        if (!find_data(reader->over, at, to, &at, err))
            return false;
        if (at >= to)
            break;
        end = at;
        if (!find_end(reader->over, to, &end, err) ||
            !read_part(reader->over, reader->window + (at - from), at, end, err))
            return false;
        at = end;
    }
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
    reader->end = (size_t)(to - from);
    return read_part(reader->fd, reader->window, from, to, err) && read_over(reader, from, to, err);
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
    return ioctl(to, FICLONE, from) == 0 || sparse_copy_over(from, -1, to, err);
}

bool sparse_copy_over(int from, int over, int to, struct error *err)
{
    AUTO(sparse_reader_finish) struct sparse_reader reader = {0};
    struct str bytes;
    int64_t offset;

    if (!sparse_reader_init_over(&reader, from, over, err))
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
