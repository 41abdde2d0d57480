/* What gVisor saves: a head and then pieces of at most 1 MiB, each deflated. The stream has them
 * inflated, so that equal memory gives equal bytes and packs well; going back, pieces are only
 * stored, which gVisor reads as fast as it can copy. Until a writer has ended whoever opens the
 * file waits. */
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <poll.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"
#include "engine/saved.h"

/* MAGIC, length of the facts, the facts (JSON), a digest of them, the size of a piece. */
#define MAGIC "gVisorSF"

enum {
    MAGIC_LEN = sizeof MAGIC - 1,
    FACTS_AT = MAGIC_LEN + 8,
    FACTS_MAX = 64 * 1024,
    DIGEST_LEN = 32,
    PIECE = 1 << 20,
    LENGTH_LEN = 4,
    HEAD_MAX = FACTS_AT + FACTS_MAX + DIGEST_LEN + LENGTH_LEN,
    STORED_MAX = 65535, /* of one stored block of deflate */
    STORED_HEAD = 5,
    DEFLATED_MAX = PIECE + 64 * 1024, /* what does not compress grows a little */
    TAIL_MS = 1,                      /* between two looks at a file that grows */
};

struct reader {
    struct saved_reader base;
    struct libdeflate_decompressor *inflater;
    int fd;
    uint64_t at;
    const atomic_bool *is_growing; /* or NULL */
    bool has_head, is_last;
    uint8_t *deflated, *piece;
};

struct writer {
    struct saved_writer base;
    int fd;
    struct buf head;
    size_t head_len; /* 0: not known yet */
    size_t filled;
    uint8_t *piece, *stored;
};

static struct reader *reader_of(struct saved_reader *base)
{
    return (struct reader *)base;
}

static struct writer *writer_of(struct saved_writer *base)
{
    return (struct writer *)base;
}

static uint32_t u32_of(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void u32_put(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < LENGTH_LEN; i++)
        bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

static bool damaged(struct error *err, const char *what)
{
    return error_set(err, ERR_DAMAGED, "the saved sandbox %s", what);
}

/* How long the head is that these bytes begin with; 0: more of them are needed. */
static bool head_length(struct str bytes, size_t *len, struct error *err)
{
    const uint8_t *at = (const uint8_t *)bytes.ptr;

    *len = 0;
    if (bytes.len < FACTS_AT)
        return true;
    uint32_t facts = u32_of(at + MAGIC_LEN + 4);
    if (memcmp(at, MAGIC, MAGIC_LEN) != 0 || u32_of(at + MAGIC_LEN) != 0 || facts > FACTS_MAX)
        return damaged(err, "has no head of gVisor");
    size_t whole = FACTS_AT + facts + DIGEST_LEN + LENGTH_LEN;
    if (bytes.len < whole)
        return true;
    if (u32_of(at + whole - LENGTH_LEN) != PIECE)
        return damaged(err, "is in pieces of another size");
    *len = whole;
    return true;
}

static bool is_growing(const struct reader *reader)
{
    return reader->is_growing && atomic_load(reader->is_growing);
}

/* Whoever saves makes the file first thing. */
static int open_file(int folder, const atomic_bool *growing)
{
    for (;;) {
        bool may_come = growing && atomic_load(growing);
        int fd = openat(folder, GVISOR_IMAGE, O_RDONLY | O_CLOEXEC);

        if (fd >= 0 || !may_come)
            return fd;
        poll(NULL, 0, TAIL_MS);
    }
}

static void reader_close(struct saved_reader *base)
{
    struct reader *reader = reader_of(base);

    close(reader->fd);
    libdeflate_free_decompressor(reader->inflater);
    free(reader->deflated);
    free(reader->piece);
    free(reader);
}

static bool reader_open(const struct saved_image *image, const atomic_bool *growing,
                        struct saved_reader **reader, struct error *err)
{
    int fd = open_file(image->folder, growing);

    if (fd < 0) {
        error_errno(err, "open the saved sandbox");
        return false;
    }
    struct reader *made = alloc(sizeof *made);
    *made = (struct reader){.base = {&saved_form_gvisor},
                            .inflater = libdeflate_alloc_decompressor(),
                            .fd = fd,
                            .is_growing = growing,
                            .deflated = alloc(DEFLATED_MAX),
                            .piece = alloc(PIECE)};
    if (!made->inflater) {
        reader_close(&made->base);
        error_set(err, ERR_INTERNAL, "no memory to inflate with");
        return false;
    }
    *reader = &made->base;
    return true;
}

/* Up to n bytes: fewer only where the file ends. */
static bool read_some(struct reader *reader, void *into, size_t n, size_t *got, struct error *err)
{
    *got = 0;
    while (*got < n) {
        bool may_come = is_growing(reader);
        ssize_t more = pread(reader->fd, (char *)into + *got, n - *got, (off_t)reader->at);

        if (more < 0)
            return error_errno(err, "read the saved sandbox");
        if (more == 0 && !may_come)
            return true;
        if (more == 0)
            poll(NULL, 0, TAIL_MS);
        *got += (size_t)more;
        reader->at += (uint64_t)more;
    }
    return true;
}

static bool read_all(struct reader *reader, void *into, size_t n, struct error *err)
{
    size_t got;

    return read_some(reader, into, n, &got, err) && (got == n || damaged(err, "was cut off"));
}

static bool read_head(struct reader *reader, struct str *bytes, struct error *err)
{
    size_t len;

    if (!read_all(reader, reader->deflated, FACTS_AT, err))
        return false;
    uint32_t facts = u32_of(reader->deflated + FACTS_AT - LENGTH_LEN);
    if (facts > FACTS_MAX)
        return damaged(err, "has no head of gVisor");
    size_t whole = FACTS_AT + facts + DIGEST_LEN + LENGTH_LEN;
    if (!read_all(reader, reader->deflated + FACTS_AT, whole - FACTS_AT, err) ||
        !head_length((struct str){(const char *)reader->deflated, whole}, &len, err))
        return false;
    *bytes = (struct str){(const char *)reader->deflated, whole};
    reader->has_head = true;
    return len == whole || damaged(err, "has no head of gVisor");
}

static bool read_next(struct saved_reader *base, struct str *bytes, struct error *err)
{
    struct reader *reader = reader_of(base);
    uint8_t length[LENGTH_LEN];
    size_t got;

    *bytes = (struct str){0};
    if (!reader->has_head)
        return read_head(reader, bytes, err);
    if (!read_some(reader, length, LENGTH_LEN, &got, err))
        return false;
    if (got == 0)
        return true;
    size_t len = u32_of(length);
    if (got != LENGTH_LEN || len > DEFLATED_MAX || reader->is_last)
        return damaged(err, "is not in whole pieces");
    if (!read_all(reader, reader->deflated, len, err))
        return false;
    if (libdeflate_deflate_decompress(reader->inflater, reader->deflated, len, reader->piece, PIECE,
                                      &got) != LIBDEFLATE_SUCCESS ||
        got == 0)
        return damaged(err, "does not inflate");
    /* Only the last may be short: a writer knows no other end of a piece than a full one. */
    reader->is_last = got != PIECE;
    *bytes = (struct str){(const char *)reader->piece, got};
    return true;
}

static bool writer_open(const struct saved_image *image, struct saved_writer **writer,
                        struct error *err)
{
    int fd = openat(image->folder, GVISOR_IMAGE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0) {
        error_errno(err, "make the saved sandbox");
        return false;
    }
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
        error_errno(err, "keep the saved sandbox from being opened");
        close(fd);
        return false;
    }
    struct writer *made = alloc(sizeof *made);
    *made = (struct writer){.base = {.form = &saved_form_gvisor},
                            .fd = fd,
                            .head = {.max = HEAD_MAX},
                            .piece = alloc(PIECE),
                            .stored = alloc(PIECE + KIB(1))};
    *writer = &made->base;
    return true;
}

/* The piece as stored blocks of deflate, its length before it. */
static bool write_piece(struct writer *writer, struct error *err)
{
    uint8_t *to = writer->stored + LENGTH_LEN;

    for (size_t at = 0; at < writer->filled;) {
        size_t left = writer->filled - at, n = left < STORED_MAX ? left : STORED_MAX;

        to[0] = n == left; /* the last block */
        to[1] = (uint8_t)n;
        to[2] = (uint8_t)(n >> 8);
        to[3] = (uint8_t)~n;
        to[4] = (uint8_t)(~n >> 8);
        memcpy(to + STORED_HEAD, writer->piece + at, n);
        to += STORED_HEAD + n;
        at += n;
    }
    size_t len = (size_t)(to - writer->stored);
    u32_put(writer->stored, (uint32_t)(len - LENGTH_LEN));
    writer->filled = 0;
    return fd_write_all(writer->fd, (struct str){(const char *)writer->stored, len}, err);
}

/* Takes of the bytes what belongs to the head. */
static bool write_head(struct writer *writer, struct str *bytes, struct error *err)
{
    size_t before = writer->head.len;
    size_t n = bytes->len < HEAD_MAX - before ? bytes->len : HEAD_MAX - before;

    if (!buf_append(&writer->head, (struct str){bytes->ptr, n}, err) ||
        !head_length(buf_str(&writer->head), &writer->head_len, err))
        return false;
    size_t used = writer->head_len ? writer->head_len - before : n;
    *bytes = (struct str){bytes->ptr + used, bytes->len - used};
    return writer->head_len == 0 ||
           fd_write_all(writer->fd, (struct str){writer->head.bytes, writer->head_len}, err);
}

static bool write_next(struct saved_writer *base, struct str bytes, struct error *err)
{
    struct writer *writer = writer_of(base);

    if (writer->head_len == 0 && !write_head(writer, &bytes, err))
        return false;
    while (bytes.len > 0) {
        size_t room = PIECE - writer->filled, n = bytes.len < room ? bytes.len : room;

        memcpy(writer->piece + writer->filled, bytes.ptr, n);
        writer->filled += n;
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
        if (writer->filled == PIECE && !write_piece(writer, err))
            return false;
    }
    return true;
}

static bool writer_end(struct saved_writer *base, struct error *err)
{
    struct writer *writer = writer_of(base);

    if (writer->head_len == 0)
        return damaged(err, "was cut off");
    if (writer->filled > 0 && !write_piece(writer, err))
        return false;
    if (fcntl(writer->fd, F_SETLEASE, F_UNLCK) == 0)
        return true;
    /* There is no lease to give up: the kernel has ended it. */
    writer->base.was_late = errno == EAGAIN;
    return writer->base.was_late || error_errno(err, "let the saved sandbox be opened");
}

static void writer_close(struct saved_writer *base)
{
    struct writer *writer = writer_of(base);

    close(writer->fd);
    buf_finish(&writer->head);
    free(writer->piece);
    free(writer->stored);
    free(writer);
}

const struct saved_form saved_form_gvisor = {
    .grows = true,
    .reader_open = reader_open,
    .read = read_next,
    .reader_close = reader_close,
    .writer_open = writer_open,
    .write = write_next,
    .writer_end = writer_end,
    .writer_close = writer_close,
};
