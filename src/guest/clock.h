/* The wall clock of a machine follows the host's.
 *
 * A time that the host sent is already a little old when it is read, so a clock that is behind it
 * is surely late and is set at once; one that is before it may only look early. It is set back when
 * it was early by a margin several times in a row, and by no more than the least of them.
 */
#pragma once

#include <stdint.h>

enum { CLOCK_LOOKS = 4 };

struct clock_watch {
    int64_t lead_ns[CLOCK_LOOKS];
    unsigned n;
};

int64_t clock_now_ns(void);

/* Sets it when it differs by over 10 ms. */
void clock_set(uint64_t realtime_ns);

/* One more look: the clock and what the host said now. */
void clock_follow(struct clock_watch *watch, uint64_t realtime_ns);

/* What is to be added to a clock that leads by this much; 0: nothing. */
int64_t clock_correction(struct clock_watch *watch, int64_t lead_ns);
