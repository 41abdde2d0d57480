/* Any place of a saved machine's stream, compared with the stream itself. */
#include "engine/saved_view.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/test.h"
#include "engine/saved.h"
#include "engine/sparse.h"

enum { MEMORY = 4 << 20, STREAM_MAX = 8 << 20, HEAD = 40, RUN = 16 };

static const struct engine machine = {.name = "machine", .form = &saved_form_machine};

static bool make_files(struct saved_image *image, struct error *err)
{
    static const char *const others[] = {MACHINE_DEVICES, MACHINE_SCRATCH};

    if (!saved_image_make(&machine, MIB(8), image, err))
        return false;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        AUTO_FD int fd = openat(image->folder, others[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        if (fd < 0 || !sparse_write(fd, 0, STR("not of memory"), err))
            return false;
    }
    image->memory = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return image->memory >= 0 && ftruncate(image->memory, MEMORY) == 0;
}

/* Runs of one block and of many, side by side and far apart. */
static bool fill_memory(int memory, struct error *err)
{
    AUTO_FREE char *bytes = alloc(SPARSE_RUN_MAX);

    for (size_t i = 0; i < SPARSE_RUN_MAX; i++)
        bytes[i] = (char)(i % 251 + 1);
    return sparse_write(memory, SPARSE_BLOCK, (struct str){bytes, SPARSE_BLOCK}, err) &&
           sparse_write(memory, KIB(12), (struct str){bytes, 100}, err) &&
           sparse_write(memory, SPARSE_RUN_MAX / 2, (struct str){bytes, SPARSE_RUN_MAX}, err) &&
           sparse_write(memory, MEMORY - 5, STR("end.."), err);
}

static bool read_stream(const struct saved_image *image, struct buf *out, struct error *err)
{
    struct saved_reader *reader = NULL;
    struct str bytes;
    bool fine = saved_reader_open(image, NULL, &reader, err);

    while (fine && (fine = saved_read(reader, &bytes, err)) && bytes.len > 0)
        fine = buf_append(out, bytes, err);
    saved_reader_close(reader);
    return fine;
}

TEST(every_place_of_memory_is_as_the_stream_has_it)
{
    static const size_t lengths[] = {1, 15, 16, 17, 4096, 5000, 16384};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};
    AUTO_FREE char *room = alloc(16384);
    struct saved_view *view = NULL;
    struct error err;
    struct str bytes;

    if (!make_files(&image, &err))
        SKIP(err.text);
    CHECK(fill_memory(image.memory, &err) && read_stream(&image, &stream, &err));
    CHECK(!saved_view_open(&image, &view, &err) && err.code == ERR_UNSUPPORTED);
    CHECK(saved_machine_share(NULL, &image, &err) && saved_view_open(&image, &view, &err));

    size_t end = HEAD;
    bool is_equal = true;
    while (saved_view_find(view, end, 1, room, &bytes))
        end++;
    for (size_t k = 0; k < COUNT_OF(lengths); k++)
        for (size_t at = HEAD; is_equal && at + lengths[k] <= end; at += at < 9000 ? 1 : 997)
            is_equal = saved_view_find(view, at, lengths[k], room, &bytes) &&
                       str_equal(bytes, (struct str){stream.bytes + at, lengths[k]});
    bool knows_its_end = !saved_view_find(view, end - 5, 6, room, &bytes);
    bool knows_its_begin = !saved_view_find(view, HEAD - 1, 4, room, &bytes) &&
                           !saved_view_find(view, UINT64_MAX - 2, 4, room, &bytes);
    saved_view_close(view);
    /* What follows is the end of memory, two runs of others and their ends. */
    CHECK(end == stream.len - (size_t)5 * RUN - 2 * strlen("not of memory"));
    CHECK(is_equal && knows_its_end && knows_its_begin);
}

TEST_MAIN()
