/* When a failed attempt is tried again. Pure: the random number comes from the caller. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { RETRY_ATTEMPTS_MAX = 10 };

enum retry_jitter { RETRY_JITTER_NONE, RETRY_JITTER_FULL };

struct retry_policy {
    int64_t max_attempts; /* 1: never again */
    int64_t min_ms, max_ms;
    double factor;
    enum retry_jitter jitter;
};

/* Off: one attempt; with the default back-off should somebody raise it. */
struct retry_policy retry_default(void);

bool retry_check(const struct retry_policy *policy, struct error *err) MUST_USE;
bool retry_jitter_parse(struct str text, enum retry_jitter *jitter); /* "none", "full" */

/* `failed_attempt` counts from 1. */
bool retry_is_allowed(const struct retry_policy *policy, int64_t failed_attempt);
int64_t retry_delay_ms(const struct retry_policy *policy, int64_t failed_attempt, uint64_t random);

/* A lease given back before its start: 1 s, 2 s, 4 s … 60 s. `n` counts the ones before. */
int64_t redelivery_delay_ms(int64_t n);
