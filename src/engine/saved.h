/* What an engine saved, as one stream of bytes to be kept elsewhere, and back.
 *
 * Equal memory gives equal bytes, at places that move little, so that what two images share is
 * found and stored once. An image is checked as a whole: a reader that came to the end has seen
 * every byte of it make sense, and a writer that has ended has written nothing but what does.
 */
#pragma once

#include <stdatomic.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"

/* How the images of an engine are laid out. A reader or writer of a form begins with the struct
 * of that name here. */
struct saved_reader {
    const struct saved_form *form;
};

struct saved_writer {
    const struct saved_form *form;
    bool was_late;
};

struct saved_form {
    /* An image can be read while it is saved, and an engine started before it is written. */
    bool grows;
    bool (*reader_open)(const struct saved_image *image, const atomic_bool *is_growing,
                        struct saved_reader **reader, struct error *err);
    bool (*read)(struct saved_reader *reader, struct str *bytes, struct error *err);
    void (*reader_close)(struct saved_reader *reader);
    bool (*writer_open)(const struct saved_image *image, struct saved_writer **writer,
                        struct error *err);
    bool (*write)(struct saved_writer *writer, struct str bytes, struct error *err);
    bool (*writer_end)(struct saved_writer *writer, struct error *err);
    void (*writer_close)(struct saved_writer *writer);
};

extern const struct saved_form saved_form_gvisor, saved_form_machine;

/* The one file in the folder of an image of gVisor. */
#define GVISOR_IMAGE "checkpoint.img"

/* The files in the folder of an image of a machine: its memory as the guest numbers it, unless the
 * image has a memfd of it; what its devices are in; and the disk it writes, unless the image has
 * that too. All of them may have holes. A machine without a disk has an empty one. */
#define MACHINE_MEMORY  "memory"
#define MACHINE_DEVICES "devices"
#define MACHINE_SCRATCH "scratch"
/* Of a copy whose memory is still that of what it is a copy of: the pages in place of those. */
#define MACHINE_CHANGES "changes"

/* The disk of an image, to be read, or emptied to be written; the caller closes it. */
bool saved_scratch_open(const struct saved_image *image, int *fd, struct error *err) MUST_USE;
bool saved_scratch_make(const struct saved_image *image, int *fd, struct error *err) MUST_USE;

/* The changes of an image with a memfd; -1: it has none. The caller closes it. */
bool saved_changes_open(const struct saved_image *image, int *fd, struct error *err) MUST_USE;
/* Such a memory with its changes, as a memfd of its own. */
bool saved_memory_merge(const struct saved_image *image, int changes, int *memory,
                        struct error *err) MUST_USE;

/* engine.share of machines: the memory moves to a memfd that nobody can write to any more. */
bool saved_machine_share(struct engine_host *host, struct saved_image *image,
                         struct error *err) MUST_USE;

/* While *is_growing the image is waited for, and more of it, so that it can be read while it is
 * saved; NULL: it is whole. */
bool saved_reader_open(const struct saved_image *image, const atomic_bool *is_growing,
                       struct saved_reader **reader, struct error *err) MUST_USE;

/* The next bytes of the stream, good until the next call; none at its end. ERR_DAMAGED when it is
 * no such image. */
bool saved_read(struct saved_reader *reader, struct str *bytes, struct error *err) MUST_USE;
void saved_reader_close(struct saved_reader *reader); /* accepts NULL */

/* Fills an empty image with a stream that comes in pieces of any size. Of a form that grows an
 * engine may be started before it is ended: it waits. */
bool saved_writer_open(const struct saved_image *image, struct saved_writer **writer,
                       struct error *err) MUST_USE;
bool saved_write(struct saved_writer *writer, struct str bytes, struct error *err) MUST_USE;
bool saved_writer_end(struct saved_writer *writer, struct error *err) MUST_USE;

/* Of one that has ended: the kernel lets nobody wait longer than fs.lease-break-time, 45 s as a
 * rule, and whoever was let in then has read a part. */
bool saved_writer_was_late(const struct saved_writer *writer);
void saved_writer_close(struct saved_writer *writer); /* accepts NULL */

/* From one image to another that is empty, through the stream. */
bool saved_copy(const struct saved_image *from, const struct saved_image *to,
                struct error *err) MUST_USE;
