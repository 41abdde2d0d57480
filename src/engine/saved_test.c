/* Saved sandboxes: a file made here as gVisor makes it, read, written back and damaged. */
#include "engine/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"
#include "base/test.h"

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
    AUTO_FD int fd = openat(folder, GVISOR_IMAGE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct error err;

    CHECK(fd >= 0 && fd_write_all(fd, bytes, &err));
}

/* What was read so far is in *taken, for who waits for it. */
static bool read_growing(int folder, const atomic_bool *is_growing, atomic_size_t *taken,
                         struct buf *out, struct error *err)
{
    const struct saved_image image = {folder, -1, -1, &saved_form_gvisor};
    struct saved_reader *reader = NULL;
    struct str bytes;
    bool fine = saved_reader_open(&image, is_growing, &reader, err);

    while (fine && (fine = saved_read(reader, &bytes, err)) && bytes.len > 0) {
        fine = buf_append(out, bytes, err);
        atomic_store(taken, out->len);
    }
    saved_reader_close(reader);
    return fine;
}

static bool read_all(int folder, struct buf *out, struct error *err)
{
    atomic_size_t taken = 0;

    return read_growing(folder, NULL, &taken, out, err);
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

    const struct saved_image image = {second, -1, -1, &saved_form_gvisor};
    CHECK(saved_writer_open(&image, &writer, &err));
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

/* A file that is made by a thread, which goes on only when what it wrote has been read. */
struct growth {
    int folder;
    struct str file;
    size_t end; /* of the file when it stops growing */
    atomic_bool is_growing;
    atomic_size_t taken; /* of the stream */
};

static void append_part(const struct growth *growth, size_t from, size_t to)
{
    AUTO_FD int fd =
        openat(growth->folder, GVISOR_IMAGE, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct error err;

    if (to > growth->end)
        to = growth->end;
    if (from < to)
        CHECK(fd >= 0 && fd_write_all(fd, (struct str){growth->file.ptr + from, to - from}, &err));
}

static void await_taken(const struct growth *growth, size_t n)
{
    while (atomic_load(&growth->taken) < n)
        poll(NULL, 0, 1);
}

static void *grow(void *arg)
{
    struct growth *growth = arg;

    poll(NULL, 0, 20); /* it is looked for before it is there */
    append_part(growth, 0, 5);
    append_part(growth, 5, HEAD + 2);
    await_taken(growth, HEAD);
    for (size_t at = HEAD + 2; at < growth->end; at += 999)
        append_part(growth, at, at + 999);
    atomic_store(&growth->is_growing, false);
    return NULL;
}

static void read_while_it_grows(struct growth *growth, struct buf *got, bool *fine,
                                struct error *err)
{
    pthread_t thread;

    atomic_store(&growth->is_growing, true);
    CHECK(pthread_create(&thread, NULL, grow, growth) == 0);
    *fine = read_growing(growth->folder, &growth->is_growing, &growth->taken, got, err);
    atomic_store(&growth->taken, SIZE_MAX); /* nobody waits for a reader that gave up */
    CHECK(pthread_join(thread, NULL) == 0);
}

TEST(a_file_is_read_while_it_grows)
{
    AUTO(buf_finish) struct buf file = {.max = MIB(4)};
    AUTO(buf_finish) struct buf stream = {.max = MIB(4)};
    AUTO(buf_finish) struct buf got = {.max = MIB(4)};
    AUTO_FD int folder = -1;
    bool fine = false;
    struct error err;

    if (!memory_folder_make(MIB(8), &folder, &err))
        SKIP(err.text);
    make_file(&file, &stream);
    struct growth growth = {.folder = folder, .file = buf_str(&file), .end = file.len};
    read_while_it_grows(&growth, &got, &fine, &err);
    CHECK(fine);
    CHECK(str_equal(buf_str(&got), buf_str(&stream)));
}

TEST(a_file_that_stops_growing_in_a_piece_is_refused)
{
    AUTO(buf_finish) struct buf file = {.max = MIB(4)};
    AUTO(buf_finish) struct buf stream = {.max = MIB(4)};
    AUTO(buf_finish) struct buf got = {.max = MIB(4)};
    AUTO_FD int folder = -1;
    bool fine = false;
    struct error err;

    if (!memory_folder_make(MIB(8), &folder, &err))
        SKIP(err.text);
    make_file(&file, &stream);
    struct growth growth = {.folder = folder, .file = buf_str(&file), .end = file.len - 1};
    read_while_it_grows(&growth, &got, &fine, &err);
    CHECK(!fine);
    CHECK(err.code == ERR_DAMAGED);
}

TEST(a_file_that_never_comes_is_missed_when_nobody_makes_it_any_more)
{
    AUTO(buf_finish) struct buf got = {.max = KIB(4)};
    AUTO_FD int folder = -1;
    atomic_bool is_growing = false;
    atomic_size_t taken = 0;
    struct error err;

    if (!memory_folder_make(MIB(1), &folder, &err))
        SKIP(err.text);
    CHECK(!read_growing(folder, &is_growing, &taken, &got, &err));
    CHECK(err.sys == ENOENT);
}

/* An engine that is started before its file is whole. */
struct opener {
    int folder;
    struct buf got;
    bool is_fine;
    struct error err;
};

static volatile sig_atomic_t somebody_waits;

static void on_break(int number UNUSED)
{
    somebody_waits = 1;
}

static void *open_early(void *arg)
{
    struct opener *opener = arg;

    opener->is_fine = read_all(opener->folder, &opener->got, &opener->err);
    return NULL;
}

TEST(whoever_opens_it_waits_until_its_writer_has_ended)
{
    AUTO(buf_finish) struct buf file = {.max = MIB(4)};
    AUTO(buf_finish) struct buf stream = {.max = MIB(4)};
    AUTO_FD int folder = -1;
    const struct sigaction seen = {.sa_handler = on_break, .sa_flags = SA_RESTART};
    struct saved_writer *writer;
    struct sigaction before;
    pthread_t thread;
    struct error err;

    if (!memory_folder_make(MIB(8), &folder, &err))
        SKIP(err.text);
    make_file(&file, &stream);
    CHECK(sigaction(SIGIO, &seen, &before) == 0);
    struct opener opener = {.folder = folder, .got = {.max = MIB(4)}};
    const struct saved_image image = {folder, -1, -1, &saved_form_gvisor};
    CHECK(saved_writer_open(&image, &writer, &err));
    CHECK(saved_write(writer, (struct str){stream.bytes, HEAD + PIECE}, &err));
    CHECK(pthread_create(&thread, NULL, open_early, &opener) == 0);
    while (!somebody_waits)
        poll(NULL, 0, 1);
    CHECK(saved_write(writer, (struct str){stream.bytes + HEAD + PIECE, SMALL}, &err));
    CHECK(saved_writer_end(writer, &err));
    CHECK(pthread_join(thread, NULL) == 0);
    saved_writer_close(writer);
    CHECK(sigaction(SIGIO, &before, NULL) == 0);
    CHECK(opener.is_fine);
    CHECK(str_equal(buf_str(&opener.got), buf_str(&stream)));
    buf_finish(&opener.got);
}

TEST_MAIN()
