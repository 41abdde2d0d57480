#include "base/time.h"

#include <stdio.h>
#include <time.h>

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int64_t time_now_ms(void)
{
    return clock_ns(CLOCK_REALTIME) / 1000000;
}

int64_t time_boot_ms(void)
{
    return clock_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t time_boot_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

static void split(int64_t ms, struct tm *date, int *rest)
{
    int64_t seconds = ms / 1000;

    *rest = (int)(ms % 1000);
    if (*rest < 0) {
        *rest += 1000;
        seconds--;
    }
    time_t as_time = seconds;
    if (!gmtime_r(&as_time, date))
        *date = (struct tm){.tm_mday = 1, .tm_year = 70};
}

char *time_format(int64_t ms, char text[TIME_TEXT_MAX])
{
    struct tm date;
    int rest;

    split(ms, &date, &rest);

    /* Not %Y of strftime, which writes year 1 as one digit. */
    unsigned year = (unsigned)(date.tm_year + 1900) % 10000;
    size_t len = (size_t)snprintf(text, TIME_TEXT_MAX, "%04u", year);

    len += strftime(text + len, TIME_TEXT_MAX - len, "-%m-%dT%H:%M:%S", &date);
    snprintf(text + len, TIME_TEXT_MAX - len, ".%03dZ", rest);
    return text;
}

void time_date(int64_t ms, char text[9])
{
    struct tm date;
    int rest;

    split(ms, &date, &rest);
    if (!strftime(text, 9, "%Y%m%d", &date))
        memcpy(text, "19700101", 9);
}

/* Exactly n digits off the front; a shorter run is a failure. */
static bool take_digits(struct str *rest, int n, int *value)
{
    if (rest->len < (size_t)n)
        return false;
    *value = 0;
    for (int i = 0; i < n; i++) {
        if (rest->ptr[i] < '0' || rest->ptr[i] > '9')
            return false;
        *value = *value * 10 + (rest->ptr[i] - '0');
    }
    *rest = (struct str){rest->ptr + n, rest->len - (size_t)n};
    return true;
}

static bool take_one_of(struct str *rest, const char *choices)
{
    if (!rest->len || !rest->ptr[0] || !strchr(choices, rest->ptr[0]))
        return false;
    *rest = (struct str){rest->ptr + 1, rest->len - 1};
    return true;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && is_leap);
}

static bool take_date(struct str *rest, struct tm *date)
{
    int year, month, day;

    if (!take_digits(rest, 4, &year) || !take_one_of(rest, "-") || !take_digits(rest, 2, &month) ||
        !take_one_of(rest, "-") || !take_digits(rest, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_of_month(year, month))
        return false;
    *date = (struct tm){.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    return true;
}

static bool take_clock(struct str *rest, struct tm *date, int *ms)
{
    if (!take_digits(rest, 2, &date->tm_hour) || !take_one_of(rest, ":") ||
        !take_digits(rest, 2, &date->tm_min) || !take_one_of(rest, ":") ||
        !take_digits(rest, 2, &date->tm_sec))
        return false;
    if (date->tm_hour > 23 || date->tm_min > 59 || date->tm_sec > 59)
        return false;

    *ms = 0;
    if (!take_one_of(rest, "."))
        return true;

    int digit, n = 0;
    for (int scale = 100; take_digits(rest, 1, &digit); scale /= 10, n++)
        *ms += digit * scale;
    return n >= 1 && n <= 9;
}

static bool take_offset(struct str *rest, int *minutes)
{
    if (take_one_of(rest, "Zz")) {
        *minutes = 0;
        return true;
    }

    int sign = rest->len && rest->ptr[0] == '-' ? -1 : 1, hours, part;

    if (!take_one_of(rest, "+-") || !take_digits(rest, 2, &hours) || !take_one_of(rest, ":") ||
        !take_digits(rest, 2, &part))
        return false;
    *minutes = sign * (hours * 60 + part);
    return hours <= 23 && part <= 59;
}

bool time_parse(struct str text, int64_t *ms, struct error *err)
{
    struct str rest = text;
    struct tm date;
    int rest_ms, offset;

    if (!take_date(&rest, &date) || !take_one_of(&rest, "Tt ") ||
        !take_clock(&rest, &date, &rest_ms) || !take_offset(&rest, &offset) || rest.len)
        return error_set(err, ERR_INVALID,
                         "\"%.*s\" is no RFC 3339 time such as 2026-11-15T09:03:53.120Z",
                         text.len < 64 ? (int)text.len : 64, text.ptr ? text.ptr : "");
    *ms = ((int64_t)timegm(&date) - offset * 60LL) * 1000 + rest_ms;
    return true;
}
