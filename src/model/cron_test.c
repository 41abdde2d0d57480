#include "model/cron.h"

#include "base/arena.h"
#include "base/test.h"
#include "base/time.h"

static bool accepts(const char *text)
{
    struct cron cron;
    struct error err;

    return cron_parse(str_of(text), &cron, &err);
}

/* The first `n` matches from an instant on, as "2026-11-16T09:00 …". */
static const char *matches(struct arena *arena, const char *text, const char *from, int n)
{
    struct cron cron;
    struct error err;
    int64_t ms, at;
    char *all = arena_printf(arena, "%s", "");

    if (!cron_parse(str_of(text), &cron, &err))
        return arena_printf(arena, "%s", err.text);
    if (!time_parse(str_of(from), &ms, &err))
        return "bad test";
    at = ms / 1000;
    for (int i = 0; i < n; i++) {
        char found[TIME_TEXT_MAX];

        if (!cron_find(&cron, at, at + INT64_C(48) * 366 * 86400, &at))
            return arena_printf(arena, "%s none", all);
        all = arena_printf(arena, "%s%s%.16s", all, i ? " " : "", time_format(at * 1000, found));
        at += 60;
    }
    return all;
}

static const struct example {
    const char *cron, *want;
} examples[] = {
    {"* * * * *",             "2026-11-16T09:00 2026-11-16T09:01 2026-11-16T09:02"},
    {"*/20 * * * *",          "2026-11-16T09:00 2026-11-16T09:20 2026-11-16T09:40"},
    {"5-59/20 * * * *",       "2026-11-16T09:05 2026-11-16T09:25 2026-11-16T09:45"},
    {"7,3,5 * * * *",         "2026-11-16T09:03 2026-11-16T09:05 2026-11-16T09:07"},
    {"0 0 * * *",             "2026-11-17T00:00 2026-11-18T00:00 2026-11-19T00:00"},
    {"30 8 * * MON-FRI",      "2026-11-17T08:30 2026-11-18T08:30 2026-11-19T08:30"},
    {"30 8 * * fri-sun",      "2026-11-20T08:30 2026-11-21T08:30 2026-11-22T08:30"},
    {"30 8 * * 0",            "2026-11-22T08:30 2026-11-29T08:30 2026-12-06T08:30"},
    {"30 8 * * 7",            "2026-11-22T08:30 2026-11-29T08:30 2026-12-06T08:30"},
    {"0 12 1 JAN,Jul *",      "2027-01-01T12:00 2027-07-01T12:00 2028-01-01T12:00"},
    {"0 0 29 2 *",            "2028-02-29T00:00 2032-02-29T00:00 2036-02-29T00:00"},
    {"0 0 31 * *",            "2026-12-31T00:00 2027-01-31T00:00 2027-03-31T00:00"},
    /* either day where both are restricted */
    {"0 0 20 * 2",            "2026-11-17T00:00 2026-11-20T00:00 2026-11-24T00:00"},
    /* both where one begins with a star */
    {"0 0 */2 * 2",           "2026-11-17T00:00 2026-12-01T00:00 2026-12-15T00:00"},
    {"0 0 13 * *",            "2026-12-13T00:00 2027-01-13T00:00 2027-02-13T00:00"},
    {"\t 0  9-17/4 * * 1-5 ", "2026-11-16T09:00 2026-11-16T13:00 2026-11-16T17:00"},
    {"0 0 29 2 */6",          "2032-02-29T00:00 2048-02-29T00:00 2060-02-29T00:00"},
    {"59 23 31 12 *",         "2026-12-31T23:59 2027-12-31T23:59 2028-12-31T23:59"},
};

TEST(expressions_mean_what_cron_users_expect)
{
    AUTO(arena_finish) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(examples); i++)
        CHECK_STR(matches(&arena, examples[i].cron, "2026-11-16T09:00:00Z", 3), examples[i].want);
}

TEST(a_search_begins_at_the_next_whole_minute)
{
    AUTO(arena_finish) struct arena arena = {0};

    CHECK_STR(matches(&arena, "* * * * *", "2026-11-16T09:00:01Z", 1), "2026-11-16T09:01");
    CHECK_STR(matches(&arena, "* * * * *", "2026-11-16T23:59:59Z", 1), "2026-11-17T00:00");
}

TEST(every_number_must_be_in_its_range)
{
    static const char *const bad[] = {
        "60 * * * *",    "* 24 * * *",           "* * 0 * *",   "* * 32 * *",
        "* * * 0 *",     "* * * 13 *",           "* * * * 8",   "-1 * * * *",
        "1- * * * *",    "-- * * * *",           "5-1 * * * *", "*/0 * * * *",
        "*/60 * * * *",  "5/10 * * * *",         "*/ * * * *",  "*/2/3 * * * *",
        "1-2-3 * * * *", "999999999999 * * * *",
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!accepts(bad[i]));
}

TEST(what_is_not_five_fields_is_refused)
{
    static const char *const bad[] = {
        "",
        " ",
        "* * * *",
        "* * * * * *",
        "@daily",
        "* * L * *",
        "* * ? * *",
        "* * * * 5L",
        "* * * * 5#3",
        "* * 15W * *",
        ", * * * *",
        "1,,2 * * * *",
        "MON * * * *",
        "* * * MON *",
        "* * * * JAN",
        "* * * JANUARY *",
        "*\n* * * *",
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!accepts(bad[i]));
}

TEST(days_that_no_month_has_are_refused)
{
    CHECK(!accepts("0 0 30 2 *"));
    CHECK(!accepts("0 0 31 2,4,6,9,11 *"));
    CHECK(!accepts("0 0 30 2 */2"));
    CHECK(accepts("0 0 29 2 *"));
    CHECK(accepts("0 0 30 2 1")); /* Mondays of February */
}

TEST(a_refusal_says_what_is_wrong)
{
    struct cron cron;
    struct error err;

    CHECK(!cron_parse(STR("0 25 * * *"), &cron, &err));
    CHECK(err.code == ERR_CRON);
    CHECK_STR(err.text, "the hour \"25\" of the cron expression is out of range");
}

TEST(intervals_are_told_from_times_of_day)
{
    static const struct {
        const char *text;
        bool is_wild;
    } rows[] = {
        {"* * * * *",        true },
        {"*/5 3 * * *",      true },
        {"0 * * * *",        true },
        {"0 */2 * * *",      true },
        {"0-59 3 * * *",     true },
        {"0 0-23 * * *",     true },
        {"0 3 * * *",        false},
        {"0,30 1-5/2 * * *", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cron cron;
        struct error err;

        CHECK(cron_parse(str_of(rows[i].text), &cron, &err));
        CHECK(cron.is_wild == rows[i].is_wild);
    }
}

TEST_MAIN()
