#include "model/zone_rule.h"

#include "model/calendar.h"

enum { HOUR = 3600, OFFSET_HOURS_MAX = 24, TIME_HOURS_MAX = 167, CHANGES = 6 };

static bool take(struct str *rest, char c)
{
    if (!rest->len || rest->ptr[0] != c)
        return false;
    *rest = (struct str){rest->ptr + 1, rest->len - 1};
    return true;
}

static bool take_number(struct str *rest, int max, int *value)
{
    size_t n = 0;

    for (*value = 0; n < rest->len && rest->ptr[n] >= '0' && rest->ptr[n] <= '9'; n++) {
        *value = *value * 10 + (rest->ptr[n] - '0');
        if (n == 3 || *value > max)
            return false;
    }
    *rest = (struct str){rest->ptr + n, rest->len - n};
    return n > 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* What people call it is not needed: EST, or <+1030>. */
static bool take_name(struct str *rest)
{
    bool is_quoted = take(rest, '<');
    size_t n = 0;

    while (n < rest->len && (is_quoted ? rest->ptr[n] != '>' : is_letter(rest->ptr[n])))
        n++;
    *rest = (struct str){rest->ptr + n, rest->len - n};
    return n >= 3 && (!is_quoted || take(rest, '>'));
}

/* hours[:minutes[:seconds]] with a sign. */
static bool take_time(struct str *rest, int hours_max, int32_t *seconds)
{
    int sign = take(rest, '-') ? -1 : 1, hours, minutes = 0, rest_seconds = 0;

    if (sign > 0)
        (void)take(rest, '+');
    if (!take_number(rest, hours_max, &hours))
        return false;
    if (take(rest, ':') && !take_number(rest, 59, &minutes))
        return false;
    if (take(rest, ':') && !take_number(rest, 59, &rest_seconds))
        return false;
    *seconds = sign * (hours * HOUR + minutes * 60 + rest_seconds);
    return true;
}

/* Written as what is added to reach UTC, so west is positive. */
static bool take_offset(struct str *rest, int32_t *east)
{
    int32_t west;

    if (!take_time(rest, OFFSET_HOURS_MAX, &west))
        return false;
    *east = -west;
    return true;
}

static bool take_day(struct str *rest, struct zone_day *day)
{
    *day = (struct zone_day){.time = 2 * HOUR};
    if (take(rest, 'M')) {
        day->kind = ZONE_DAY_WEEK;
        if (!take_number(rest, 12, &day->month) || !take(rest, '.') ||
            !take_number(rest, 5, &day->week) || !take(rest, '.') ||
            !take_number(rest, 6, &day->day) || day->month < 1 || day->week < 1)
            return false;
    } else if (take(rest, 'J')) {
        day->kind = ZONE_DAY_JULIAN;
        if (!take_number(rest, 365, &day->day) || day->day < 1)
            return false;
    } else if (!take_number(rest, 365, &day->day)) {
        return false;
    }
    return !take(rest, '/') || take_time(rest, TIME_HOURS_MAX, &day->time);
}

bool zone_rule_parse(struct str text, struct zone_rule *rule)
{
    struct zone_rule made = {0};
    struct str rest = text;

    if (!take_name(&rest) || !take_offset(&rest, &made.standard))
        return false;
    if (rest.len) {
        made.has_summer = true;
        made.summer = made.standard + HOUR;
        if (!take_name(&rest))
            return false;
        if (rest.len && rest.ptr[0] != ',' && !take_offset(&rest, &made.summer))
            return false;
        if (!take(&rest, ',') || !take_day(&rest, &made.start) || !take(&rest, ',') ||
            !take_day(&rest, &made.end))
            return false;
    }
    if (rest.len)
        return false;
    *rule = made;
    return true;
}

static int64_t day_in(const struct zone_day *day, int year)
{
    switch (day->kind) {
    case ZONE_DAY_OF_YEAR: return calendar_day(year, 1, 1) + day->day;
    case ZONE_DAY_JULIAN:
        return calendar_day(year, 1, 1) + day->day - 1 + (calendar_is_leap(year) && day->day >= 60);
    case ZONE_DAY_WEEK: break;
    }
    int64_t first = calendar_day(year, day->month, 1);
    int to_weekday = (day->day - calendar_weekday(first) + 7) % 7;
    int in_month = to_weekday + (day->week - 1) * 7;

    while (in_month >= calendar_month_days(year, day->month))
        in_month -= 7;
    return first + in_month;
}

struct change {
    int64_t at;
    int32_t offset;
};

/* Summer time that lasts all year ends when it begins: then the end is first. */
static bool comes_after(const struct zone_rule *rule, const struct change *a,
                        const struct change *b)
{
    return a->at > b->at || (a->at == b->at && a->offset == rule->summer);
}

static void list_changes(const struct zone_rule *rule, int year, struct change changes[CHANGES])
{
    size_t n = 0;

    for (int y = year - 1; y <= year + 1; y++) {
        changes[n++] = (struct change){
            day_in(&rule->start, y) * CALENDAR_DAY + rule->start.time - rule->standard,
            rule->summer,
        };
        changes[n++] = (struct change){
            day_in(&rule->end, y) * CALENDAR_DAY + rule->end.time - rule->summer,
            rule->standard,
        };
    }
    for (size_t i = 1; i < CHANGES; i++) {
        for (size_t j = i; j > 0 && comes_after(rule, &changes[j - 1], &changes[j]); j--) {
            struct change later = changes[j - 1];

            changes[j - 1] = changes[j];
            changes[j] = later;
        }
    }
}

int32_t zone_rule_offset(const struct zone_rule *rule, int64_t at, int64_t *until)
{
    struct change changes[CHANGES] = {0};
    int32_t offset = rule->standard;
    int64_t second;

    *until = INT64_MAX;
    if (!rule->has_summer)
        return offset;
    list_changes(rule, calendar_date(calendar_day_of(at, &second)).year, changes);
    for (size_t i = 0; i < CHANGES; i++) {
        if (changes[i].at > at) {
            *until = changes[i].at;
            break;
        }
        offset = changes[i].offset;
    }
    return offset;
}
