#include "protocol/tree_sum.h"

#include <string.h>

#include "base/own.h"
#include "base/test.h"

enum { LEN = 200000 };

static char bytes[LEN];

static void fill(void)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 31 + i / 251);
}

static void sum_of(size_t len, size_t step, uint8_t digest[BLAKE2B_LEN])
{
    struct tree_sum sum;

    tree_sum_init(&sum);
    for (size_t at = 0; at < len; at += step)
        tree_sum_update(&sum, (struct str){bytes + at, len - at < step ? len - at : step});
    tree_sum_final(&sum, digest);
}

TEST(the_sum_is_the_same_however_the_bytes_are_cut)
{
    static const size_t steps[] = {1, 7, 65535, 65536, 65537, 131072};
    uint8_t whole[BLAKE2B_LEN], cut[BLAKE2B_LEN];

    fill();
    sum_of(LEN, LEN, whole);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        sum_of(LEN, steps[i], cut);
        CHECK(memcmp(whole, cut, sizeof whole) == 0);
    }
}

TEST(a_changed_a_missing_and_a_moved_byte_show)
{
    uint8_t whole[BLAKE2B_LEN], other[BLAKE2B_LEN];

    fill();
    sum_of(LEN, LEN, whole);
    sum_of(LEN - 1, LEN, other);
    CHECK(memcmp(whole, other, sizeof whole) != 0);
    for (size_t at = 0; at < LEN; at += 9973) {
        bytes[at] ^= 1;
        sum_of(LEN, LEN, other);
        CHECK(memcmp(whole, other, sizeof whole) != 0);
        bytes[at] ^= 1;
    }
    /* Two blocks that have changed places. */
    for (size_t i = 0; i < 65536; i++) {
        char first = bytes[i];
        bytes[i] = bytes[65536 + i];
        bytes[65536 + i] = first;
    }
    sum_of(LEN, LEN, other);
    CHECK(memcmp(whole, other, sizeof whole) != 0);
}

TEST_MAIN()
