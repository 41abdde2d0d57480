/* How fast the processor's time stamp counter counts.
 *
 * A guest without KVM sees this host's counter and is told its speed, so it can go on only where
 * the counter counts as fast.
 */
#pragma once

#include <stdint.h>

/* Measured once, in about 150 ms; 0 where there is no such counter. Any thread. */
int64_t tsc_khz(void);

/* To the nearest step of about 0.1 %: equal for processors of one kind. */
int64_t tsc_khz_rounded(int64_t khz);
