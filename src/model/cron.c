#include "model/cron.h"

#include "model/calendar.h"

enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const char *const month_names[] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                          "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
static const char *const weekday_names[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

static const struct field {
    const char *name;
    int min, max;
    const char *const *names; /* of min, min + 1, … */
    size_t n_names;
} fields[FIELDS] = {
    [MINUTE] = {"minute",       0, 59, NULL,          0                      },
    [HOUR] = {"hour",         0, 23, NULL,          0                      },
    [DAY] = {"day of month", 1, 31, NULL,          0                      },
    [MONTH] = {"month",        1, 12, month_names,   COUNT_OF(month_names)  },
    [WEEKDAY] = {"day of week",  0, 7,  weekday_names, COUNT_OF(weekday_names)},
};

static bool refuse(const struct field *field, struct str text, const char *why, struct error *err)
{
    return error_set(err, ERR_CRON, "the %s \"%.*s\" of the cron expression %s", field->name,
                     text.len < 64 ? (int)text.len : 64, text.ptr, why);
}

static bool read_number(struct str text, int *value)
{
    *value = 0;
    if (text.len < 1 || text.len > 3)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *value = *value * 10 + (text.ptr[i] - '0');
    }
    return true;
}

static bool read_value(const struct field *field, struct str text, int *value, struct error *err)
{
    for (size_t i = 0; i < field->n_names; i++) {
        if (str_equal_nocase(text, str_of(field->names[i]))) {
            *value = field->min + (int)i;
            return true;
        }
    }
    if (!read_number(text, value))
        return refuse(field, text, "is no number", err);
    if (*value < field->min || *value > field->max)
        return refuse(field, text, "is out of range", err);
    return true;
}

struct range {
    int first, last, step;
    bool is_one; /* a single value, which takes no step */
};

static bool read_range(const struct field *field, struct str text, struct range *range,
                       struct error *err)
{
    struct str rest = text, from, to;

    *range = (struct range){.first = field->min, .last = field->max, .step = 1};
    if (str_equal(text, STR("*")))
        return true;
    if (!str_split(&rest, '-', &from) || !read_value(field, from, &range->first, err))
        return false;
    range->last = range->first;
    range->is_one = rest.ptr == NULL;
    if (!str_split(&rest, '-', &to))
        return true;
    if (rest.ptr)
        return refuse(field, text, "has more than two ends", err);
    if (!read_value(field, to, &range->last, err))
        return false;
    /* FRI-SUN ends in the Sunday after. */
    if (field == &fields[WEEKDAY] && range->last == 0 && range->first > 0)
        range->last = 7;
    return range->first <= range->last || refuse(field, text, "ends before it begins", err);
}

static bool read_item(const struct field *field, struct str text, uint64_t *values,
                      struct error *err)
{
    struct str rest = text, span, step;
    struct range range;

    if (!str_split(&rest, '/', &span) || !read_range(field, span, &range, err))
        return false;
    if (str_split(&rest, '/', &step)) {
        if (rest.ptr || range.is_one)
            return refuse(field, text, "has a step without a range, such as */5 or 10-40/5", err);
        if (!read_number(step, &range.step) || range.step < 1 || range.step > field->max)
            return refuse(field, text, "has a step that is out of range", err);
    }
    for (int value = range.first; value <= range.last; value += range.step)
        *values |= UINT64_C(1) << value;
    return true;
}

static bool read_field(const struct field *field, struct str text, uint64_t *values,
                       struct error *err)
{
    struct str rest = text, item;

    *values = 0;
    while (str_split(&rest, ',', &item))
        if (!read_item(field, item, values, err))
            return false;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Exactly five pieces between blanks. */
static bool split_fields(struct str text, struct str pieces[FIELDS], struct error *err)
{
    size_t at = 0, n = 0;

    if (text.len > CRON_TEXT_MAX)
        return error_set(err, ERR_CRON, "a cron expression has at most %d bytes", CRON_TEXT_MAX);
    for (;;) {
        while (at < text.len && is_blank(text.ptr[at]))
            at++;
        if (at == text.len)
            break;
        size_t begin = at;
        while (at < text.len && !is_blank(text.ptr[at]))
            at++;
        if (n < FIELDS)
            pieces[n] = (struct str){text.ptr + begin, at - begin};
        n++;
    }
    return n == FIELDS ||
           error_set(err, ERR_CRON,
                     "a cron expression has five fields: minute hour day month weekday");
}

static bool has(uint64_t values, int value)
{
    return values >> value & 1;
}

/* A day of a month that some year has. */
static bool can_happen(const struct cron *cron)
{
    static const int longest[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    if (cron->either_day)
        return true;
    for (int month = 1; month <= 12; month++)
        for (int day = 1; has(cron->months, month) && day <= longest[month - 1]; day++)
            if (has(cron->days, day))
                return true;
    return false;
}

static bool is_star(struct str text)
{
    return text.len && text.ptr[0] == '*';
}

/* Also when every value is written out. */
static bool is_every(const struct field *field, struct str text, uint64_t values)
{
    return is_star(text) || values == (UINT64_C(1) << (field->max + 1)) - 1;
}

bool cron_parse(struct str text, struct cron *cron, struct error *err)
{
    struct str pieces[FIELDS] = {0};
    struct cron made = {0};
    uint64_t *const values[FIELDS] = {&made.minutes, &made.hours, &made.days, &made.months,
                                      &made.weekdays};

    if (!split_fields(text, pieces, err))
        return false;
    for (size_t i = 0; i < FIELDS; i++)
        if (!read_field(&fields[i], pieces[i], values[i], err))
            return false;
    if (has(made.weekdays, 7))
        made.weekdays |= 1;
    made.either_day = !is_star(pieces[DAY]) && !is_star(pieces[WEEKDAY]);
    made.is_wild = is_every(&fields[MINUTE], pieces[MINUTE], made.minutes) ||
                   is_every(&fields[HOUR], pieces[HOUR], made.hours);
    if (!can_happen(&made))
        return error_set(err, ERR_CRON, "no month has such a day as the cron expression names");
    *cron = made;
    return true;
}

static bool day_matches(const struct cron *cron, struct date date, int64_t day)
{
    bool of_month = has(cron->days, date.day);
    bool of_week = has(cron->weekdays, calendar_weekday(day));

    return cron->either_day ? of_month || of_week : of_month && of_week;
}

static bool find_minute(const struct cron *cron, int from, int *found)
{
    for (int hour = from / 60; hour < 24; hour++) {
        if (!has(cron->hours, hour))
            continue;
        for (int minute = hour == from / 60 ? from % 60 : 0; minute < 60; minute++) {
            if (has(cron->minutes, minute)) {
                *found = hour * 60 + minute;
                return true;
            }
        }
    }
    return false;
}

bool cron_find(const struct cron *cron, int64_t from, int64_t end, int64_t *found)
{
    int64_t second, day = calendar_day_of(from + 59, &second);
    int minute = (int)(second / 60);

    while (day * CALENDAR_DAY < end) {
        struct date date = calendar_date(day);

        if (!has(cron->months, date.month)) {
            day += calendar_month_days(date.year, date.month) - date.day + 1;
        } else if (day_matches(cron, date, day) && find_minute(cron, minute, &minute)) {
            *found = day * CALENDAR_DAY + INT64_C(60) * minute;
            return *found < end;
        } else {
            day++;
        }
        minute = 0;
    }
    return false;
}
