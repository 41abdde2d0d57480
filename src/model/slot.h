/* When a schedule fires: the slots of a cron expression in a time zone.
 *
 * Times of day ("30 2 * * *") are those of the wall clock: one that is skipped when clocks go
 * forward comes at the end of the gap, one that is shown twice when they go back is taken once,
 * the first time. Intervals (a star in minute or hour) go on in real time: nothing is made up
 * for in a gap, and both passages of a repeated hour count. Instants are in milliseconds.
 */
#pragma once

#include "model/cron.h"
#include "model/zone.h"

/* The first slot after the instant. False when there is none within some fifty years. */
bool slot_next(const struct cron *cron, const struct zone *zone, int64_t after_ms,
               int64_t *slot_ms) MUST_USE;

/* The last of a slot and those after it that is not after `until`. */
int64_t slot_latest(const struct cron *cron, const struct zone *zone, int64_t slot_ms,
                    int64_t until_ms);
