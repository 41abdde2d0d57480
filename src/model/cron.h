/* Cron expressions of five fields: minute, hour, day of month, month, day of week.
 *
 * A field is a list of numbers, names (JAN, MON), ranges and steps (star-slash-5, 10-40/10).
 * Days of week go from 0 to 7, both ends Sunday. Where neither day field begins with a star, a
 * day needs to match one of them; else both. What can never match is refused.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { CRON_TEXT_MAX = 256 };

struct cron {
    uint64_t minutes, hours, days, months, weekdays; /* a bit per value */
    bool either_day;                                 /* one of the day fields is enough */
    bool is_wild; /* every minute or every hour: an interval rather than times of day */
};

/* ERR_CRON, saying which field and why. */
bool cron_parse(struct str text, struct cron *cron, struct error *err) MUST_USE;

/* The first matching minute of the wall clock at or after `from` and before `end`, in seconds as
 * if the wall clock were UTC. False when there is none. */
bool cron_find(const struct cron *cron, int64_t from, int64_t end, int64_t *found);
