/* Schedules over real time zones, among them every kind of change that clocks make. */
#include "model/slot.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "base/time.h"

#define ZONES "/usr/share/zoneinfo/"

static bool load(struct arena *arena, const char *name, struct zone *zone)
{
    AUTO_FREE char *bytes = NULL;
    struct error err;
    size_t len;

    *zone = (struct zone){0};
    if (!zone_name_is_valid(str_of(name)) ||
        !file_read_bytes(arena_printf(arena, ZONES "%s", name), ZONE_FILE_MAX, &bytes, &len, &err))
        return false;
    return zone_parse((struct str){bytes, len}, arena, zone, &err);
}

static int64_t instant(const char *text)
{
    struct error err;
    int64_t ms;

    if (!time_parse(str_of(text), &ms, &err))
        abort();
    return ms;
}

/* The slots after an instant, in UTC. */
static const char *slots(struct arena *arena, const char *zone_name, const char *text,
                         const char *after, int n)
{
    char *all = arena_printf(arena, "%s", "");
    int64_t at = instant(after);
    struct zone zone;
    struct cron cron;
    struct error err;

    if (!load(arena, zone_name, &zone))
        return "no such zone";
    if (!cron_parse(str_of(text), &cron, &err))
        return "no such cron";
    for (int i = 0; i < n; i++) {
        char found[TIME_TEXT_MAX];

        if (!slot_next(&cron, &zone, at, &at))
            return arena_printf(arena, "%s none", all);
        all = arena_printf(arena, "%s%s%.16s", all, i ? " " : "", time_format(at, found));
    }
    return all;
}

static const struct example {
    const char *what, *zone, *cron, *after, *want;
} examples[] = {
    {"a day in winter",                           "Europe/Berlin",       "0 9 * * *",       "2026-01-10T00:00:00Z",
     "2026-01-10T08:00 2026-01-11T08:00 2026-01-12T08:00"                                                                                                               },
    {"a day in summer",                           "Europe/Berlin",       "0 9 * * *",       "2026-07-10T00:00:00Z",
     "2026-07-10T07:00 2026-07-11T07:00 2026-07-12T07:00"                                                                                                               },
    {"by the rule, long after the file ends",     "Europe/Berlin",       "0 9 * * *",       "2090-07-10T00:00:00Z",
     "2090-07-10T07:00 2090-07-11T07:00 2090-07-12T07:00"                                                                                                               },
    /* 2026-03-29: 02:00 becomes 03:00 in Berlin, at 01:00 UTC */
    {"a time in the gap comes at its end",        "Europe/Berlin",       "30 2 * * *",      "2026-03-28T12:00:00Z",
     "2026-03-29T01:00 2026-03-30T00:30 2026-03-31T00:30"                                                                                                               },
    {"several times in the gap come once",        "Europe/Berlin",       "0,15,30 2 * * *",
     "2026-03-29T00:30:00Z",                                                                                        "2026-03-29T01:00 2026-03-30T00:00 2026-03-30T00:15"},
    {"together with the time that ends it",       "Europe/Berlin",       "30 2,3 * * *",    "2026-03-29T00:30:00Z",
     "2026-03-29T01:00 2026-03-29T01:30 2026-03-30T00:30"                                                                                                               },
    {"the end itself is no second one",           "Europe/Berlin",       "0 2,3 * * *",     "2026-03-29T00:30:00Z",
     "2026-03-29T01:00 2026-03-30T00:00 2026-03-30T01:00"                                                                                                               },
    {"an interval goes on over the gap",          "Europe/Berlin",       "*/30 * * * *",    "2026-03-29T00:30:00Z",
     "2026-03-29T01:00 2026-03-29T01:30 2026-03-29T02:00"                                                                                                               },
    {"an hourly one too",                         "Europe/Berlin",       "15 * * * *",      "2026-03-28T23:30:00Z",
     "2026-03-29T00:15 2026-03-29T01:15 2026-03-29T02:15"                                                                                                               },
    {"an interval of an hour in the gap is none", "Europe/Berlin",       "*/30 2 * * *",
     "2026-03-28T12:00:00Z",                                                                                        "2026-03-30T00:00 2026-03-30T00:30 2026-03-31T00:00"},
    /* 2026-10-25: 03:00 becomes 02:00, at 01:00 UTC */
    {"a repeated time comes the first time",      "Europe/Berlin",       "30 2 * * *",      "2026-10-24T12:00:00Z",
     "2026-10-25T00:30 2026-10-26T01:30 2026-10-27T01:30"                                                                                                               },
    {"not again when asked in between",           "Europe/Berlin",       "30 2 * * *",      "2026-10-25T01:10:00Z",
     "2026-10-26T01:30 2026-10-27T01:30 2026-10-28T01:30"                                                                                                               },
    {"an interval goes through both hours",       "Europe/Berlin",       "*/30 * * * *",    "2026-10-25T00:00:00Z",
     "2026-10-25T00:30 2026-10-25T01:00 2026-10-25T01:30"                                                                                                               },
    {"an interval of a repeated hour, too",       "Europe/Berlin",       "*/30 2 * * *",    "2026-10-25T00:10:00Z",
     "2026-10-25T00:30 2026-10-25T01:00 2026-10-25T01:30"                                                                                                               },
    /* Lord Howe moves by half an hour: 2026-10-04 02:00 becomes 02:30 (15:30 UTC the day before),
     * 2026-04-05 02:00 becomes 01:30 (15:00 UTC the day before) */
    {"a gap of half an hour",                     "Australia/Lord_Howe", "15 2 * * *",      "2026-10-02T20:00:00Z",
     "2026-10-03T15:30 2026-10-04T15:15 2026-10-05T15:15"                                                                                                               },
    {"beside it",                                 "Australia/Lord_Howe", "45 2 * * *",      "2026-10-02T20:00:00Z",
     "2026-10-03T15:45 2026-10-04T15:45 2026-10-05T15:45"                                                                                                               },
    {"half an hour repeated",                     "Australia/Lord_Howe", "45 1 * * *",      "2026-04-03T20:00:00Z",
     "2026-04-04T14:45 2026-04-05T15:15 2026-04-06T15:15"                                                                                                               },
    {"an hourly one over half an hour",           "Australia/Lord_Howe", "0 * * * *",       "2026-10-03T14:00:00Z",
     "2026-10-03T14:30 2026-10-03T16:00 2026-10-03T17:00"                                                                                                               },
    {"and back",                                  "Australia/Lord_Howe", "45 * * * *",      "2026-04-04T14:00:00Z",
     "2026-04-04T14:45 2026-04-04T15:15 2026-04-04T16:15"                                                                                                               },
    /* midnight itself is skipped: 2026-04-24 */
    {"midnight in the gap",                       "Africa/Cairo",        "0 0 * * *",       "2026-04-22T23:00:00Z",
     "2026-04-23T22:00 2026-04-24T21:00 2026-04-25T21:00"                                                                                                               },
    {"a zone of quarter hours",                   "Asia/Kathmandu",      "0 6 * * *",       "2026-01-01T00:00:00Z",
     "2026-01-01T00:15 2026-01-02T00:15 2026-01-03T00:15"                                                                                                               },
    {"summer time that is negative",              "Europe/Dublin",       "0 9 * * *",       "2026-10-24T12:00:00Z",
     "2026-10-25T09:00 2026-10-26T09:00 2026-10-27T09:00"                                                                                                               },
    {"a whole day in the gap",                    "Pacific/Apia",        "0 12 * * *",      "2011-12-29T12:00:00Z",
     "2011-12-29T22:00 2011-12-30T10:00 2011-12-30T22:00"                                                                                                               },
    {"west of Greenwich",                         "America/New_York",    "30 2 * * *",      "2026-03-07T12:00:00Z",
     "2026-03-08T07:00 2026-03-09T06:30 2026-03-10T06:30"                                                                                                               },
    {"without a rule",                            "Etc/GMT+5",           "0 0 1 1 *",       "2026-06-01T00:00:00Z",
     "2027-01-01T05:00 2028-01-01T05:00 2029-01-01T05:00"                                                                                                               },
};

TEST(slots_are_right_in_real_zones)
{
    AUTO(arena_finish) struct arena arena = {0};

    if (access(ZONES "Europe/Berlin", R_OK) != 0)
        SKIP("there are no time zones in " ZONES);
    for (size_t i = 0; i < COUNT_OF(examples); i++) {
        const struct example *example = &examples[i];
        const char *got = slots(&arena, example->zone, example->cron, example->after, 3);

        if (strcmp(got, example->want) != 0)
            printf("# %s\n", example->what);
        CHECK_STR(got, example->want);
    }
}

/* Against a plain count of minutes: what the wall clock shows, minute by minute. */
static bool is_slot(const struct cron *cron, const struct zone *zone, int64_t at)
{
    int64_t local = at + zone_span(zone, at).offset, found;

    return cron_find(cron, local, local + 1, &found);
}

TEST(an_interval_is_exactly_what_the_wall_clock_shows)
{
    static const char *const zones[] = {"Europe/Berlin", "Australia/Lord_Howe", "America/Nuuk",
                                        "Africa/Casablanca"};
    AUTO(arena_finish) struct arena arena = {0};
    struct cron cron;
    struct error err;

    if (access(ZONES "Europe/Berlin", R_OK) != 0)
        SKIP("there are no time zones in " ZONES);
    CHECK(cron_parse(STR("*/7 1-4 * * *"), &cron, &err));
    for (size_t i = 0; i < COUNT_OF(zones); i++) {
        struct zone zone;
        int64_t next, begin = instant("2026-01-01T00:00:00Z") / 1000;

        CHECK(load(&arena, zones[i], &zone));
        CHECK(slot_next(&cron, &zone, begin * 1000, &next));
        for (int64_t at = begin + 60; at < begin + 366 * INT64_C(86400); at += 60) {
            if (!is_slot(&cron, &zone, at))
                continue;
            CHECK(next == at * 1000);
            CHECK(slot_next(&cron, &zone, next, &next));
        }
    }
}

TEST(a_time_of_day_comes_once_on_every_day)
{
    static const char *const zones[] = {"Europe/Berlin", "Australia/Lord_Howe", "America/New_York",
                                        "Asia/Beirut"};
    AUTO(arena_finish) struct arena arena = {0};
    struct cron cron;
    struct error err;

    if (access(ZONES "Europe/Berlin", R_OK) != 0)
        SKIP("there are no time zones in " ZONES);
    for (size_t i = 0; i < COUNT_OF(zones); i++) {
        struct zone zone;

        CHECK(load(&arena, zones[i], &zone));
        for (int minute = 0; minute < 24 * 60; minute += 15) {
            int64_t at = instant("2026-01-01T12:00:00Z"), end = instant("2027-01-01T12:00:00Z");
            int n = 0;

            CHECK(cron_parse(str_of(arena_printf(&arena, "%d %d * * *", minute % 60, minute / 60)),
                             &cron, &err));
            while (slot_next(&cron, &zone, at, &at) && at <= end)
                n++;
            CHECK(n == 365);
        }
    }
}

TEST(after_a_downtime_the_latest_slot_is_found)
{
    struct zone utc = {0};
    struct cron cron;
    struct error err;
    int64_t first = instant("2026-11-16T09:00:00Z");

    CHECK(cron_parse(STR("*/5 * * * *"), &cron, &err));
    CHECK(slot_latest(&cron, &utc, first, first - 1) == first);
    CHECK(slot_latest(&cron, &utc, first, first) == first);
    CHECK(slot_latest(&cron, &utc, first, first + 299999) == first);
    CHECK(slot_latest(&cron, &utc, first, instant("2026-11-16T09:12:00Z")) ==
          instant("2026-11-16T09:10:00Z"));
    CHECK(slot_latest(&cron, &utc, first, instant("2031-11-16T09:12:00Z")) ==
          instant("2031-11-16T09:10:00Z"));
    CHECK(cron_parse(STR("0 0 1 1 *"), &cron, &err));
    CHECK(slot_latest(&cron, &utc, instant("2020-01-01T00:00:00Z"),
                      instant("2026-11-16T09:12:00Z")) == instant("2026-01-01T00:00:00Z"));
}

TEST(the_end_of_time_has_no_slot)
{
    struct zone utc = {0};
    struct cron cron;
    struct error err;
    int64_t slot;

    CHECK(cron_parse(STR("* * * * *"), &cron, &err));
    CHECK(!slot_next(&cron, &utc, -1, &slot));
    CHECK(!slot_next(&cron, &utc, INT64_MAX, &slot));
}

TEST_MAIN()
