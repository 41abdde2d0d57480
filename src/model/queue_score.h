/* The order of a queue: lowest score first, and among equals the smaller id. Kept over retries,
 * redeliveries and waits, so a run that comes back comes early.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PRIORITY_MAX = 86400 };

static inline bool priority_is_valid(int64_t priority)
{
    return priority >= -PRIORITY_MAX && priority <= PRIORITY_MAX;
}

/* `priority` is the seconds by which the run counts as older. */
static inline int64_t queue_score(int64_t created_ms, int64_t priority)
{
    return created_ms - priority * 1000;
}
