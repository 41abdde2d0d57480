/* What gVisor saved, as one stream of bytes to be kept elsewhere, and back.
 *
 * gVisor writes a head and then pieces of at most 1 MiB, each deflated. The stream has them
 * inflated, so that equal memory gives equal bytes and packs well; going back, pieces are only
 * stored, which gVisor reads as fast as it can copy. The file is checked as a whole: a reader
 * that came to the end has seen every byte of it make sense.
 */
#pragma once

#include <stdatomic.h>

#include "base/error.h"
#include "base/str.h"

struct saved_reader;
struct saved_writer;

/* Of ENGINE_IMAGE in the folder. While *is_growing the file is waited for, and more of it, so that
 * it can be read while it is saved; NULL: it is whole. */
bool saved_reader_open(int folder, const atomic_bool *is_growing, struct saved_reader **reader,
                       struct error *err) MUST_USE;

/* The next bytes of the stream, good until the next call; none at its end. ERR_DAMAGED when it is
 * no such file. */
bool saved_read(struct saved_reader *reader, struct str *bytes, struct error *err) MUST_USE;
void saved_reader_close(struct saved_reader *reader); /* accepts NULL */

/* Makes ENGINE_IMAGE in the folder of a stream that comes in pieces of any size. Until it is ended
 * whoever opens the file waits: an engine may be started before. */
bool saved_writer_open(int folder, struct saved_writer **writer, struct error *err) MUST_USE;
bool saved_write(struct saved_writer *writer, struct str bytes, struct error *err) MUST_USE;
bool saved_writer_end(struct saved_writer *writer, struct error *err) MUST_USE;

/* Of one that has ended: the kernel lets nobody wait longer than fs.lease-break-time, 45 s as a
 * rule, and whoever was let in then has read a part. */
bool saved_writer_was_late(const struct saved_writer *writer);
void saved_writer_close(struct saved_writer *writer); /* accepts NULL */

/* From one folder to another, through the stream: what was deflated is only stored then. */
bool saved_copy(int from, int to, struct error *err) MUST_USE;
