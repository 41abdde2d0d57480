#include "base/time.h"

#include "base/test.h"

TEST(a_time_is_printed_in_utc_with_milliseconds)
{
    char text[TIME_TEXT_MAX];

    CHECK_STR(time_format(0, text), "1970-01-01T00:00:00.000Z");
    CHECK_STR(time_format(1794733433120, text), "2026-11-15T09:03:53.120Z");
    CHECK_STR(time_format(-1, text), "1969-12-31T23:59:59.999Z");
    CHECK_STR(time_format(253402300799999, text), "9999-12-31T23:59:59.999Z");
}

TEST(what_is_printed_is_read_back)
{
    char text[TIME_TEXT_MAX];
    struct error err;
    int64_t ms;

    for (int64_t at = -62135596800000; at < 253402300800000; at += 86400000LL * 31 + 12345) {
        CHECK(time_parse(str_of(time_format(at, text)), &ms, &err));
        CHECK(ms == at);
    }
}

TEST(every_offset_means_the_same_moment)
{
    static const char *const same[] = {
        "2026-11-15T09:03:53.120Z",      "2026-11-15t09:03:53.12z",
        "2026-11-15 10:03:53.120+01:00", "2026-11-15T03:33:53.1209-05:30",
        "2026-11-14T23:03:53.120-10:00",
    };
    struct error err;
    int64_t ms;

    for (size_t i = 0; i < COUNT_OF(same); i++) {
        CHECK(time_parse(str_of(same[i]), &ms, &err));
        CHECK(ms == 1794733433120);
    }
}

TEST(what_is_no_time_is_refused)
{
    static const char *const wrong[] = {
        "",
        "2026-11-15",
        "2026-11-15T09:03:53",
        "2026-11-15T09:03:53.Z",
        "2026-11-15T09:03:53.1234567890Z",
        "2026-13-15T09:03:53Z",
        "2026-02-29T09:03:53Z",
        "2026-00-10T09:03:53Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T09:60:53Z",
        "2026-11-15T09:03:61Z",
        "2026-11-15T09:03:53+24:00",
        "2026-11-15T09:03:53Zx",
        "26-11-15T09:03:53Z",
        "2026-11-15T09:03:53 Z",
        "+026-11-15T09:03:53Z",
    };
    struct error err;
    int64_t ms = 7;

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        CHECK(!time_parse(str_of(wrong[i]), &ms, &err));
        CHECK(err.code == ERR_INVALID && ms == 7);
    }
}

TEST(a_leap_day_exists_only_in_leap_years)
{
    struct error err;
    int64_t ms;

    CHECK(time_parse(STR("2024-02-29T00:00:00Z"), &ms, &err));
    CHECK(time_parse(STR("2000-02-29T00:00:00Z"), &ms, &err));
    CHECK(!time_parse(STR("2100-02-29T00:00:00Z"), &ms, &err));
}

TEST(a_date_is_eight_digits)
{
    char text[9];

    time_date(1794733433120, text);
    CHECK_STR(text, "20261115");
}

TEST(boot_time_goes_forward_in_both_units)
{
    int64_t before = time_boot_ns();

    CHECK(time_boot_ns() >= before);
    CHECK(time_boot_ms() >= before / 1000000);
}

TEST_MAIN()
