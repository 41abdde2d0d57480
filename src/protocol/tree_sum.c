#include "protocol/tree_sum.h"

enum { BLOCK = 65536 };

void tree_sum_init(struct tree_sum *sum)
{
    *sum = (struct tree_sum){0};
    blake2b_init(&sum->hash, (struct str){0});
}

static void end_block(struct tree_sum *sum)
{
    char bytes[4];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(sum->crc >> (8 * i));
    blake2b_update(&sum->hash, (struct str){bytes, sizeof bytes});
    sum->crc = 0;
    sum->filled = 0;
}

void tree_sum_update(struct tree_sum *sum, struct str bytes)
{
    while (bytes.len > 0) {
        size_t room = BLOCK - sum->filled, n = bytes.len < room ? bytes.len : room;

        sum->crc = crc32c(sum->crc, (struct str){bytes.ptr, n});
        sum->filled += n;
        if (sum->filled == BLOCK)
            end_block(sum);
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
    }
}

void tree_sum_final(struct tree_sum *sum, uint8_t digest[BLAKE2B_LEN])
{
    if (sum->filled > 0)
        end_block(sum);
    blake2b_final(&sum->hash, digest);
}
