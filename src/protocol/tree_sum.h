/* The sum of a tree on its way, by which both ends see that it came whole: the CRC32C of every
 * 64 KiB, and all of those under BLAKE2b.
 *
 * It is there for accidents. Whoever sends a tree may send another one as well, so a hash of every
 * byte would prove no more, and in a sandbox it takes longer than all the rest of a capture.
 */
#pragma once

#include "base/hash.h"

struct tree_sum {
    struct blake2b hash;
    uint32_t crc;
    size_t filled; /* bytes that `crc` is of */
};

void tree_sum_init(struct tree_sum *sum);
/* The sum is the same however the bytes are cut. */
void tree_sum_update(struct tree_sum *sum, struct str bytes);
void tree_sum_final(struct tree_sum *sum, uint8_t digest[BLAKE2B_LEN]);
