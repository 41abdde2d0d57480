#include "base/log.h"

#include <stdio.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/time.h"

enum { VALUE_MAX = 1024, LINE_MAX_BYTES = 64 * 1024, END_ROOM = 8 };

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

struct line {
    struct buf bytes;
    bool is_full;
};

static void put(struct line *line, struct str text)
{
    struct error ignored;

    line->is_full = line->is_full || !buf_append(&line->bytes, text, &ignored);
}

static void put_quoted(struct line *line, struct str text)
{
    struct error ignored;

    line->is_full = line->is_full || !json_quote(&line->bytes, text, &ignored);
}

static void put_key(struct line *line, const char *key)
{
    bool is_first = line->bytes.len == 0;

    if (form == LOG_TEXT) {
        put(line, is_first ? STR("") : STR(" "));
        put(line, str_of(key));
        put(line, STR("="));
    } else {
        put(line, is_first ? STR("{") : STR(","));
        put_quoted(line, str_of(key));
        put(line, STR(":"));
    }
}

static void put_text(struct line *line, const char *key, struct str value)
{
    if (value.len > VALUE_MAX)
        value.len = VALUE_MAX;
    put_key(line, key);
    if (form == LOG_JSON || needs_quotes(value))
        put_quoted(line, value);
    else
        put(line, value);
}

/* A line that is full loses its last fields, never its end. */
static void put_field(struct line *line, const struct log_field *field)
{
    char number[24];
    size_t before = line->bytes.len;

    if (line->is_full)
        return;
    switch (field->kind) {
    case LOG_FIELD_TEXT: put_text(line, field->key, field->text); break;
    case LOG_FIELD_INT:
        snprintf(number, sizeof number, "%lld", (long long)field->number);
        put_key(line, field->key);
        put(line, str_of(number));
        break;
    }
    if (line->is_full)
        line->bytes.len = before;
}

/* One write per line: lines of several threads and processes never mix. */
static void flush(struct line *line)
{
    line->bytes.max += END_ROOM;
    line->is_full = false;
    put(line, form == LOG_JSON ? STR("}\n") : STR("\n"));
    (void)!write(STDERR_FILENO, line->bytes.bytes, line->bytes.len);
}

static void line_finish(struct line *line)
{
    buf_finish(&line->bytes);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
    if (level < least)
        return;

    AUTO(line_finish) struct line line = {.bytes.max = LINE_MAX_BYTES - END_ROOM};
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
