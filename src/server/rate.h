/* Rate limits, in the memory of this process: so many acts a minute for each key.
 *
 * A limit is a bucket: all its acts may come at once, then they come back one by one. A key is
 * an address or an account together with an address, never an account alone, so that nobody can
 * lock out somebody else.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"

struct call;
struct response;

struct rate {
    pthread_mutex_t lock;
    struct map keys; /* each: when its bucket is full again, boot time */
};

void rate_init(struct rate *rate);
void rate_finish(struct rate *rate);

/* False when it is too early; *wait_ms says for how long. */
bool rate_take(struct rate *rate, struct str key, int per_minute, int64_t now_ms, int64_t *wait_ms);

/* For routes that anybody may try: 100 a minute per address and, with an account, 10 a minute
 * for the two together. ERR_LIMIT with Retry-After. */
bool rate_check(struct call *call, struct response *res, struct str account,
                struct error *err) MUST_USE;

/* For secrets in requests of anybody: whoever was wrong 100 times in a minute from one address is
 * not listened to, and those who are right are not counted. */
bool rate_check_guesses(struct call *call, struct response *res, struct error *err) MUST_USE;
void rate_note_guess(const struct call *call);
