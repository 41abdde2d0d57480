/* Waiting on a condition for a while, by a clock that nobody sets: a step of the real time makes
 * no wait longer or shorter.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* False when the time passed; as with every condition, true may be for nothing. */
bool wait_ms(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t ms);
