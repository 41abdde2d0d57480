/* Any stream in the place of a saved machine is refused, or is one: then reading it gives a stream
 * that can be written again and stays as it is. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "engine/saved.h"

enum { STREAM_MAX = 16 << 20, PIECE = 61 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool write_all(const struct saved_image *image, struct str stream)
{
    struct saved_writer *writer = NULL;
    struct error err;
    bool fine = saved_writer_open(image, &writer, &err);

    for (size_t n; fine && stream.len > 0; stream = (struct str){stream.ptr + n, stream.len - n}) {
        n = stream.len < PIECE ? stream.len : PIECE;
        fine = saved_write(writer, (struct str){stream.ptr, n}, &err);
    }
    fine = fine && saved_writer_end(writer, &err);
    saved_writer_close(writer);
    return fine;
}

static void read_all(const struct saved_image *image, struct buf *stream)
{
    struct saved_reader *reader = NULL;
    struct error err;
    struct str bytes;

    if (!saved_reader_open(image, NULL, &reader, &err))
        abort();
    do {
        if (!saved_read(reader, &bytes, &err) || !buf_append(stream, bytes, &err))
            abort();
    } while (bytes.len > 0);
    saved_reader_close(reader);
}

/* What came is written, read, and what was read written and read again. */
static void go_round(int folder, struct str stream, struct buf *read)
{
    static const char *const names[] = {MACHINE_MEMORY, MACHINE_DEVICES, MACHINE_SCRATCH};
    const struct saved_image image = {folder, -1, -1, &saved_form_machine};

    if (write_all(&image, stream))
        read_all(&image, read);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        unlinkat(folder, names[i], 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_finish) struct buf first = {.max = STREAM_MAX};
    AUTO(buf_finish) struct buf second = {.max = STREAM_MAX};
    char name[] = "/tmp/helmr-saved-XXXXXX";

    if (!mkdtemp(name))
        abort();
    AUTO_FD int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    go_round(folder, (struct str){(const char *)data, size}, &first);
    if (first.len > 0) {
        go_round(folder, buf_str(&first), &second);
        if (!str_equal(buf_str(&first), buf_str(&second)))
            abort();
    }
    rmdir(name);
    return 0;
}
