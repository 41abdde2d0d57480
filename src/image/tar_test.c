#include "image/tar.h"

#include "base/test.h"
#include "image/glob.h"

static const struct {
    const char *raw, *path; /* NULL: refused */
} paths[] = {
    {"a/b",          "a/b"         },
    {"./a//b/./c/",  "a/b/c"       },
    {".",            ""            },
    {"./",           ""            },
    {"a/...",        "a/..."       },
    {"..a/b..",      "..a/b.."     },
    {"a b/\xc3\xa9", "a b/\xc3\xa9"},
    {"",             NULL          },
    {"/",            NULL          },
    {"/etc/passwd",  NULL          },
    {"..",           NULL          },
    {"a/../b",       NULL          },
    {"a/..",         NULL          },
    {"./../a",       NULL          },
};

TEST(paths_are_made_canonical_or_refused)
{
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        char path[TAR_PATH];
        struct error err;
        bool ok = tar_path(str_of(paths[i].raw), path, &err);
        CHECK(ok == (paths[i].path != NULL));
        if (ok)
            CHECK_STR(path, paths[i].path);
        else
            CHECK(err.code == ERR_ARCHIVE_INVALID);
    }
}

TEST(paths_are_bounded)
{
    char raw[8192], path[TAR_PATH];
    struct error err;

    memset(raw, 'a', sizeof raw);
    CHECK(tar_path((struct str){raw, 255}, path, &err));
    CHECK(!tar_path((struct str){raw, 256}, path, &err));
    for (size_t i = 255; i < sizeof raw; i += 256)
        raw[i] = '/';
    CHECK(tar_path((struct str){raw, 4094}, path, &err));
    CHECK(!tar_path((struct str){raw, 4200}, path, &err));
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = i % 2 ? '/' : 'a';
    CHECK(tar_path((struct str){raw, 511}, path, &err));
    CHECK(!tar_path((struct str){raw, 513}, path, &err));
    CHECK(!tar_path((struct str){"a\0b", 3}, path, &err));
}

static const struct {
    const char *path;
    enum tar_marker marker;
    const char *hidden;
} markers[] = {
    {"a/b",            TAR_PLAIN,       NULL  },
    {".wha",           TAR_PLAIN,       NULL  },
    {"a/.wh.b",        TAR_WHITEOUT,    "b"   },
    {".wh.b",          TAR_WHITEOUT,    "b"   },
    {".wh.x/b",        TAR_PLAIN,       NULL  },
    {"a/.wh..wh..opq", TAR_OPAQUE,      NULL  },
    {".wh..wh.plnk",   TAR_BOOKKEEPING, NULL  },
    {"a/.wh.",         TAR_BAD_MARKER,  NULL  },
    {"a/.wh..",        TAR_BAD_MARKER,  NULL  },
    {"a/.wh...",       TAR_BAD_MARKER,  NULL  },
    {"a/.wh.....",     TAR_WHITEOUT,    "...."},
};

TEST(markers_are_told_from_files)
{
    for (size_t i = 0; i < COUNT_OF(markers); i++) {
        const char *hidden;
        CHECK(tar_marker(markers[i].path, &hidden) == markers[i].marker);
        CHECK((hidden != NULL) == (markers[i].hidden != NULL));
        if (hidden)
            CHECK_STR(hidden, markers[i].hidden);
    }
}

TEST(a_link_stays_inside_by_its_text)
{
    CHECK(tar_link_stays_inside("a/b/c", STR("../../d")));
    CHECK(tar_link_stays_inside("a", STR("b/../c")));
    CHECK(!tar_link_stays_inside("a/b/c", STR("../../../d")));
    CHECK(!tar_link_stays_inside("a", STR("..")));
    CHECK(!tar_link_stays_inside("a", STR("b/../../a/b")));
    CHECK(!tar_link_stays_inside("a", STR("/etc")));
    CHECK(!tar_link_stays_inside("a", STR("")));
}

TEST(a_budget_is_spent_once)
{
    struct tar_budget budget = {100, 2};
    struct error err;

    CHECK(tar_spend(&budget, 60, &err));
    CHECK(!tar_spend(&budget, 41, &err) && err.code == ERR_ARCHIVE_TOO_LARGE);
    CHECK(!tar_spend(&budget, -1, &err) && err.code == ERR_ARCHIVE_INVALID);
    CHECK(tar_spend(&budget, 40, &err));
    CHECK(!tar_spend(&budget, 0, &err) && err.code == ERR_ARCHIVE_TOO_LARGE);
    CHECK(tar_ratio_is_sane(1, 64 << 20));
    CHECK(!tar_ratio_is_sane(1000, 65 << 20));
    CHECK(tar_ratio_is_sane(1 << 20, 65 << 20));
}

static const struct {
    const char *pattern, *path;
    bool matches;
} globs[] = {
    {"docs/",   "docs",      true },
    {"docs/",   "docs/a",    false},
    {"*.md",    "a.md",      true },
    {"*.md",    "b/a.md",    false},
    {"**/*.md", "a.md",      true },
    {"**/*.md", "b/c/a.md",  true },
    {"**/*.md", "b/c/a.mdx", false},
    {"b/**",    "b/c/d",     true },
    {"b/**",    "b",         false},
    {"b/**/d",  "b/d",       true },
    {"b/**/d",  "b/x/y/d",   true },
    {"b/**/d",  "b/xd",      false},
    {"?.ts",    "a.ts",      true },
    {"?.ts",    "/.ts",      false},
    {"./dist",  "dist",      true },
    {"dist",    "x/dist",    false},
    {"a*b*c",   "aXbYc",     true },
    {"a*b*c",   "aXbY",      false},
    {"",        "",          true },
    {"*",       "",          true },
    {"**/_*.*", "x/_a.ts",   true },
    {"**/_*.*", "x/a_.ts",   false},
    {"**/a",    "//a",       false},
};

TEST(globs_match_as_people_expect)
{
    for (size_t i = 0; i < COUNT_OF(globs); i++) {
        bool matches = glob_match(str_of(globs[i].pattern), str_of(globs[i].path));
        if (matches != globs[i].matches)
            printf("# %s against %s\n", globs[i].pattern, globs[i].path);
        CHECK(matches == globs[i].matches);
    }
}

TEST(a_hostile_glob_ends)
{
    char path[4096];

    memset(path, 'a', sizeof path);
    CHECK(!glob_match(STR("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"),
                      (struct str){path, sizeof path}));
}

TEST_MAIN()
