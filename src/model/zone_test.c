#include "model/zone.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/test.h"

TEST(names_cannot_leave_the_folder_of_zones)
{
    static const char *const good[] = {
        "UTC",       "Europe/Berlin", "America/Argentina/Buenos_Aires", "America/Port-au-Prince",
        "Etc/GMT+5", "EST5EDT",
    };
    static const char *const bad[] = {
        "",
        "/",
        "..",
        "../UTC",
        "Europe/../UTC",
        "Europe/",
        "/Europe/Berlin",
        "Europe//Berlin",
        "Europe/Berlin\n",
        "Europe/Ber lin",
        "zone.tab",
        "leapseconds",
        "posix/UTC",
        "right/UTC",
        "posixrules",
        "localtime",
        "A/B/C/D",
        "Europe/.",
        "C:UTC",
        "europe/berlin",
        "Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };

    for (size_t i = 0; i < COUNT_OF(good); i++)
        CHECK(zone_name_is_valid(str_of(good[i])));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!zone_name_is_valid(str_of(bad[i])));
    CHECK(!zone_name_is_valid((struct str){"UT\0C", 4}));
}

TEST(rules_in_the_form_of_posix_are_read)
{
    static const char *const good[] = {
        "UTC0",
        "EST5EDT,M3.2.0,M11.1.0",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        "IST-1GMT0,M10.5.0,M3.5.0/1",
        "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
        "AAA0BBB,J60/2,300/167",
        "ABC-5:30:15",
        "CET-1CEST,M3.5.0,M10.5.0/3",
    };
    static const char *const bad[] = {
        "",
        "U0",
        "UTC",
        "UTC0X",
        "EST5EDT",
        "EST5EDT,M3.2.0",
        "EST5EDT,M13.2.0,M11.1.0",
        "EST5EDT,M3.6.0,M11.1.0",
        "EST5EDT,M3.2.7,M11.1.0",
        "EST5EDT,J0,J1",
        "EST25",
        "UTC0:60",
        "<+03-3",
        "EST5EDT,M3.2.0/168,M11.1.0",
        "EST5EDT,M3.2.0,M11.1.0,",
        "EST5EDT,366,1",
        "EST99999999999999",
    };
    struct zone_rule rule;

    for (size_t i = 0; i < COUNT_OF(good); i++)
        CHECK(zone_rule_parse(str_of(good[i]), &rule));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!zone_rule_parse(str_of(bad[i]), &rule));
}

TEST(a_rule_says_when_it_changes)
{
    struct zone_rule rule;
    int64_t until;

    CHECK(zone_rule_parse(STR("EST5EDT,M3.2.0,M11.1.0"), &rule));
    /* 2026-03-08T07:00:00Z and 2026-11-01T06:00:00Z */
    CHECK(zone_rule_offset(&rule, 1772953199, &until) == -5 * 3600 && until == 1772953200);
    CHECK(zone_rule_offset(&rule, 1772953200, &until) == -4 * 3600 && until == 1793512800);
    CHECK(zone_rule_offset(&rule, 1793512800, &until) == -5 * 3600 && until == 1805007600);
}

TEST(summer_time_may_last_all_year)
{
    struct zone_rule rule;
    int64_t until;

    CHECK(zone_rule_parse(STR("XXX3EDT4,0/0,J365/23"), &rule));
    for (int64_t at = 1767225600; at < 1767225600 + 800 * INT64_C(86400); at += 86400)
        CHECK(zone_rule_offset(&rule, at, &until) == -4 * 3600);
}

static void add(struct buf *file, const void *bytes, size_t len)
{
    struct error err;

    if (!buf_append(file, (struct str){bytes, len}, &err))
        abort();
}

/* A file with one change and the rule given. */
static void write_file(struct buf *file, const char *rule, uint8_t type, int32_t offset)
{
    static const uint8_t counts[2][6] = {
        {0, 0, 0, 0, 1, 4},
        {0, 0, 0, 1, 2, 4},
    };
    const uint8_t change[] = {0, 0, 0, 0, 0x60, 0, 0, 0, type};
    uint8_t types[12] = {0};

    for (int i = 0; i < 4; i++)
        types[6 + i] = (uint8_t)((uint32_t)offset >> (24 - 8 * i));
    for (int block = 0; block < 2; block++) {
        add(file, "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
        for (int i = 0; i < 6; i++)
            add(file, (const uint8_t[]){0, 0, 0, counts[block][i]}, 4);
        add(file, change, block == 1 ? sizeof change : 0);
        add(file, types, block == 1 ? 12 : 6);
        add(file, "UTC", 4);
    }
    add(file, "\n", 1);
    add(file, rule, strlen(rule));
    add(file, "\n", 1);
}

static bool parses(struct arena *arena, const char *rule, uint8_t type, int32_t offset,
                   struct zone *zone)
{
    AUTO(buf_finish) struct buf file = {.max = 1024};
    struct error err;

    write_file(&file, rule, type, offset);
    return zone_parse(buf_str(&file), arena, zone, &err);
}

TEST(a_file_is_read_as_it_was_written)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct zone zone;

    CHECK(parses(&arena, "", 1, 3600, &zone));
    CHECK(zone_span(&zone, 0).offset == 0 && zone_span(&zone, 0).until == 0x60000000);
    CHECK(zone_span(&zone, 0x60000000).offset == 3600);
    CHECK(zone_span(&zone, 0x60000000).until == INT64_MAX);
    CHECK(parses(&arena, "CET-1CEST,M3.5.0,M10.5.0/3", 1, 3600, &zone));
    CHECK(zone_span(&zone, 1783000000).offset == 7200); /* July 2026 */
}

TEST(a_file_that_is_damaged_is_refused)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf file = {.max = 1024};
    struct zone zone;
    struct error err;

    CHECK(!parses(&arena, "nonsense", 1, 3600, &zone));
    CHECK(!parses(&arena, "UTC0", 2, 3600, &zone));      /* a type that is not there */
    CHECK(!parses(&arena, "UTC0", 1, 30 * 3600, &zone)); /* more than a day from UTC */
    write_file(&file, "UTC0", 1, 3600);
    for (size_t len = 0; len < buf_str(&file).len; len++)
        CHECK(!zone_parse((struct str){buf_str(&file).ptr, len}, &arena, &zone, &err));
    CHECK(err.code == ERR_TIMEZONE);
}

TEST(a_zeroed_zone_is_utc)
{
    struct zone utc = {0};

    CHECK(zone_span(&utc, 1783000000).offset == 0);
    CHECK(zone_instant(&utc, 1783000000) == 1783000000);
}

TEST_MAIN()
