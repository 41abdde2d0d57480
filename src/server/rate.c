#include "server/rate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/own.h"
#include "base/time.h"
#include "server/context.h"

enum { MINUTE_MS = 60 * 1000, KEYS_MAX = 64 * 1024, PER_ADDRESS = 100, PER_ACCOUNT = 10 };

void rate_init(struct rate *rate)
{
    *rate = (struct rate){0};
    pthread_mutex_init(&rate->lock, NULL);
}

static void drop_all(struct rate *rate)
{
    size_t at = 0;
    struct str key;
    void *full_ms;
    while (map_next(&rate->keys, &at, &key, &full_ms))
        free(full_ms);
    map_finish(&rate->keys);
    rate->keys = (struct map){0};
}

void rate_finish(struct rate *rate)
{
    drop_all(rate);
    pthread_mutex_destroy(&rate->lock);
}

/* A full bucket need not be remembered. When none of so many is full, whoever tries has more
 * addresses than a limit by address could hold back, and all begin anew. */
static void make_room(struct rate *rate, int64_t now_ms)
{
    struct map kept = {0};
    size_t at = 0;
    struct str key;
    void *full_ms;
    while (map_next(&rate->keys, &at, &key, &full_ms))
        if (*(int64_t *)full_ms > now_ms)
            map_put(&kept, key, full_ms);
        else
            free(full_ms);
    map_finish(&rate->keys);
    rate->keys = kept;
    if (kept.count >= KEYS_MAX)
        drop_all(rate);
}

static bool take(struct rate *rate, struct str key, int per_minute, int64_t now_ms, bool is_look,
                 int64_t *wait_ms)
{
    int64_t each_ms = MINUTE_MS / per_minute;
    pthread_mutex_lock(&rate->lock);
    int64_t *full_ms = map_find(&rate->keys, key);
    if (!full_ms && !is_look) {
        if (rate->keys.count >= KEYS_MAX)
            make_room(rate, now_ms);
        full_ms = alloc(sizeof *full_ms);
        *full_ms = 0;
        map_put(&rate->keys, key, full_ms);
    }
    int64_t from_ms = full_ms && *full_ms > now_ms ? *full_ms : now_ms;
    bool is_free = from_ms + each_ms - now_ms <= MINUTE_MS;
    if (!is_free)
        *wait_ms = from_ms + each_ms - now_ms - MINUTE_MS;
    else if (!is_look)
        *full_ms = from_ms + each_ms;
    pthread_mutex_unlock(&rate->lock);
    return is_free;
}

bool rate_take(struct rate *rate, struct str key, int per_minute, int64_t now_ms, int64_t *wait_ms)
{
    return take(rate, key, per_minute, now_ms, false, wait_ms);
}

static bool too_many(struct call *call, struct response *res, int64_t wait_ms, struct error *err)
{
    const char *seconds = arena_printf(call->arena, "%" PRId64, (wait_ms + 999) / 1000);
    if (!response_header(res, "Retry-After", str_of(seconds), err))
        return false;
    return error_set(err, ERR_LIMIT, "too many tries: wait %s s", seconds);
}

bool rate_check(struct call *call, struct response *res, struct str account, struct error *err)
{
    struct rate *rate = &server_of(call)->rate;
    struct str network = str_of(call_client_network(call));
    struct str pieces[] = {account, network};
    uint8_t both[BLAKE2B_LEN];
    int64_t now = time_boot_ms(), wait = 0;
    if (!rate_take(rate, network, PER_ADDRESS, now, &wait))
        return too_many(call, res, wait, err);
    if (account.len == 0)
        return true;
    blake2b_list((struct str){0}, pieces, COUNT_OF(pieces), both);
    return rate_take(rate, (struct str){(const char *)both, sizeof both}, PER_ACCOUNT, now,
                     &wait) ||
           too_many(call, res, wait, err);
}

static struct str guess_key(const struct call *call)
{
    return str_of(arena_printf(call->arena, "guess %s", call_client_network(call)));
}

bool rate_check_guesses(struct call *call, struct response *res, struct error *err)
{
    int64_t wait = 0;
    return take(&server_of(call)->rate, guess_key(call), PER_ADDRESS, time_boot_ms(), true,
                &wait) ||
           too_many(call, res, wait, err);
}

void rate_note_guess(const struct call *call)
{
    int64_t ignored = 0;
    take(&server_of(call)->rate, guess_key(call), PER_ADDRESS, time_boot_ms(), false, &ignored);
}
