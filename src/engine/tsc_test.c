#include "engine/tsc.h"

#include <stdlib.h>

#include "base/test.h"

TEST(the_counter_is_measured_once)
{
    int64_t khz = tsc_khz();

    if (khz == 0)
        SKIP("this processor has no time stamp counter");
    CHECK(khz > 100000 && khz < 20000000);
    CHECK(tsc_khz() == khz);
}

TEST(speeds_that_differ_by_noise_are_one_speed)
{
    CHECK(tsc_khz_rounded(2500000) == tsc_khz_rounded(2500200));
    CHECK(tsc_khz_rounded(2500000) != tsc_khz_rounded(2510000));
    for (int64_t khz = 400000; khz < 6000000; khz += 1237)
        CHECK(llabs(tsc_khz_rounded(khz) - khz) <= khz / 1000);
    CHECK(tsc_khz_rounded(0) == 0);
}

TEST_MAIN()
