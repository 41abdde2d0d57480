#include "base/log.h"

#include <stdio.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/time.h"

enum { VALUE_MAX = 1024, LINE_MAX_BYTES = 64 * 1024 };

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};

/* Set once before there are threads, only read after. */
static enum log_level least = LOG_INFO;
static enum log_format form = LOG_TEXT;
static char role_name[32];

void log_setup(enum log_level level, enum log_format format, const char *role)
{
    least = level;
    form = format;
    snprintf(role_name, sizeof role_name, "%s", role ? role : "");
}

bool log_level_parse(struct str name, enum log_level *level)
{
    for (size_t i = 0; i < COUNT_OF(level_names); i++) {
        if (str_equal(name, str_of(level_names[i]))) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_format_parse(struct str name, enum log_format *format)
{
    bool is_json = str_equal(name, STR("json"));

    if (!is_json && !str_equal(name, STR("text")))
        return false;
    *format = is_json ? LOG_JSON : LOG_TEXT;
    return true;
}

static bool needs_quotes(struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];

        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f)
            return true;
    }
    return value.len == 0;
}

/* A line over its limit loses its last fields, never its end. */
static void put(struct buf *line, struct str text)
{
    struct error ignored;

    (void)!buf_append(line, text, &ignored);
}

static void put_value(struct buf *line, struct str value)
{
    struct error ignored;

    if (value.len > VALUE_MAX)
        value.len = VALUE_MAX;
    if (form == LOG_JSON || needs_quotes(value))
        (void)!json_quote(line, value, &ignored);
    else
        put(line, value);
}

static void put_key(struct buf *line, const char *key)
{
    struct error ignored;

    if (form == LOG_TEXT) {
        put(line, line->len ? STR(" ") : STR(""));
        put(line, str_of(key));
        put(line, STR("="));
        return;
    }
    put(line, line->len ? STR(",") : STR("{"));
    (void)!json_quote(line, str_of(key), &ignored);
    put(line, STR(":"));
}

static void put_text(struct buf *line, const char *key, struct str value)
{
    put_key(line, key);
    put_value(line, value);
}

static void put_field(struct buf *line, const struct log_field *field)
{
    char number[24];
    size_t before = line->len;

    switch (field->kind) {
    case LOG_FIELD_TEXT: put_text(line, field->key, field->text); break;
    case LOG_FIELD_INT:
        snprintf(number, sizeof number, "%lld", (long long)field->number);
        put_key(line, field->key);
        put(line, str_of(number));
        break;
    }
    if (line->len + 16 > line->max)
        line->len = before;
}

/* One write per line: lines of several threads and processes never mix. */
static void flush(struct buf *line)
{
    put(line, form == LOG_JSON ? STR("}\n") : STR("\n"));
    (void)!write(STDERR_FILENO, line->bytes, line->len);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
    if (level < least)
        return;

    AUTO(buf_finish) struct buf line = {.max = LINE_MAX_BYTES};
    char now[TIME_TEXT_MAX];

    put_text(&line, "time", str_of(time_format(time_now_ms(), now)));
    put_text(&line, "level", str_of(level_names[level]));
    if (role_name[0])
        put_text(&line, "role", str_of(role_name));
    put_text(&line, "event", str_of(event));
    for (size_t i = 0; i < n; i++)
        put_field(&line, &fields[i]);
    flush(&line);
}
