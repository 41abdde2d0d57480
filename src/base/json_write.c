/* The streaming writer of base/json.h. */
#include <stdio.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/time.h"

struct json_writer json_begin(struct buf *out)
{
    return (struct json_writer){.out = out};
}

bool json_end(struct json_writer *writer, struct error *err)
{
    if (writer->failed)
        *err = writer->err;
    return !writer->failed;
}

static void put(struct json_writer *writer, struct str text)
{
    if (!writer->failed)
        writer->failed = !buf_append(writer->out, text, &writer->err);
}

static void put_quoted(struct json_writer *writer, struct str text)
{
    if (!writer->failed)
        writer->failed = !json_quote(writer->out, text, &writer->err);
}

/* What stands before a value: a comma after another one, and its name inside an object. */
static void lead(struct json_writer *writer, const char *name)
{
    if (writer->comma)
        put(writer, STR(","));
    if (name) {
        put_quoted(writer, str_of(name));
        put(writer, STR(":"));
    }
    writer->comma = true;
}

static void open_with(struct json_writer *writer, const char *name, struct str bracket)
{
    lead(writer, name);
    put(writer, bracket);
    writer->comma = false;
}

static void close_with(struct json_writer *writer, struct str bracket)
{
    put(writer, bracket);
    writer->comma = true;
}

void json_open(struct json_writer *writer, const char *name)
{
    open_with(writer, name, STR("{"));
}

void json_close(struct json_writer *writer)
{
    close_with(writer, STR("}"));
}

void json_open_list(struct json_writer *writer, const char *name)
{
    open_with(writer, name, STR("["));
}

void json_close_list(struct json_writer *writer)
{
    close_with(writer, STR("]"));
}

void json_raw(struct json_writer *writer, const char *name, struct str value)
{
    lead(writer, name);
    put(writer, value);
}

void json_text(struct json_writer *writer, const char *name, struct str value)
{
    lead(writer, name);
    put_quoted(writer, value);
}

void json_string(struct json_writer *writer, const char *name, const char *value)
{
    if (value)
        json_text(writer, name, str_of(value));
    else
        json_null(writer, name);
}

void json_int(struct json_writer *writer, const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)value);
    json_raw(writer, name, str_of(text));
}

void json_bool(struct json_writer *writer, const char *name, bool value)
{
    json_raw(writer, name, value ? STR("true") : STR("false"));
}

void json_null(struct json_writer *writer, const char *name)
{
    json_raw(writer, name, STR("null"));
}

void json_time(struct json_writer *writer, const char *name, int64_t ms)
{
    char text[TIME_TEXT_MAX];

    json_text(writer, name, str_of(time_format(ms, text)));
}

void json_base64(struct json_writer *writer, const char *name, struct str bytes)
{
    lead(writer, name);
    put(writer, STR("\""));
    if (!writer->failed)
        writer->failed = !base64_append(writer->out, bytes, &writer->err);
    put(writer, STR("\""));
}
