#include "model/retry.h"

struct retry_policy retry_default(void)
{
    return (struct retry_policy){
        .max_attempts = 1,
        .min_ms = 1000,
        .max_ms = 30000,
        .factor = 2,
        .jitter = RETRY_JITTER_FULL,
    };
}

bool retry_check(const struct retry_policy *policy, struct error *err)
{
    const int64_t day_ms = 86400000;

    if (policy->max_attempts < 1 || policy->max_attempts > RETRY_ATTEMPTS_MAX)
        return error_set(err, ERR_INVALID, "the attempts of a retry policy must be 1 to %d",
                         RETRY_ATTEMPTS_MAX);
    if (policy->min_ms < 0 || policy->max_ms < policy->min_ms || policy->max_ms > day_ms)
        return error_set(err, ERR_INVALID,
                         "the back-off must go from 0 ms or more up to at most one day");
    if (!(policy->factor > 0) || policy->factor > 1000)
        return error_set(err, ERR_INVALID, "the factor of a back-off must be over 0, at most 1000");
    return true;
}

bool retry_jitter_parse(struct str text, enum retry_jitter *jitter)
{
    bool is_full = str_equal(text, STR("full"));

    if (!is_full && !str_equal(text, STR("none")))
        return false;
    *jitter = is_full ? RETRY_JITTER_FULL : RETRY_JITTER_NONE;
    return true;
}

bool retry_is_allowed(const struct retry_policy *policy, int64_t failed_attempt)
{
    return failed_attempt < policy->max_attempts;
}

int64_t retry_delay_ms(const struct retry_policy *policy, int64_t failed_attempt, uint64_t random)
{
    double delay = (double)policy->min_ms;

    for (int64_t i = 1; i < failed_attempt && delay < (double)policy->max_ms; i++)
        delay *= policy->factor;
    if (delay > (double)policy->max_ms)
        delay = (double)policy->max_ms;

    int64_t ms = (int64_t)delay;

    if (policy->jitter == RETRY_JITTER_FULL)
        ms = (int64_t)((unsigned __int128)random * (uint64_t)(ms + 1) >> 64);
    return ms;
}

int64_t redelivery_delay_ms(int64_t n)
{
    return n >= 6 ? 60000 : INT64_C(1000) << (n < 0 ? 0 : n);
}
