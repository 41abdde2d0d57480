/* The loop's timers: a binary heap by due time, then by order of making. Inside base only. */
#pragma once

#include <stdint.h>

#include "base/loop.h"

struct timers {
    struct loop_timer **heap;
    size_t n, cap;
    uint64_t made;
};

void timers_finish(struct timers *timers);
struct loop_timer *timers_add(struct timers *timers, int64_t due_ms, loop_fire *fire, void *arg);

/* The earliest due time, or -1 when there is no timer. */
int64_t timers_next(const struct timers *timers);

/* Fires what is due and was made before this call, so a timer that re-arms itself with no delay
 * cannot hold the loop. */
void timers_fire(struct timers *timers, int64_t now_ms);
