/* The process log: one line per event on stderr, `key=value` or JSON.
 *
 *     log_info("run leased", LOG_STR("run", id), LOG_INT("attempt", n));
 *
 * Values are quoted where needed and cut at 1 KiB, so no event can forge another.
 * There is no field kind for a struct secret: it cannot be printed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_field {
    const char *key;
    enum log_field_kind { LOG_FIELD_TEXT, LOG_FIELD_INT } kind;
    struct str text;
    int64_t number;
};

#define LOG_STR(key, value)   ((struct log_field){key, LOG_FIELD_TEXT, str_of(value), 0})
#define LOG_SLICE(key, value) ((struct log_field){key, LOG_FIELD_TEXT, value, 0})
#define LOG_INT(key, value)   ((struct log_field){key, LOG_FIELD_INT, {0}, (int64_t)(value)})
#define LOG_ERR(err)          ((struct log_field){"error", LOG_FIELD_TEXT, str_of((err)->text), 0})

/* Fields that every following line of this process carries, such as its role. */
void log_setup(enum log_level level, enum log_format format, const char *role);
bool log_level_parse(struct str name, enum log_level *level);
bool log_format_parse(struct str name, enum log_format *format); /* "text", "json" */

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);

#define LOG_AT(level, event, ...)                                                                 \
    log_write(level, event, (const struct log_field[]){{0}, ##__VA_ARGS__} + 1,                   \
              sizeof((const struct log_field[]){{0}, ##__VA_ARGS__}) / sizeof(struct log_field) - \
                  1)
#define log_debug(...) LOG_AT(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  LOG_AT(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  LOG_AT(LOG_WARN, __VA_ARGS__)
#define log_error(...) LOG_AT(LOG_ERROR, __VA_ARGS__)
