#include "cli/scope.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/test.h"
#include "cli/testing.h"

TEST(the_project_is_a_literal_and_nothing_else)
{
    static const struct {
        const char *text, *project; /* NULL: none */
    } rows[] = {
        {"export default defineConfig({ project: \"main\", dirs: [] })", "main"     },
        {"defineConfig({ 'project' : 'single' })",                       "single"   },
        {"({ \"project\": \"quoted\" })",                                "quoted"   },
        {"({ project /* why */ : // here\n \"commented\" })",            "commented"},
        {"// project: \"no\"\n({ project: \"yes\" })",                   "yes"      },
        {"/* project: \"no\" */ ({ project: \"yes\" })",                 "yes"      },
        {"const s = \"project: 'no'\"; ({ project: \"yes\" })",          "yes"      },
        {"({ myproject: \"no\", project: \"yes\" })",                    "yes"      },
        {"({ project_: \"no\", $project: \"no\" })",                     NULL       },
        {"({ project: process.env.PROJECT })",                           NULL       },
        {"({ project: `template` })",                                    NULL       },
        {"({ project: \"esc\\u0061pe\" })",                              NULL       },
        {"({ project: \"open",                                           NULL       },
        {"({ project: \"\" })",                                          NULL       },
        {"project",                                                      NULL       },
        {"",                                                             NULL       },
        {"/* project: \"open\"",                                         NULL       },
        {"'\\",                                                          NULL       },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str found = {0};
        bool has = scope_literal(str_of(rows[i].text), &found);

        CHECK(has == (rows[i].project != NULL));
        CHECK(!has || str_equal(found, str_of(rows[i].project)));
    }
}

TEST(the_nearest_configuration_counts)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct error err;
    char root[TEMPORARY_TEXT];
    const char *directory, *file, *project;

    CHECK(temporary_make(root));
    const char *deep = arena_printf(&arena, "%s/a/b", root);
    CHECK(directory_make(deep, 0755, &err));
    CHECK(scope_find_config(deep, true, &arena, &directory, &file, &err) && !directory);
    CHECK(file_publish(arena_printf(&arena, "%s/helmr.config.mjs", root),
                       STR("export default { project: \"outer\" }"), 0644, &err));
    CHECK(scope_project(deep, &arena, &project, &err));
    CHECK_STR(project, "outer");
    CHECK(scope_find_config(deep, false, &arena, &directory, &file, &err) && !directory);
    CHECK(
        file_publish(arena_printf(&arena, "%s/a/helmr.config.ts", root), STR("({})"), 0644, &err));
    CHECK(scope_project(deep, &arena, &project, &err) && project == NULL);
    CHECK(scope_find_config(deep, true, &arena, &directory, &file, &err) && directory);
    CHECK_STR(file, "helmr.config.ts");
    CHECK(temporary_remove(root));
}

TEST(an_object_is_named_by_id_or_slug)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str object = STR("{\"id\":\"01981f4e-0000-7000-8000-00000000000a\",\"slug\":\"main\"}");

    CHECK(scope_names(object, "main", &arena));
    CHECK(scope_names(object, "01981F4E-0000-7000-8000-00000000000A", &arena));
    CHECK(!scope_names(object, "Main", &arena));
    CHECK(!scope_names(STR("{}"), "", &arena));
}

TEST_MAIN()
