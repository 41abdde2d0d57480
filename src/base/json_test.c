#include "base/json.h"

#include "base/test.h"

struct step {
    struct str name;
    int64_t size;
};

struct inner {
    struct str ttl;
    bool has_ttl;
};

struct sample {
    struct str task;
    int64_t count;
    double factor;
    bool is_fast;
    struct str payload;
    struct inner options;
    struct json_list tags, steps;
    struct json_map labels;
};

static const struct json_field step_fields[] = {
    {"name", JSON_TEXT, offsetof(struct step, name), REQUIRED, .max = 8},
    {"size", JSON_INTEGER, offsetof(struct step, size), OPTIONAL},
    {0},
};

static const struct json_field inner_fields[] = {
    {"ttl", JSON_TEXT, offsetof(struct inner, ttl), OPTIONAL, .max = 16,
     .present = offsetof(struct inner, has_ttl)},
    {0},
};

static const struct json_field fields[] = {
    {"task", JSON_TEXT, offsetof(struct sample, task), REQUIRED, .max = 8, .min = 1},
    {"count", JSON_INTEGER, offsetof(struct sample, count), OPTIONAL, .max = 10, .min = -10},
    {"factor", JSON_NUMBER, offsetof(struct sample, factor), OPTIONAL, .max = 5},
    {"is_fast", JSON_BOOL, offsetof(struct sample, is_fast), OPTIONAL},
    {"payload", JSON_RAW, offsetof(struct sample, payload), OPTIONAL, .max = 64},
    {"options", JSON_OBJ, offsetof(struct sample, options), OPTIONAL, .fields = inner_fields},
    {"tags", JSON_LIST, offsetof(struct sample, tags), OPTIONAL, .max = 3},
    {"steps", JSON_LIST, offsetof(struct sample, steps), OPTIONAL, .fields = step_fields,
     .size = sizeof(struct step)},
    {"labels", JSON_MAP, offsetof(struct sample, labels), OPTIONAL, .max = 2},
    {0},
};

static struct arena arena;
static struct sample sample;
static struct error err;

static bool read(const char *text)
{
    arena_finish(&arena);
    return json_read(str_of(text), fields, &sample, sizeof sample, &arena, &err);
}

TEST(a_full_document_fills_the_struct)
{
    CHECK(read(" {\"task\":\"hello\",\"count\":-3,\"factor\":1.5,\"is_fast\":true,"
               "\"payload\":{\"z\":[1,2.5,null],\"a\":\"\\u00e9\"},\"options\":{\"ttl\":\"90s\"},"
               "\"tags\":[\"x\",\"\"],\"steps\":[{\"name\":\"one\",\"size\":7},{\"name\":\"two\"}],"
               "\"labels\":{\"k\":\"v\"}}\n"));
    CHECK(str_equal(sample.task, STR("hello")) && sample.count == -3 && sample.factor == 1.5);
    CHECK(sample.is_fast && sample.options.has_ttl);
    CHECK(str_equal(sample.payload, STR("{\"z\":[1,2.5,null],\"a\":\"\xc3\xa9\"}")));
    CHECK(sample.tags.n == 2 && ((struct str *)sample.tags.items)[1].len == 0);

    const struct step *steps = sample.steps.items;

    CHECK(sample.steps.n == 2 && steps[0].size == 7 && str_equal(steps[1].name, STR("two")));
    CHECK(sample.labels.n == 1 && str_equal(sample.labels.pairs[0].value, STR("v")));
}

TEST(null_is_absent_except_for_a_raw_value)
{
    CHECK(read("{\"task\":\"t\",\"count\":null,\"payload\":null,\"options\":{\"ttl\":null}}"));
    CHECK(sample.count == 0 && !sample.options.has_ttl);
    CHECK(str_equal(sample.payload, STR("null")));
}

TEST(every_error_names_its_path_and_its_rule)
{
    static const struct {
        const char *text, *problem;
        enum error_code code;
    } rows[] = {
        {"{}",                                              "/task is required",                  ERR_INVALID      },
        {"[]",                                              "the document must be an object",     ERR_INVALID      },
        {"{\"task\":7}",                                    "/task must be text",                 ERR_INVALID      },
        {"{\"task\":null}",                                 "/task must be text",                 ERR_INVALID      },
        {"{\"task\":\"\"}",                                 "/task must be at least 1 bytes",     ERR_INVALID      },
        {"{\"task\":\"123456789\"}",                        "/task must be at most 8 bytes",      ERR_INVALID      },
        {"{\"task\":\"t\",\"count\":11}",                   "/count must be at most 10",          ERR_INVALID      },
        {"{\"task\":\"t\",\"count\":-11}",                  "/count must be at least -10",        ERR_INVALID      },
        {"{\"task\":\"t\",\"count\":1.5}",                  "/count must be an integer",          ERR_INVALID      },
        {"{\"task\":\"t\",\"count\":\"1\"}",                "/count must be an integer",          ERR_INVALID      },
        {"{\"task\":\"t\",\"factor\":\"1\"}",               "/factor must be a number",           ERR_INVALID      },
        {"{\"task\":\"t\",\"factor\":5.1}",                 "/factor must be at most 5",          ERR_INVALID      },
        {"{\"task\":\"t\",\"is_fast\":1}",                  "/is_fast must be true or false",     ERR_INVALID      },
        {"{\"task\":\"t\",\"options\":[]}",                 "/options must be an object",         ERR_INVALID      },
        {"{\"task\":\"t\",\"options\":{\"ttl\":5}}",        "/options/ttl must be text",          ERR_INVALID      },
        {"{\"task\":\"t\",\"options\":{\"x\":5}}",          "/options/x is not a known field",
         ERR_UNKNOWN_FIELD                                                                                         },
        {"{\"task\":\"t\",\"more\":1}",                     "/more is not a known field",         ERR_UNKNOWN_FIELD},
        {"{\"task\":\"t\",\"a\\nb\":1}",                    "/a?b is not a known field",          ERR_UNKNOWN_FIELD},
        {"{\"task\":\"t\",\"tags\":{}}",                    "/tags must be a list",               ERR_INVALID      },
        {"{\"task\":\"t\",\"tags\":[\"\",1]}",              "/tags/1 must be text",               ERR_INVALID      },
        {"{\"task\":\"t\",\"tags\":[\"\",\"\",\"\",\"\"]}", "/tags must be at most 3 items",
         ERR_INVALID                                                                                               },
        {"{\"task\":\"t\",\"steps\":[{\"size\":1}]}",       "/steps/0/name is required",          ERR_INVALID      },
        {"{\"task\":\"t\",\"steps\":[1]}",                  "/steps/0 must be an object",         ERR_INVALID      },
        {"{\"task\":\"t\",\"labels\":{\"k\":1}}",           "/labels/k must be text",             ERR_INVALID      },
        {"{\"task\":\"t\",\"labels\":[]}",                  "/labels must be an object of texts", ERR_INVALID      },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(!read(rows[i].text));
        CHECK_STR(err.text, rows[i].problem);
        CHECK(err.code == rows[i].code);
    }
    CHECK(!read("{\"task\":\"t\",\"payload\":\"0123456789012345678901234567890123456789"
                "01234567890123456789012345\"}"));
    CHECK_STR(err.text, "/payload must be at most 64 bytes of JSON");
}

TEST(what_is_not_strict_json_is_refused)
{
    static const char *const wrong[] = {
        "",
        " ",
        "{",
        "{\"task\":\"t\"} x",
        "{\"task\":\"t\"}{}",
        "{\"task\":\"t\",\"task\":\"u\"}",
        "{\"task\":\"t\",}",
        "{'task':'t'}",
        "{task:1}",
        "{\"task\":\"a\\u0000b\"}",
        "{\"task\":\"\xff\"}",
        "{\"task\":\"\\ud800\"}",
        "{\"task\":\"a\nb\"}",
        "{\"payload\":{\"a\":1,\"a\":2},\"task\":\"t\"}",
        "{\"count\":01,\"task\":\"t\"}",
        "{\"count\":1e999,\"task\":\"t\"}",
        "{\"count\":NaN,\"task\":\"t\"}",
        "\xef\xbb\xbf{}",
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        CHECK(!read(wrong[i]));
        CHECK(err.code == ERR_INVALID_JSON);
    }
}

TEST(depth_is_bounded_outside_of_texts_only)
{
    char text[600];

    memset(text, '[', 300);
    memset(text + 300, ']', 300);
    AUTO(buf_finish) struct buf out = {.max = 1000};
    CHECK(json_canonical((struct str){text + 300 - 128, 256}, 1000, &out, &err));
    CHECK(!json_canonical((struct str){text + 300 - 129, 258}, 1000, &out, &err));
    CHECK(err.code == ERR_INVALID_JSON);

    text[0] = '"';
    text[299] = '"';
    CHECK(json_canonical((struct str){text, 300}, 1000, &out, &err));
}

TEST(a_loose_reader_skips_what_it_does_not_know)
{
    CHECK(json_read_loose(STR("{\"task\":\"t\",\"new\":{\"deep\":[1]},\"options\":{\"x\":1}}"),
                          fields, &sample, sizeof sample, &arena, &err));
    CHECK(!json_read_loose(STR("{\"new\":1}"), fields, &sample, sizeof sample, &arena, &err));
}

static const char *canonical(const char *text)
{
    static struct buf out;

    buf_finish(&out);
    out.max = 1000;
    if (!json_canonical(str_of(text), 1000, &out, &err) ||
        !buf_append(&out, (struct str){"", 1}, &err))
        return err.text;
    return out.bytes;
}

TEST(a_raw_map_takes_any_values)
{
    static const struct json_field any_fields[] = {
        {"any", JSON_MAP, 0, REQUIRED, .is_raw = true},
        {0},
    };
    struct json_map map;

    arena_finish(&arena);
    CHECK(json_read(STR("{\"any\":{\"a.b/c\":{\"x\":[1, 2]},\"d\":null}}"), any_fields, &map,
                    sizeof map, &arena, &err));
    CHECK(map.n == 2);
    CHECK_STR(map.pairs[0].name.ptr, "a.b/c");
    CHECK(str_equal(map.pairs[0].value, STR("{\"x\":[1,2]}")));
    CHECK(str_equal(map.pairs[1].value, STR("null")));
    CHECK(!json_read(STR("{\"any\":[]}"), any_fields, &map, sizeof map, &arena, &err));
}

TEST(equal_values_have_one_canonical_text)
{
    CHECK_STR(canonical("{ \"b\" : 1, \"a\" : [ true, null ], \"B\":{} }"),
              "{\"B\":{},\"a\":[true,null],\"b\":1}");
    CHECK_STR(canonical("[1, 1.0, 10e-1, -0, -0.0]"), "[1,1,1,0,0]");
    CHECK_STR(canonical("[0.1, 1e21, 1.5e-7, 3.141592653589793]"),
              "[0.1,1e+21,1.5e-07,3.141592653589793]");
    CHECK_STR(canonical("[9223372036854775807, -9223372036854775808]"),
              "[9223372036854775807,-9223372036854775808]");
    CHECK_STR(canonical("[18446744073709551616, 7]"), "[1.8446744073709552e+19,7]");
    CHECK_STR(canonical("\"\\u00e9\\/\\n\\u2028\""), "\"\xc3\xa9/\\n\xe2\x80\xa8\"");
}

TEST(a_canonical_text_is_bounded)
{
    AUTO(buf_finish) struct buf out = {.max = 1000};

    CHECK(!json_canonical(STR("[1,2,3]"), 6, &out, &err) && err.code == ERR_TOO_LARGE);
    CHECK(out.len == 0);
    CHECK(json_canonical(STR("[1,2,3]"), 7, &out, &err));
}

TEST(a_look_into_a_document_follows_a_path)
{
    struct str text = STR("{\"run\":{\"id\":\"abc\",\"n\":5},\"events\":[{\"kind\":\"x\"},{}]}"),
               got;
    int64_t number;

    CHECK(json_find_text(text, "run.id", &arena, &got) && str_equal(got, STR("abc")));
    CHECK(json_find_int(text, "run.n", &number) && number == 5);
    CHECK(json_find_text(text, "events.0.kind", &arena, &got) && str_equal(got, STR("x")));
    CHECK(json_find_raw(text, "events.0", &arena, &got) && str_equal(got, STR("{\"kind\":\"x\"}")));
    CHECK(json_count(text, "events") == 2 && json_count(text, "run") == 2);
    CHECK(json_count(text, "run.id") == 0 && json_count(text, "nothing") == 0);
    CHECK(!json_find_text(text, "run.n", &arena, &got));
    CHECK(!json_find_text(text, "run.missing.deep", &arena, &got));
    CHECK(!json_find_text(text, "events.2.kind", &arena, &got));
    CHECK(!json_find_text(text, "events.x", &arena, &got));
    CHECK(!json_find_text(STR("broken"), "run", &arena, &got));
    CHECK(json_find_text(STR("\"whole\""), "", &arena, &got) && str_equal(got, STR("whole")));
}

TEST(the_writer_puts_commas_and_quotes)
{
    AUTO(buf_finish) struct buf out = {.max = 1000};
    struct json_writer writer = json_begin(&out);

    json_open(&writer, NULL);
    json_string(&writer, "id", "a\"b");
    json_string(&writer, "none", NULL);
    json_int(&writer, "n", INT64_MIN);
    json_bool(&writer, "yes", true);
    json_open_list(&writer, "list");
    json_int(&writer, NULL, 1);
    json_open(&writer, NULL);
    json_close(&writer);
    json_open_list(&writer, NULL);
    json_close_list(&writer);
    json_close_list(&writer);
    json_raw(&writer, "raw", STR("{\"x\":1}"));
    json_time(&writer, "at", 0);
    json_base64(&writer, "bytes", STR("foob"));
    json_text(&writer, "bad", STR("\xff"));
    json_close(&writer);
    CHECK(json_end(&writer, &err));
    CHECK(str_equal(buf_str(&out),
                    STR("{\"id\":\"a\\\"b\",\"none\":null,\"n\":-9223372036854775808,\"yes\":true,"
                        "\"list\":[1,{},[]],\"raw\":{\"x\":1},\"at\":\"1970-01-01T00:00:00.000Z\","
                        "\"bytes\":\"Zm9vYg==\",\"bad\":\"\xef\xbf\xbd\"}")));
    CHECK(json_canonical(buf_str(&out), 1000, &out, &err));
}

TEST(a_writer_over_its_maximum_says_so_once_at_the_end)
{
    AUTO(buf_finish) struct buf out = {.max = 10};
    struct json_writer writer = json_begin(&out);

    json_open_list(&writer, NULL);
    for (int i = 0; i < 100; i++)
        json_int(&writer, NULL, i);
    json_close_list(&writer);
    CHECK(!json_end(&writer, &err) && err.code == ERR_TOO_LARGE && out.len <= 10);
    arena_finish(&arena);
}

TEST_MAIN()
