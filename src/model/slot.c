#include "model/slot.h"

#include "model/calendar.h"

/* A weekday of 29 February may be 40 years away, where 2100 has none. */
#define HORIZON (CALENDAR_DAY * 366 * 48)

/* Well within the years that dates are known of. */
#define INSTANT_MAX INT64_C(250000000000)

static bool next_time(const struct cron *cron, const struct zone *zone, int64_t after,
                      int64_t *found)
{
    int64_t local = after + zone_span(zone, after).offset, end = local + HORIZON;

    /* What the wall clock showed until now has come: zone_instant never goes back. */
    while (cron_find(cron, local + 1, end, &local)) {
        *found = zone_instant(zone, local);
        if (*found > after)
            return true;
    }
    return false;
}

static bool next_interval(const struct cron *cron, const struct zone *zone, int64_t after,
                          int64_t *found)
{
    int64_t end = after + HORIZON, begin = after + 1, local;

    while (begin < end) {
        struct zone_span span = zone_span(zone, begin);
        int64_t until = span.until < end ? span.until : end;

        if (cron_find(cron, begin + span.offset, until + span.offset, &local)) {
            *found = local - span.offset;
            return true;
        }
        begin = until;
    }
    return false;
}

bool slot_next(const struct cron *cron, const struct zone *zone, int64_t after_ms, int64_t *slot_ms)
{
    int64_t after = after_ms / 1000, found;

    if (after_ms < 0 || after > INSTANT_MAX)
        return false;
    if (cron->is_wild ? !next_interval(cron, zone, after, &found)
                      : !next_time(cron, zone, after, &found))
        return false;
    *slot_ms = found * 1000;
    return true;
}

int64_t slot_latest(const struct cron *cron, const struct zone *zone, int64_t slot_ms,
                    int64_t until_ms)
{
    int64_t latest = slot_ms, next;

    /* Ever wider looks back from the end: what a long downtime missed is not counted out. */
    for (int64_t width = INT64_C(60000);; width *= 2) {
        int64_t begin = until_ms - slot_ms > width ? until_ms - width : slot_ms;

        for (int64_t at = begin; slot_next(cron, zone, at, &next) && next <= until_ms; at = next)
            latest = next;
        if (latest != slot_ms || begin == slot_ms)
            return latest;
    }
}
