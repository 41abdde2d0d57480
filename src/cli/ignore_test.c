#include "cli/ignore.h"

#include "base/attr.h"
#include "base/test.h"

TEST(what_never_belongs_to_a_source_is_known_by_name)
{
    static const char *const out[] = {"node_modules", ".git",       ".helmr",  ".next",
                                      ".env",         ".env.local", ".env.a.b"};
    static const char *const in[] = {"node_module", "node_modules2", ".gitignore", "git", "env",
                                     ".envrc",      ".en",           "a.env",      "",    ".NEXT",
                                     ".env."};

    for (size_t i = 0; i < COUNT_OF(out); i++)
        CHECK(ignore_name(str_of(out[i])));
    for (size_t i = 0; i < COUNT_OF(in); i++)
        CHECK(!ignore_name(str_of(in[i])));
}

TEST(a_link_is_kept_when_its_words_never_leave_the_root)
{
    static const struct {
        const char *path, *target;
        bool stays;
    } rows[] = {
        {"a",     "b",            true },
        {"a",     "./b//c/.",     true },
        {"a/b/c", "../../d",      true },
        {"a/b/c", "..",           true },
        {"a/b/c", "../..",        true },
        {"a/b/c", "../../..",     false},
        {"a",     "..",           false},
        {"a",     "b/../../c",    false},
        {"a/b",   "../c/../../d", false},
        {"a",     "/etc/passwd",  false},
        {"a",     "",             false},
        {"a",     "..a",          true },
        {"a",     "...",          true },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool stays = ignore_link_stays_inside(str_of(rows[i].path), str_of(rows[i].target));

        CHECK(stays == rows[i].stays);
    }
}

TEST_MAIN()
