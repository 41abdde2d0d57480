/* Property: what is accepted has one canonical text, and that text is its own canonical text;
 * and reading by a table never accepts what canonical form refuses. */
#include "base/json.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sample {
    struct str text, raw;
    int64_t number;
    struct json_list list;
    struct json_map map;
};

static const struct json_field fields[] = {
    {"text", JSON_TEXT, offsetof(struct sample, text), OPTIONAL, .max = 64},
    {"raw", JSON_RAW, offsetof(struct sample, raw), OPTIONAL, .max = 256},
    {"number", JSON_INTEGER, offsetof(struct sample, number), OPTIONAL},
    {"list", JSON_LIST, offsetof(struct sample, list), OPTIONAL, .max = 8},
    {"map", JSON_MAP, offsetof(struct sample, map), OPTIONAL, .max = 8},
    {0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t max = 8 * size + 64;
    struct str text = {(const char *)data, size};
    AUTO(buf_finish) struct buf once = {.max = max};
    AUTO(buf_finish) struct buf twice = {.max = max};
    AUTO(arena_finish) struct arena arena = {0};
    struct sample sample;
    struct error err;
    bool is_json = json_canonical(text, max, &once, &err);

    if (json_read_loose(text, fields, &sample, sizeof sample, &arena, &err) && !is_json)
        abort();
    if (!is_json)
        return 0;
    if (!json_canonical(buf_str(&once), max, &twice, &err))
        abort();
    if (!str_equal(buf_str(&once), buf_str(&twice)))
        abort();
    return 0;
}
