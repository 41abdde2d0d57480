/* What makes blocks a file system: the superblock, the groups and the inodes, by libext2fs.
 *
 * No copies of the superblock are kept and the groups' tables lie together, so content may lie
 * anywhere else without a gap.
 */
#pragma once

#include <ext2fs/ext2fs.h>

#include "image/ext4.h"
#include "image/ext4_tree.h"

enum { EXT4_RESERVED = 65 }; /* blocks: the superblock and the groups of a terabyte */

#define EXT4_SIZE_MIN ((int64_t)16 << 20)
#define EXT4_SIZE_MAX ((int64_t)1 << 40)

struct ext4_identity {
    uint8_t uuid[16];
    uint32_t hash_seed[4];
};
void ext4_identity_of(struct str seed, struct ext4_identity *identity);

struct ext4_shape {
    uint32_t n_blocks, n_inodes;
    uint32_t tables;  /* the block where the groups' tables begin */
    uint32_t content; /* blocks from EXT4_RESERVED on that are in use */
};

/* The groups for content that ends before `end`; n_inodes of them are wanted. size_bytes 0: as
 * needed. */
bool ext4_shape_fit(uint32_t end, uint32_t spare, uint32_t n_inodes, int64_t size_bytes,
                    struct ext4_shape *shape, struct error *err) MUST_USE;

/* fd stays the caller's. */
bool ext4_super_open(int fd, const struct ext4_shape *shape, const struct ext4_identity *identity,
                     ext2_filsys *fs, struct error *err) MUST_USE;
void ext4_super_finish(ext2_filsys *fs); /* drops what was not closed */
bool ext4_super_close(ext2_filsys *fs, struct error *err) MUST_USE;

bool ext4_put_inode(ext2_filsys fs, const struct ext4_node *node, struct error *err) MUST_USE;

/* What libext2fs says, as an error. */
bool ext4_fail(struct error *err, long code, const char *what);
