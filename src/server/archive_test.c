#include "server/archive.h"

#include "base/test.h"

TEST(names_that_leave_the_project_are_not_safe)
{
    static const char *const safe[] = {"a", "a/b.ts", "./a", "dir/", "..a/b", "a/..b", ".env"};
    static const char *const unsafe[] = {"",       "/",    "/a",    "..",   "../a", "a/..",
                                         "a/../b", "a//b", "a/./b", "./..", "./"};
    for (size_t i = 0; i < COUNT_OF(safe); i++)
        CHECK(archive_path_is_safe(str_of(safe[i])));
    for (size_t i = 0; i < COUNT_OF(unsafe); i++)
        CHECK(!archive_path_is_safe(str_of(unsafe[i])));
    CHECK(!archive_path_is_safe(STR("a\0b")));
}

TEST_MAIN()
