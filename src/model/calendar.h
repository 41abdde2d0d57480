/* Days and dates of the Gregorian calendar, of the years 1 to 9999. Day 0 is 1970-01-01. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CALENDAR_DAY INT64_C(86400) /* seconds */

struct date {
    int year, month, day; /* month and day from 1 */
};

bool calendar_is_leap(int year);
int calendar_month_days(int year, int month);
int64_t calendar_day(int year, int month, int day);
struct date calendar_date(int64_t day);

/* 0 is Sunday. */
int calendar_weekday(int64_t day);

/* The day and the second in it, also before 1970. */
int64_t calendar_day_of(int64_t seconds, int64_t *second);
