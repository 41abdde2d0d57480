#include "model/duration.h"

#include <stdio.h>

#include "base/json.h"

/* Exact arithmetic: nine digits after the point, so one part is a billionth of a millisecond. */
typedef __int128 parts;

enum { FRACTION_DIGITS = 9, WHOLE_DIGITS = 15 };

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    {"d",  86400000},
    {"h",  3600000 },
    {"m",  60000   },
    {"s",  1000    },
    {"ms", 1       },
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t take_digits(struct str *rest, size_t max, int64_t *value)
{
    size_t n = 0;

    for (*value = 0; n < rest->len && n <= max && is_digit(rest->ptr[n]); n++) {
        if (n < max)
            *value = *value * 10 + (rest->ptr[n] - '0');
    }
    *rest = (struct str){rest->ptr + n, rest->len - n};
    return n;
}

/* A decimal in billionths. */
static bool take_decimal(struct str *rest, parts *value)
{
    int64_t whole, fraction = 0;
    size_t n = take_digits(rest, WHOLE_DIGITS, &whole), digits = 0;

    if (n < 1 || n > WHOLE_DIGITS)
        return false;
    if (rest->len && rest->ptr[0] == '.') {
        *rest = (struct str){rest->ptr + 1, rest->len - 1};
        digits = take_digits(rest, FRACTION_DIGITS, &fraction);
        if (digits < 1 || digits > FRACTION_DIGITS)
            return false;
    }
    for (; digits < FRACTION_DIGITS; digits++)
        fraction *= 10;
    *value = (parts)whole * 1000000000 + fraction;
    return true;
}

static bool take_unit(struct str *rest, int64_t *ms)
{
    size_t len = 0;

    while (len < rest->len && rest->ptr[len] >= 'a' && rest->ptr[len] <= 'z')
        len++;
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (str_equal((struct str){rest->ptr, len}, str_of(units[i].name))) {
            *ms = units[i].ms;
            *rest = (struct str){rest->ptr + len, rest->len - len};
            return true;
        }
    }
    return false;
}

static bool round_up(parts total, int64_t *ms)
{
    parts whole = (total + 999999999) / 1000000000;

    if (whole > DURATION_MAX_MS)
        return false;
    *ms = (int64_t)whole;
    return true;
}

static bool parse(struct str text, int64_t *ms)
{
    struct str rest = text;
    parts total = 0, value;
    int64_t unit;

    if (take_decimal(&rest, &value) && !rest.len)
        return round_up(value * 1000, ms);

    for (rest = text; rest.len;) {
        if (!take_decimal(&rest, &value) || !take_unit(&rest, &unit))
            return false;
        total += value * unit;
        if (total > (parts)DURATION_MAX_MS * 1000000000)
            return false;
    }
    return text.len && round_up(total, ms);
}

bool duration_parse(struct str text, int64_t *ms, struct error *err)
{
    if (text.len <= 64 && parse(text, ms))
        return true;
    return error_set(err, ERR_INVALID,
                     "\"%.*s\" is no duration such as 90s, 1h30m or a number of seconds",
                     text.len < 64 ? (int)text.len : 64, text.ptr ? text.ptr : "");
}

struct duration_object {
    struct str parts[COUNT_OF(units)];
};

static const struct json_field object_fields[] = {
    {"days", JSON_RAW, offsetof(struct duration_object, parts[0]), OPTIONAL, .max = 32},
    {"hours", JSON_RAW, offsetof(struct duration_object, parts[1]), OPTIONAL, .max = 32},
    {"minutes", JSON_RAW, offsetof(struct duration_object, parts[2]), OPTIONAL, .max = 32},
    {"seconds", JSON_RAW, offsetof(struct duration_object, parts[3]), OPTIONAL, .max = 32},
    {"milliseconds", JSON_RAW, offsetof(struct duration_object, parts[4]), OPTIONAL, .max = 32},
    {0},
};

static bool read_object(struct str json, struct arena *arena, int64_t *ms, struct error *err)
{
    struct duration_object object;
    parts total = 0, value;

    if (!json_read(json, object_fields, &object, sizeof object, arena, err))
        return false;
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        struct str rest = object.parts[i];

        if (!rest.len)
            continue;
        if (!take_decimal(&rest, &value) || rest.len)
            return error_set(err, ERR_INVALID, "/%s must be a number, not below 0",
                             object_fields[i].name);
        total += value * units[i].ms;
    }
    return round_up(total, ms) || error_set(err, ERR_INVALID, "the duration is too long");
}

bool duration_read(struct str json, int64_t *ms, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str text;

    if (json.len && json.ptr[0] == '{')
        return read_object(json, &arena, ms, err);
    if (json_find_text(json, "", &arena, &text))
        return duration_parse(text, ms, err);
    return duration_parse(json, ms, err);
}

char *duration_format(int64_t ms, char text[DURATION_TEXT])
{
    size_t len = 0;

    snprintf(text, DURATION_TEXT, "0s");
    for (size_t i = 0; i < COUNT_OF(units) && ms > 0; i++) {
        if (ms < units[i].ms)
            continue;
        len += (size_t)snprintf(text + len, DURATION_TEXT - len, "%lld%s",
                                (long long)(ms / units[i].ms), units[i].name);
        ms %= units[i].ms;
    }
    return text;
}
