/* Clocks and the text form of times. Rows hold real time in milliseconds; timers and
 * leases use boot time, so that a suspended host wakes up late instead of young.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { TIME_TEXT_MAX = 32 };

int64_t time_now_ms(void);  /* CLOCK_REALTIME */
int64_t time_boot_ms(void); /* CLOCK_BOOTTIME */
int64_t time_boot_ns(void);

/* RFC 3339, UTC, milliseconds: 2026-11-15T09:03:53.120Z. Returns text. */
char *time_format(int64_t ms, char text[TIME_TEXT_MAX]);

/* Any offset is accepted and converted; a missing one is refused. */
bool time_parse(struct str text, int64_t *ms, struct error *err) MUST_USE;

/* The UTC date as YYYYMMDD. */
void time_date(int64_t ms, char text[9]);
