#include "base/findings.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/own.h"
#include "base/table.h"

enum { OUTPUT_MAX = 1024 * 1024 };

static const char *const level_names[] = {"ok", "warn", "fail"};

void findings_add(struct findings *findings, enum finding_level level, const char *check,
                  const char *cure, const char *fmt, ...)
{
    va_list args;

    if (findings->n == FINDINGS_MAX)
        return;
    struct finding *finding = &findings->items[findings->n++];
    finding->level = level;
    snprintf(finding->check, sizeof finding->check, "%s", check);
    snprintf(finding->cure, sizeof finding->cure, "%s", cure ? cure : "");
    va_start(args, fmt);
    vsnprintf(finding->detail, sizeof finding->detail, fmt, args);
    va_end(args);
}

bool findings_have_failure(const struct findings *findings)
{
    for (size_t i = 0; i < findings->n; i++) {
        if (findings->items[i].level == FINDING_FAIL)
            return true;
    }
    return false;
}

static bool print_json(const struct findings *findings, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = OUTPUT_MAX};
    struct json_writer writer = json_begin(&text);

    json_open(&writer, NULL);
    json_open_list(&writer, "checks");
    for (size_t i = 0; i < findings->n; i++) {
        const struct finding *finding = &findings->items[i];

        json_open(&writer, NULL);
        json_string(&writer, "level", level_names[finding->level]);
        json_string(&writer, "check", finding->check);
        json_string(&writer, "detail", finding->detail);
        if (finding->cure[0])
            json_string(&writer, "cure", finding->cure);
        json_close(&writer);
    }
    json_close_list(&writer);
    json_close(&writer);
    if (!json_end(&writer, err))
        return false;
    printf("%.*s\n", (int)text.len, text.bytes);
    return true;
}

bool findings_print(const struct findings *findings, bool as_json, struct error *err)
{
    static const char *const columns[] = {"RESULT", "CHECK", "DETAIL", "CURE"};
    AUTO(table_finish) struct table table;

    table_init(&table, columns, COUNT_OF(columns));
    if (as_json)
        return print_json(findings, err);
    for (size_t i = 0; i < findings->n; i++) {
        const struct finding *finding = &findings->items[i];
        const struct str cells[] = {str_of(level_names[finding->level]), str_of(finding->check),
                                    str_of(finding->detail), str_of(finding->cure)};

        table_row(&table, cells);
    }
    table_print(&table, stdout, isatty(STDOUT_FILENO));
    return true;
}
