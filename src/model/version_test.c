#include "model/version.h"

#include "base/attr.h"
#include "base/test.h"
#include "model/grade.h"
#include "model/queue_score.h"

TEST(a_version_is_a_date_and_a_count)
{
    char text[VERSION_TEXT], date[VERSION_DATE];
    int64_t n;

    CHECK_STR(version_format(1794733433120, 12, text), "20261115.12");
    CHECK(version_parse(STR("20261115.12"), date, &n) && n == 12);
    CHECK_STR(date, "20261115");
}

TEST(what_is_no_version_is_refused)
{
    static const char *const wrong[] = {"",
                                        "20261115",
                                        "20261115.",
                                        "20261115.0",
                                        "20261115.01",
                                        "20261315.1",
                                        "20260230.1",
                                        "2026111.1",
                                        "20261115.1x",
                                        "2026-11-15.1",
                                        "20261115.1234567890",
                                        " 20261115.1",
                                        "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"};
    char date[VERSION_DATE];
    int64_t n;

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK(!version_parse(str_of(wrong[i]), date, &n));
}

TEST(priority_makes_a_run_older)
{
    CHECK(queue_score(1000000, 0) == 1000000);
    CHECK(queue_score(1000000, 60) == 940000);
    CHECK(queue_score(1000000, -60) > queue_score(1059999, 0));
    CHECK(priority_is_valid(86400) && priority_is_valid(-86400));
    CHECK(!priority_is_valid(86401) && !priority_is_valid(-86401));
}

TEST(engines_have_grades_and_grades_have_an_order)
{
    CHECK_STR(grade_name(grade_of_engine(ENGINE_FIRECRACKER)), "microvm");
    CHECK_STR(grade_name(grade_of_engine(ENGINE_QEMU)), "microvm");
    CHECK_STR(grade_name(grade_of_engine(ENGINE_GVISOR)), "user-kernel");
    CHECK_STR(grade_name(grade_of_engine(ENGINE_CONTAINER)), "shared-kernel");
    CHECK(grade_meets(GRADE_MICROVM, GRADE_USER_KERNEL));
    CHECK(grade_meets(GRADE_USER_KERNEL, GRADE_USER_KERNEL));
    CHECK(!grade_meets(GRADE_SHARED_KERNEL, GRADE_USER_KERNEL));
    for (enum grade g = 0, back; g < GRADE_COUNT; g++)
        CHECK(grade_parse(str_of(grade_name(g)), &back) && back == g);
    for (enum engine_kind e = 0, back; e < ENGINE_KIND_COUNT; e++)
        CHECK(engine_kind_parse(str_of(engine_kind_name(e)), &back) && back == e);
}

TEST_MAIN()
