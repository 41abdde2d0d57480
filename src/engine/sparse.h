/* Files most of which is nothing: the memory and the disks of machines.
 *
 * Blocks that are zero are holes, whether the file system knows it or not.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { SPARSE_BLOCK = 4096, SPARSE_RUN_MAX = 1 << 20 };

struct sparse_reader {
    int fd;   /* borrowed */
    int over; /* borrowed: where this one has blocks, they stand for the other's; -1: none */
    int64_t size;
    int64_t at;   /* up to here it was looked for */
    int64_t hole; /* the first after where data was seen last */
    char *window; /* what was read and not looked at yet */
    size_t begin, end;
};

bool sparse_reader_init(struct sparse_reader *reader, int fd, struct error *err) MUST_USE;
/* Of two files of one size: `over` has blocks that replace those of the other, and holes elsewhere.
 * Read like that they are the same as one file with both. */
bool sparse_reader_init_over(struct sparse_reader *reader, int fd, int over,
                             struct error *err) MUST_USE;
void sparse_reader_finish(struct sparse_reader *reader); /* accepts one that is all 0 */

/* The next blocks that are not zero, good until the next call; none at the end. They begin at a
 * multiple of SPARSE_BLOCK and go on to a zero block, a multiple of SPARSE_RUN_MAX or the end of
 * the file: equal files give equal runs. */
bool sparse_read(struct sparse_reader *reader, int64_t *offset, struct str *bytes,
                 struct error *err) MUST_USE;

bool sparse_write(int fd, int64_t offset, struct str bytes, struct error *err) MUST_USE;

/* Into an empty file; shares the blocks where the file system can. */
bool sparse_copy(int from, int to, struct error *err) MUST_USE;
bool sparse_copy_over(int from, int over, int to, struct error *err) MUST_USE;
