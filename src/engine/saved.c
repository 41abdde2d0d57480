#include "engine/saved.h"

#include <poll.h>

enum { LOOK_MS = 1 };

bool saved_reader_open(const struct saved_image *image, const atomic_bool *is_growing,
                       struct saved_reader **reader, struct error *err)
{
    while (!image->form->grows && is_growing && atomic_load(is_growing))
        poll(NULL, 0, LOOK_MS);
    return image->form->reader_open(image, is_growing, reader, err);
}

bool saved_read(struct saved_reader *reader, struct str *bytes, struct error *err)
{
    return reader->form->read(reader, bytes, err);
}

void saved_reader_close(struct saved_reader *reader)
{
    if (reader)
        reader->form->reader_close(reader);
}

bool saved_writer_open(const struct saved_image *image, struct saved_writer **writer,
                       struct error *err)
{
    return image->form->writer_open(image, writer, err);
}

bool saved_write(struct saved_writer *writer, struct str bytes, struct error *err)
{
    return writer->form->write(writer, bytes, err);
}

bool saved_writer_end(struct saved_writer *writer, struct error *err)
{
    return writer->form->writer_end(writer, err);
}

bool saved_writer_was_late(const struct saved_writer *writer)
{
    return writer->was_late;
}

void saved_writer_close(struct saved_writer *writer)
{
    if (writer)
        writer->form->writer_close(writer);
}

bool saved_copy(const struct saved_image *from, const struct saved_image *to, struct error *err)
{
    struct saved_reader *reader = NULL;
    struct saved_writer *writer = NULL;
    struct str bytes;
    bool fine = saved_reader_open(from, NULL, &reader, err) && saved_writer_open(to, &writer, err);

    while (fine && (fine = saved_read(reader, &bytes, err)) && bytes.len > 0)
        fine = saved_write(writer, bytes, err);
    fine = fine && saved_writer_end(writer, err);
    saved_writer_close(writer);
    saved_reader_close(reader);
    return fine;
}
