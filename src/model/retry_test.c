#include "model/retry.h"

#include "base/attr.h"
#include "base/test.h"

static struct error err;

TEST(nothing_is_retried_unless_declared)
{
    struct retry_policy policy = retry_default();

    CHECK(retry_check(&policy, &err));
    CHECK(!retry_is_allowed(&policy, 1));
    policy.max_attempts = 3;
    CHECK(retry_is_allowed(&policy, 1) && retry_is_allowed(&policy, 2));
    CHECK(!retry_is_allowed(&policy, 3));
}

TEST(the_delay_grows_by_its_factor_up_to_its_maximum)
{
    static const int64_t want[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    struct retry_policy policy = retry_default();

    policy.jitter = RETRY_JITTER_NONE;
    for (int64_t i = 0; i < (int64_t)COUNT_OF(want); i++)
        CHECK(retry_delay_ms(&policy, i + 1, 12345) == want[i]);
    policy.factor = 0.5;
    CHECK(retry_delay_ms(&policy, 3, 0) == 250);
}

TEST(full_jitter_spreads_over_the_whole_delay)
{
    struct retry_policy policy = retry_default();

    CHECK(retry_delay_ms(&policy, 2, 0) == 0);
    CHECK(retry_delay_ms(&policy, 2, UINT64_MAX) == 2000);
    CHECK(retry_delay_ms(&policy, 2, UINT64_MAX / 2) == 1000);
}

TEST(a_policy_has_bounds)
{
    static const struct retry_policy wrong[] = {
        {0,  1000, 30000,    2,  RETRY_JITTER_FULL},
        {11, 1000, 30000,    2,  RETRY_JITTER_FULL},
        {3,  -1,   30000,    2,  RETRY_JITTER_FULL},
        {3,  2000, 1000,     2,  RETRY_JITTER_FULL},
        {3,  1000, 86400001, 2,  RETRY_JITTER_FULL},
        {3,  1000, 30000,    0,  RETRY_JITTER_FULL},
        {3,  1000, 30000,    -1, RETRY_JITTER_FULL},
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK(!retry_check(&wrong[i], &err) && err.code == ERR_INVALID);
}

TEST(jitter_has_two_names)
{
    enum retry_jitter jitter;

    CHECK(retry_jitter_parse(STR("none"), &jitter) && jitter == RETRY_JITTER_NONE);
    CHECK(retry_jitter_parse(STR("full"), &jitter) && jitter == RETRY_JITTER_FULL);
    CHECK(!retry_jitter_parse(STR("half"), &jitter));
}

TEST(a_rejected_lease_waits_longer_each_time_up_to_a_minute)
{
    CHECK(redelivery_delay_ms(0) == 1000 && redelivery_delay_ms(1) == 2000);
    CHECK(redelivery_delay_ms(5) == 32000 && redelivery_delay_ms(6) == 60000);
    CHECK(redelivery_delay_ms(1000) == 60000);
}

TEST_MAIN()
