#include "image/reference.h"

#include "base/test.h"
#include "image/recipe.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
    const char *text, *canonical; /* NULL: refused */
} rows[] = {
    {"node:24-bookworm-slim",           "docker.io/library/node:24-bookworm-slim"},
    {"node",                            "docker.io/library/node:latest"          },
    {"library/node:24",                 "docker.io/library/node:24"              },
    {"docker.io/node:24",               "docker.io/library/node:24"              },
    {"docker.io/library/node:24",       "docker.io/library/node:24"              },
    {"index.docker.io/library/node:24", "docker.io/library/node:24"              },
    {"user/tool",                       "docker.io/user/tool:latest"             },
    {"ghcr.io/user/tool:v1.2",          "ghcr.io/user/tool:v1.2"                 },
    {"localhost/tool",                  "localhost/tool:latest"                  },
    {"localhost:5000/a/b/c:x",          "localhost:5000/a/b/c:x"                 },
    {"127.0.0.1:5000/tool:x",           "127.0.0.1:5000/tool:x"                  },
    {"node@sha256:" HEX,                "docker.io/library/node@sha256:" HEX     },
    {"node:24@sha256:" HEX,             "docker.io/library/node:24@sha256:" HEX  },
    {"a.b-c.io/d__e/f---g:T_a.g-1",     "a.b-c.io/d__e/f---g:T_a.g-1"            },
    {"",                                NULL                                     },
    {":24",                             NULL                                     },
    {"@sha256:" HEX,                    NULL                                     },
    {"node:",                           NULL                                     },
    {"node:-24",                        NULL                                     },
    {"node:a b",                        NULL                                     },
    {"Node:24",                         NULL                                     },
    {"node@sha256:" HEX "0",            NULL                                     },
    {"node@sha256:ABCD",                NULL                                     },
    {"node@sha512:" HEX,                NULL                                     },
    {"a//b",                            NULL                                     },
    {"/node",                           NULL                                     },
    {"node/",                           NULL                                     },
    {"../node",                         NULL                                     },
    {"a..b/c",                          NULL                                     },
    {"localhost:0/a",                   NULL                                     },
    {"localhost:65536/a",               NULL                                     },
    {"localhost:x/a",                   NULL                                     },
    {"-a.io/b",                         NULL                                     },
    {"https://ghcr.io/a/b",             NULL                                     },
    {"node\n:24",                       NULL                                     },
};

TEST(short_names_are_completed_and_bad_ones_refused)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reference reference;
        struct error err;
        char text[REFERENCE_TEXT] = "";
        bool ok = reference_parse(str_of(rows[i].text), &reference, &err);
        if (ok)
            reference_format(&reference, text);
        if (ok != (rows[i].canonical != NULL))
            printf("# %s: %s\n", rows[i].text, ok ? text : err.text);
        CHECK(ok == (rows[i].canonical != NULL));
        if (ok)
            CHECK_STR(text, rows[i].canonical);
        else
            CHECK(err.code == ERR_INVALID);
    }
}

TEST(a_canonical_reference_means_itself)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reference reference;
        struct error err;
        char text[REFERENCE_TEXT];
        if (!rows[i].canonical)
            continue;
        CHECK(reference_parse(str_of(rows[i].canonical), &reference, &err));
        reference_format(&reference, text);
        CHECK_STR(text, rows[i].canonical);
    }
}

TEST(a_reference_that_is_too_long_is_refused)
{
    char text[600];
    struct reference reference;
    struct error err;

    memset(text, 'a', sizeof text);
    CHECK(!reference_parse((struct str){text, sizeof text}, &reference, &err));
    CHECK(!reference_parse((struct str){text, 470}, &reference, &err));
    CHECK(reference_parse((struct str){text, 200}, &reference, &err));
}

static const struct {
    const char *reference, *suite, *version; /* suite NULL: cannot be made here */
    int major;
} recipes[] = {
    {"node:24-bookworm-slim",          "bookworm", "24",      24},
    {"node:24",                        "bookworm", "24",      24},
    {"node:22.18.0-trixie-slim",       "trixie",   "22.18.0", 22},
    {"node:20.1-bullseye",             "bullseye", "20.1",    20},
    {"docker.io/library/node:20-slim", "bookworm", "20",      20},
    {"debian:bookworm",                "bookworm", "",        0 },
    {"debian:trixie-slim",             "trixie",   "",        0 },
    {"node:latest",                    NULL,       NULL,      0 },
    {"node:24-alpine",                 NULL,       NULL,      0 },
    {"node:24-slim-bookworm",          NULL,       NULL,      0 },
    {"node:24.1.2.3",                  NULL,       NULL,      0 },
    {"node:24.",                       NULL,       NULL,      0 },
    {"node:9999999-slim",              NULL,       NULL,      0 },
    {"node:8",                         NULL,       NULL,      0 },
    {"debian:sid",                     NULL,       NULL,      0 },
    {"debian:bookworm-backports",      NULL,       NULL,      0 },
    {"ubuntu:24.04",                   NULL,       NULL,      0 },
    {"ghcr.io/library/node:24",        NULL,       NULL,      0 },
    {"user/node:24",                   NULL,       NULL,      0 },
    {"node:24@sha256:" HEX,            NULL,       NULL,      0 },
};

TEST(only_debian_and_node_can_be_made_here)
{
    for (size_t i = 0; i < COUNT_OF(recipes); i++) {
        struct reference reference;
        struct recipe recipe;
        struct error err;
        CHECK(reference_parse(str_of(recipes[i].reference), &reference, &err));
        bool ok = recipe_find(&reference, &recipe, &err);
        if (ok != (recipes[i].suite != NULL))
            printf("# %s\n", recipes[i].reference);
        CHECK(ok == (recipes[i].suite != NULL));
        if (!ok) {
            CHECK(err.code == ERR_UNSUPPORTED && strstr(err.text, "node:<version>"));
            continue;
        }
        CHECK_STR(recipe.suite, recipes[i].suite);
        CHECK_STR(recipe.node_version, recipes[i].version);
        CHECK(recipe.node_major == recipes[i].major);
        CHECK(recipe.has_node == (recipes[i].major > 0));
    }
}

TEST_MAIN()
