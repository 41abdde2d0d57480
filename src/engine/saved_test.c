/* Saved sandboxes: a file made here as gVisor makes it, read, written back and damaged. */
#include "engine/saved.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "engine/engine.h"

enum { PIECE = 1 << 20, SMALL = 12345, HEAD = 8 + 8 + 2 + 32 + 4 };

static void put_u32(struct buf *out, uint32_t value)
{
    const char bytes[] = {(char)(value >> 24), (char)(value >> 16), (char)(value >> 8),
                          (char)value};
    struct error err;

    CHECK(buf_append(out, (struct str){bytes, sizeof bytes}, &err));
}

static void put_piece(struct buf *out, struct libdeflate_compressor *deflater, struct str raw)
{
    AUTO_FREE char *packed = alloc(raw.len + 1024);
    size_t n = libdeflate_deflate_compress(deflater, raw.ptr, raw.len, packed, raw.len + 1024);
    struct error err;

    put_u32(out, (uint32_t)n);
    CHECK(n > 0 && buf_append(out, (struct str){packed, n}, &err));
}

/* Two pieces, the second short. */
static void make_file(struct buf *file, struct buf *stream)
{
    struct libdeflate_compressor *deflater = libdeflate_alloc_compressor(1);
    AUTO_FREE char *raw = alloc(PIECE + SMALL);
    char digest[32] = "digest";
    struct error err;

    for (size_t i = 0; i < PIECE + SMALL; i++)
        raw[i] = (char)(i % 251 + i / 4096);
    CHECK(buf_append(file, STR("gVisorSF"), &err));
    put_u32(file, 0);
    put_u32(file, 2);
    CHECK(buf_append(file, STR("{}"), &err));
    CHECK(buf_append(file, (struct str){digest, sizeof digest}, &err));
    put_u32(file, PIECE);
    CHECK(buf_append(stream, buf_str(file), &err));
    CHECK(buf_append(stream, (struct str){raw, PIECE + SMALL}, &err));
    put_piece(file, deflater, (struct str){raw, PIECE});
    put_piece(file, deflater, (struct str){raw + PIECE, SMALL});
    libdeflate_free_compressor(deflater);
}

static void place(int folder, struct str bytes)
{
    AUTO_FD int fd = openat(folder, ENGINE_IMAGE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct error err;

    CHECK(fd >= 0 && fd_write_all(fd, bytes, &err));
}

static bool read_all(int folder, struct buf *out, struct error *err)
{
    struct saved_reader *reader = NULL;
    struct str bytes;
    bool fine = saved_reader_open(folder, NULL, &reader, err);

    while (fine && (fine = saved_read(reader, &bytes, err)) && bytes.len > 0)
        fine = buf_append(out, bytes, err);
    saved_reader_close(reader);
    return fine;
}

TEST(what_was_saved_comes_back_as_the_same_stream)
{
    AUTO(buf_finish) struct buf file = {.max = MIB(4)};
    AUTO(buf_finish) struct buf stream = {.max = MIB(4)};
    AUTO(buf_finish) struct buf got = {.max = MIB(4)};
    AUTO(buf_finish) struct buf again = {.max = MIB(4)};
    AUTO_FD int first = -1;
    AUTO_FD int second = -1;
    struct saved_writer *writer;
    struct error err;

    if (!memory_folder_make(MIB(8), &first, &err) || !memory_folder_make(MIB(8), &second, &err))
        SKIP(err.text);
    make_file(&file, &stream);
    place(first, buf_str(&file));
    CHECK(read_all(first, &got, &err));
    CHECK(str_equal(buf_str(&got), buf_str(&stream)));

    CHECK(saved_writer_open(second, &writer, &err));
    for (size_t at = 0, n; at < got.len; at += n) {
        n = at < 100 ? 1 : got.len - at < 70001 ? got.len - at : 70001;
        CHECK(saved_write(writer, (struct str){got.bytes + at, n}, &err));
    }
    CHECK(saved_writer_end(writer, &err));
    saved_writer_close(writer);
    CHECK(read_all(second, &again, &err));
    CHECK(str_equal(buf_str(&again), buf_str(&stream)));
}

TEST(a_file_cut_anywhere_is_refused)
{
    AUTO(buf_finish) struct buf file = {.max = MIB(4)};
    AUTO(buf_finish) struct buf stream = {.max = MIB(4)};
    AUTO_FD int folder = -1;
    struct error err;

    if (!memory_folder_make(MIB(8), &folder, &err))
        SKIP(err.text);
    make_file(&file, &stream);
    for (size_t len = 0; len < file.len; len += len < 200 ? 1 : 97) {
        AUTO(buf_finish) struct buf got = {.max = MIB(4)};

        place(folder, (struct str){file.bytes, len});
        /* An end between two pieces cannot be told from the real one; what was saved of it can,
         * by the digest of the stream. */
        bool is_read = read_all(folder, &got, &err);
        CHECK(!is_read || got.len == HEAD || got.len == HEAD + PIECE);
    }
}

TEST_MAIN()
