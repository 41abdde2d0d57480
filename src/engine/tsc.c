#include "engine/tsc.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { WINDOW_MS = 50, WINDOWS = 3 };

#if defined(__x86_64__)
static int64_t raw_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t measure(void)
{
    int64_t began_ns = raw_ns();
    uint64_t began = __rdtsc();

    (void)poll(NULL, 0, WINDOW_MS);
    int64_t ended_ns = raw_ns();
    uint64_t ended = __rdtsc();
    return (int64_t)((double)(ended - began) * 1e6 / (double)(ended_ns - began_ns));
}

/* The middle one: a measurement that was interrupted is far off. */
static int64_t measure_well(void)
{
    int64_t found[WINDOWS];

    for (int i = 0; i < WINDOWS; i++) {
        int64_t khz = measure();
        int at = i;

        for (; at > 0 && found[at - 1] > khz; at--)
            found[at] = found[at - 1];
        found[at] = khz;
    }
    return found[WINDOWS / 2];
}
#else
static int64_t measure_well(void)
{
    return 0;
}
#endif

static int64_t measured;

static void measure_once(void)
{
    measured = measure_well();
}

int64_t tsc_khz(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, measure_once);
    return measured;
}

/* The largest power of two that is at most a thousandth of it. */
int64_t tsc_khz_rounded(int64_t khz)
{
    int64_t step = 1;

    while (khz / (2 * step) >= 1000)
        step *= 2;
    return (khz + step / 2) / step * step;
}
