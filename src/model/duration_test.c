#include "model/duration.h"

#include "base/test.h"

static struct error err;

TEST(every_form_of_the_grammar_is_read)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"90s",        90000      },
        {"1h30m",      5400000    },
        {"1.5h",       5400000    },
        {"7d",         604800000  },
        {"250ms",      250        },
        {"1m500ms",    60500      },
        {"0s",         0          },
        {"0",          0          },
        {"45",         45000      },
        {"1.5",        1500       },
        {"0.0001s",    1          },
        {"0.1ms",      1          },
        {"0.5ms0.5ms", 1          },
        {"1.0000001s", 1001       },
        {"30m1h",      5400000    },
        {"365d",       31536000000},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms;

        CHECK(duration_parse(str_of(rows[i].text), &ms, &err));
        CHECK(ms == rows[i].ms);
    }
}

TEST(what_is_no_duration_is_refused)
{
    static const char *const wrong[] = {
        "",
        " 1s",
        "1s ",
        "-1s",
        "+1s",
        "1.s",
        ".5s",
        "1h30",
        "s",
        "1x",
        "1 h",
        "1S",
        "1e3",
        "0x10",
        "1.5.5s",
        "1hh",
        "1min",
        "1msm",
        "1,5s",
        "NaN",
        "inf",
        "1234567890123456s",
        "1.1234567890s",
        "999999999999999d",
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        int64_t ms = 77;

        CHECK(!duration_parse(str_of(wrong[i]), &ms, &err));
        CHECK(ms == 77 && err.code == ERR_INVALID);
    }
}

TEST(json_gives_text_numbers_and_objects)
{
    static const struct {
        const char *json;
        int64_t ms;
    } rows[] = {
        {"\"90s\"",                                                     90000   },
        {"90",                                                          90000   },
        {"0.5",                                                         500     },
        {"{}",                                                          0       },
        {"{\"hours\":1,\"minutes\":30}",                                5400000 },
        {"{\"days\":1,\"hours\":1,\"seconds\":1.5,\"milliseconds\":1}", 90001501},
    };
    static const char *const wrong[] = {
        "null",           "true", "[]", "\"\"", "{\"weeks\":1}", "{\"hours\":\"1\"}",
        "{\"hours\":-1}", "-5",   ""};
    int64_t ms;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(duration_read(str_of(rows[i].json), &ms, &err));
        CHECK(ms == rows[i].ms);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK(!duration_read(str_of(wrong[i]), &ms, &err));
}

TEST(a_printed_duration_reads_back)
{
    char text[DURATION_TEXT];
    int64_t back;

    CHECK_STR(duration_format(0, text), "0s");
    CHECK_STR(duration_format(5400000, text), "1h30m");
    CHECK_STR(duration_format(90061001, text), "1d1h1m1s1ms");
    for (int64_t ms = 1; ms < DURATION_MAX_MS; ms = ms * 3 + 1) {
        CHECK(duration_parse(str_of(duration_format(ms, text)), &back, &err));
        CHECK(back == ms);
    }
}

TEST_MAIN()
