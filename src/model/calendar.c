#include "model/calendar.h"

enum { DAYS_TO_1970 = 719162, DAYS_OF_400_YEARS = 146097 };

bool calendar_is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int calendar_month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && calendar_is_leap(year));
}

int64_t calendar_day(int year, int month, int day)
{
    int64_t past = year - 1;
    int64_t days = past * 365 + past / 4 - past / 100 + past / 400 - DAYS_TO_1970;

    for (int m = 1; m < month; m++)
        days += calendar_month_days(year, m);
    return days + day - 1;
}

struct date calendar_date(int64_t day)
{
    /* The average length of a year misses by one at most. */
    int year = (int)((day + DAYS_TO_1970) * 400 / DAYS_OF_400_YEARS) + 1;
    struct date date = {.month = 1};

    while (calendar_day(year, 1, 1) > day)
        year--;
    while (calendar_day(year + 1, 1, 1) <= day)
        year++;
    date.year = year;
    int64_t rest = day - calendar_day(year, 1, 1);
    while (rest >= calendar_month_days(year, date.month))
        rest -= calendar_month_days(year, date.month++);
    date.day = (int)rest + 1;
    return date;
}

int calendar_weekday(int64_t day)
{
    /* 1970-01-01 was a Thursday. */
    int64_t weekday = (day + 4) % 7;

    return (int)(weekday < 0 ? weekday + 7 : weekday);
}

int64_t calendar_day_of(int64_t seconds, int64_t *second)
{
    int64_t day = seconds / CALENDAR_DAY;

    *second = seconds % CALENDAR_DAY;
    if (*second < 0) {
        *second += CALENDAR_DAY;
        day--;
    }
    return day;
}
