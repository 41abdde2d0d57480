/* Saved machines: an image becomes a stream and comes back the same, shares its memory with
 * copies, and a stream that no reader made writes nothing it should not. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/test.h"
#include "engine/saved.h"
#include "engine/sparse.h"

enum { MEMORY = 4 << 20, DEVICES = 5000, SCRATCH = 2 << 20, STREAM_MAX = 8 << 20, HEAD = 40 };

static const struct engine machine = {.name = "machine", .form = &saved_form_machine};

static const char *make_image(struct saved_image *image)
{
    static struct error err;

    return saved_image_make(&machine, MIB(16), image, &err) ? NULL : err.text;
}

static void put(const struct saved_image *image, const char *name, int64_t size, int64_t offset,
                const char *text)
{
    AUTO_FD int fd = openat(image->folder, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct error err;

    CHECK(fd >= 0 && ftruncate(fd, size) == 0);
    CHECK(sparse_write(fd, offset, str_of(text), &err));
}

static void fill_image(const struct saved_image *image)
{
    put(image, MACHINE_MEMORY, MEMORY, 0, "kernel");
    put(image, MACHINE_MEMORY, MEMORY, MEMORY / 2 - 3, "across a mebibyte");
    put(image, MACHINE_MEMORY, MEMORY, MEMORY - 3, "end");
    put(image, MACHINE_DEVICES, DEVICES, DEVICES - 7, "devices");
    put(image, MACHINE_SCRATCH, SCRATCH, 65536, "a file");
}

static bool read_image(const struct saved_image *image, struct buf *out, struct error *err)
{
    struct saved_reader *reader = NULL;
    struct str bytes;
    bool fine = saved_reader_open(image, NULL, &reader, err);

    while (fine && (fine = saved_read(reader, &bytes, err)) && bytes.len > 0)
        fine = buf_append(out, bytes, err);
    saved_reader_close(reader);
    return fine;
}

static bool write_image(const struct saved_image *image, struct str stream, size_t piece,
                        struct error *err)
{
    struct saved_writer *writer = NULL;
    bool fine = saved_writer_open(image, &writer, err);

    while (fine && stream.len > 0) {
        size_t n = stream.len < piece ? stream.len : piece;

        fine = saved_write(writer, (struct str){stream.ptr, n}, err);
        stream = (struct str){stream.ptr + n, stream.len - n};
    }
    fine = fine && saved_writer_end(writer, err);
    saved_writer_close(writer);
    return fine;
}

TEST(a_machine_comes_back_as_it_was_saved)
{
    AUTO(saved_image_finish) struct saved_image from = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};
    struct error err;

    const char *why = make_image(&from);
    if (why)
        SKIP(why);
    fill_image(&from);
    CHECK(read_image(&from, &stream, &err));
    CHECK(stream.len < KIB(64)); /* what is nothing is not in it */
    for (size_t piece = 1; piece < stream.len; piece = piece * 7 + 3) {
        AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;
        AUTO(buf_finish) struct buf again = {.max = STREAM_MAX};
        char text[8] = "";
        struct stat about;

        CHECK(!make_image(&to) && write_image(&to, buf_str(&stream), piece, &err));
        CHECK(read_image(&to, &again, &err) && str_equal(buf_str(&again), buf_str(&stream)));
        AUTO_FD int scratch = openat(to.folder, MACHINE_SCRATCH, O_RDONLY | O_CLOEXEC);
        CHECK(fstat(scratch, &about) == 0 && about.st_size == SCRATCH);
        CHECK(pread(scratch, text, 6, 65536) == 6);
        CHECK_STR(text, "a file");
    }
}

/* As where the disk may be larger than memory: then it is nowhere in the folder. */
TEST(a_disk_can_be_a_file_of_its_own)
{
    AUTO(saved_image_finish) struct saved_image from = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};
    AUTO(buf_finish) struct buf again = {.max = STREAM_MAX};
    struct error err;

    const char *why = make_image(&from);
    if (why)
        SKIP(why);
    fill_image(&from);
    CHECK(read_image(&from, &stream, &err));
    CHECK(!make_image(&to));
    to.scratch = memfd_create("disk", MFD_CLOEXEC);
    CHECK(pwrite(to.scratch, "what was there before", 21, SCRATCH + 100) == 21);
    CHECK(write_image(&to, buf_str(&stream), STREAM_MAX, &err));
    CHECK(faccessat(to.folder, MACHINE_SCRATCH, F_OK, 0) != 0);
    CHECK(read_image(&to, &again, &err) && str_equal(buf_str(&again), buf_str(&stream)));
}

TEST(what_was_zeroed_is_not_in_the_stream_any_more)
{
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf first = {.max = STREAM_MAX};
    AUTO(buf_finish) struct buf second = {.max = STREAM_MAX};
    const char zeros[SPARSE_BLOCK] = {0};
    struct error err;

    const char *why = make_image(&image);
    if (why)
        SKIP(why);
    fill_image(&image);
    CHECK(read_image(&image, &first, &err));
    put(&image, MACHINE_MEMORY, MEMORY, SPARSE_BLOCK, "secret");
    AUTO_FD int memory = openat(image.folder, MACHINE_MEMORY, O_RDWR | O_CLOEXEC);
    CHECK(sparse_write(memory, SPARSE_BLOCK, (struct str){zeros, sizeof zeros}, &err));
    CHECK(read_image(&image, &second, &err) && str_equal(buf_str(&first), buf_str(&second)));
}

TEST(copies_share_memory_that_nobody_can_write_to)
{
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf before = {.max = STREAM_MAX};
    AUTO(buf_finish) struct buf after = {.max = STREAM_MAX};
    struct error err;
    int64_t size;

    const char *why = make_image(&image);
    if (why)
        SKIP(why);
    fill_image(&image);
    CHECK(read_image(&image, &before, &err));
    CHECK(saved_machine_share(NULL, &image, &err) && image.memory >= 0);
    CHECK(faccessat(image.folder, MACHINE_MEMORY, F_OK, 0) != 0);
    CHECK(pwrite(image.memory, "x", 1, 0) < 0 && ftruncate(image.memory, 0) < 0);
    CHECK(mmap(NULL, MEMORY, PROT_WRITE, MAP_SHARED, image.memory, 0) == MAP_FAILED);
    void *copy = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE, image.memory, 0);
    CHECK(copy != MAP_FAILED && memcmp(copy, "kernel", 6) == 0);
    CHECK(munmap(copy, MEMORY) == 0);
    CHECK(read_image(&image, &after, &err) && str_equal(buf_str(&after), buf_str(&before)));
    CHECK(saved_image_size(&image, &size, &err) && size > 0 && size < 1 << 20);
    CHECK(saved_machine_share(NULL, &image, &err)); /* once more changes nothing */
}

TEST(memory_that_is_still_mapped_somewhere_is_not_shared)
{
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct error err;

    const char *why = make_image(&image);
    if (why)
        SKIP(why);
    image.memory = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(image.memory >= 0 && ftruncate(image.memory, MEMORY) == 0);
    char *held = mmap(NULL, MEMORY, PROT_WRITE, MAP_SHARED, image.memory, 0);
    CHECK(held != MAP_FAILED);
    CHECK(!saved_machine_share(NULL, &image, &err) && err.sys == EBUSY);
    CHECK(munmap(held, MEMORY) == 0 && saved_machine_share(NULL, &image, &err));
}

TEST(an_image_without_one_of_its_files_is_no_machine)
{
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf out = {.max = STREAM_MAX};
    struct error err;

    const char *why = make_image(&image);
    if (why)
        SKIP(why);
    put(&image, MACHINE_MEMORY, MEMORY, 0, "kernel");
    put(&image, MACHINE_SCRATCH, SCRATCH, 0, "");
    CHECK(!read_image(&image, &out, &err) && err.sys == ENOENT);
    put(&image, MACHINE_DEVICES, (int64_t)1 << 30, 0, "");
    CHECK(!read_image(&image, &out, &err) && err.code == ERR_DAMAGED);
}

TEST(what_is_no_file_is_not_followed)
{
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf out = {.max = STREAM_MAX};
    struct error err;

    const char *why = make_image(&image);
    if (why)
        SKIP(why);
    fill_image(&image);
    CHECK(unlinkat(image.folder, MACHINE_DEVICES, 0) == 0);
    CHECK(symlinkat("/etc/hostname", image.folder, MACHINE_DEVICES) == 0);
    CHECK(!read_image(&image, &out, &err) && err.sys == ELOOP);
    CHECK(unlinkat(image.folder, MACHINE_DEVICES, 0) == 0);
    CHECK(mkfifoat(image.folder, MACHINE_DEVICES, 0600) == 0);
    CHECK(!read_image(&image, &out, &err) && err.code == ERR_DAMAGED);
    CHECK(unlinkat(image.folder, MACHINE_MEMORY, 0) == 0);
    CHECK(symlinkat("/etc/hostname", image.folder, MACHINE_MEMORY) == 0);
    CHECK(!saved_machine_share(NULL, &image, &err) && err.sys == ELOOP);
}

TEST(a_stream_cut_anywhere_is_refused)
{
    AUTO(saved_image_finish) struct saved_image from = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};
    struct error err;

    const char *why = make_image(&from);
    if (why)
        SKIP(why);
    fill_image(&from);
    CHECK(read_image(&from, &stream, &err));
    for (size_t len = 0; len < stream.len; len += len < 200 || len + 200 > stream.len ? 1 : 97) {
        AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;

        CHECK(!make_image(&to));
        CHECK(!write_image(&to, (struct str){stream.bytes, len}, STREAM_MAX, &err));
        CHECK(err.code == ERR_DAMAGED);
    }
}

/* A stream made by hand: a head, then numbers and bytes as they come. */
static void begin_stream(struct buf *out, uint64_t memory, uint64_t devices, uint64_t scratch)
{
    const uint64_t sizes[] = {htobe64(memory), htobe64(devices), htobe64(scratch)};
    const uint32_t about[] = {htobe32(1), htobe32(SPARSE_BLOCK)};
    struct error err;

    out->len = 0;
    CHECK(buf_append(out, (struct str){"HelmrVM", 8}, &err) &&
          buf_append(out, (struct str){(const char *)about, sizeof about}, &err) &&
          buf_append(out, (struct str){(const char *)sizes, sizeof sizes}, &err));
}

static void add_run(struct buf *out, uint64_t offset, uint64_t len, size_t n_bytes)
{
    const uint64_t run[] = {htobe64(offset), htobe64(len)};
    AUTO_FREE char *bytes = alloc(n_bytes + 1);
    struct error err;

    memset(bytes, 'x', n_bytes);
    CHECK(buf_append(out, (struct str){(const char *)run, sizeof run}, &err) &&
          buf_append(out, (struct str){bytes, n_bytes}, &err));
}

static bool is_damaged(const struct buf *stream)
{
    AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;
    struct error err = {0};

    return !make_image(&to) && !write_image(&to, buf_str(stream), STREAM_MAX, &err) &&
           err.code == ERR_DAMAGED;
}

TEST(a_run_outside_of_its_file_is_refused)
{
    static const struct {
        uint64_t offset, len;
    } bad[] = {
        {MEMORY,            4096                 },
        {MEMORY - 4096,     8192                 },
        {0,                 SPARSE_RUN_MAX + 4096},
        {100,               4096                 },
        {0,                 4095                 },
        {UINT64_MAX - 4095, 4096                 },
        {UINT64_MAX - 4095, 8192                 },
        {(uint64_t)1 << 63, 4096                 },
        {4096,              UINT64_MAX           },
        {0,                 (uint64_t)1 << 63    },
        {MEMORY + 4096,     0                    },
        {MEMORY - 4096,     0                    },
    };
    AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};

    const char *why = make_image(&to);
    if (why)
        SKIP(why);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        begin_stream(&stream, MEMORY, 0, 0);
        add_run(&stream, bad[i].offset, bad[i].len, KIB(8));
        CHECK(is_damaged(&stream));
    }
}

TEST(runs_that_go_back_are_refused)
{
    AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};

    const char *why = make_image(&to);
    if (why)
        SKIP(why);
    for (int i = 0; i < 2; i++) {
        begin_stream(&stream, MEMORY, 0, 0);
        add_run(&stream, 8192, 4096, 4096);
        add_run(&stream, i ? 8192 : 0, 4096, 4096);
        CHECK(is_damaged(&stream));
    }
}

TEST(a_head_of_something_else_is_refused)
{
    AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};

    const char *why = make_image(&to);
    if (why)
        SKIP(why);
    for (size_t i = 0; i < 16; i++) {
        begin_stream(&stream, MEMORY, 0, 0);
        stream.bytes[i] ^= 1;
        CHECK(is_damaged(&stream));
    }
    begin_stream(&stream, ((uint64_t)1 << 40) + 1, 0, 0);
    CHECK(is_damaged(&stream));
    begin_stream(&stream, MEMORY, UINT64_MAX, 0);
    CHECK(is_damaged(&stream));
    begin_stream(&stream, MEMORY, 0, (uint64_t)1 << 63);
    CHECK(is_damaged(&stream));
}

TEST(a_stream_that_goes_on_after_its_end_is_refused)
{
    AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};
    struct error err;

    const char *why = make_image(&to);
    if (why)
        SKIP(why);
    begin_stream(&stream, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        add_run(&stream, 0, 0, 0);
    CHECK(write_image(&to, buf_str(&stream), STREAM_MAX, &err));
    add_run(&stream, 0, 0, 0);
    CHECK(is_damaged(&stream));
}

TEST(more_than_the_image_has_room_for_is_an_error_that_may_pass)
{
    AUTO(saved_image_finish) struct saved_image to = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};
    struct error err;

    if (!saved_image_make(&machine, KIB(64), &to, &err))
        SKIP(err.text);
    begin_stream(&stream, MEMORY, 0, 0);
    add_run(&stream, 0, KIB(256), KIB(256));
    CHECK(!write_image(&to, buf_str(&stream), STREAM_MAX, &err) && err.sys == ENOSPC);
}

TEST_MAIN()
