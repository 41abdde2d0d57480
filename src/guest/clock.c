#include "guest/clock.h"

#include <stdlib.h>
#include <time.h>

enum { SECOND_NS = 1000000000, SLACK_NS = 10000000, LEAD_NS = 50000000 };

int64_t clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void step_to(int64_t wanted_ns)
{
    const struct timespec time = {wanted_ns / SECOND_NS, wanted_ns % SECOND_NS};

    (void)!clock_settime(CLOCK_REALTIME, &time);
}

static int64_t bounded(uint64_t ns)
{
    return ns < INT64_MAX ? (int64_t)ns : INT64_MAX;
}

void clock_set(uint64_t realtime_ns)
{
    int64_t wanted = bounded(realtime_ns);

    if (llabs(clock_now_ns() - wanted) > SLACK_NS)
        step_to(wanted);
}

int64_t clock_correction(struct clock_watch *watch, int64_t lead_ns)
{
    int64_t least = lead_ns;

    if (lead_ns < -SLACK_NS) {
        watch->n = 0;
        return -lead_ns;
    }
    watch->lead_ns[watch->n++] = lead_ns;
    if (watch->n < CLOCK_LOOKS)
        return 0;
    for (unsigned i = 0; i < CLOCK_LOOKS; i++)
        least = watch->lead_ns[i] < least ? watch->lead_ns[i] : least;
    watch->n = 0;
    return least > LEAD_NS ? -least : 0;
}

void clock_follow(struct clock_watch *watch, uint64_t realtime_ns)
{
    int64_t now = clock_now_ns();
    int64_t correction = clock_correction(watch, now - bounded(realtime_ns));

    if (correction)
        step_to(now + correction);
}
