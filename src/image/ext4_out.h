/* The blocks of a file system in the making, written one after the other.
 *
 * Content is placed where the last content ended, so that writing is one sequential pass; where it
 * went is kept as an extent tree, ready for the inode.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum {
    EXT4_BLOCK = 4096,
    EXT4_HOLE = 64 * 1024, /* zeros of this length, aligned to it, are not written */
    EXT4_MAP = 60,         /* the room an inode has for its extents */
};

/* Blocks that follow each other both in the file and on the disk. */
struct ext4_run {
    uint32_t at, block, n;
};

/* Where the content of one inode lies. */
struct ext4_map {
    uint8_t root[EXT4_MAP]; /* as the inode has it */
    uint32_t n_blocks;      /* with those of the tree itself */
};

struct ext4_out {
    int fd;
    char *buffer;
    size_t used;
    int64_t offset; /* where the buffer goes */
    struct ext4_run *runs;
    size_t n_runs, room; /* of the content under way */
};

/* Writes from `first_block` on; fd is borrowed. */
void ext4_out_init(struct ext4_out *out, int fd, uint32_t first_block);
void ext4_out_finish(struct ext4_out *out);

/* The next block to be written. */
uint32_t ext4_out_block(const struct ext4_out *out);

/* Room for `len` bytes that come next, at most EXT4_HOLE; NULL on failure. */
char *ext4_out_room(struct ext4_out *out, size_t len, struct error *err);
/* The bytes in that room count: as many whole blocks, the rest of the last one zero. */
void ext4_out_add(struct ext4_out *out, size_t len);

/* The content of an open file. */
bool ext4_out_file(struct ext4_out *out, int file, int64_t size, struct ext4_map *map,
                   struct error *err) MUST_USE;

/* What was added since `block` is the whole content of an inode. */
bool ext4_out_map(struct ext4_out *out, uint32_t block, struct ext4_map *map,
                  struct error *err) MUST_USE;

/* Everything so far is in the file. */
bool ext4_out_flush(struct ext4_out *out, struct error *err) MUST_USE;
