#include "model/permission.h"

#include "base/attr.h"
#include "base/test.h"

TEST(exactly_twenty_two_can_be_granted_to_a_key)
{
    int n = 0;

    for (enum permission p = 0; p < PERM_COUNT; p++)
        n += permission_is_grantable(p);
    CHECK(n == 22);
    CHECK(!permission_is_grantable(PERM_UNSET) && !permission_is_grantable(PERM_PUBLIC));
    CHECK(!permission_is_grantable(PERM_WORKER) && !permission_is_grantable(PERM_MEMBERS_MANAGE));
}

TEST(every_name_reads_back_and_nothing_else_does)
{
    enum permission back;

    for (enum permission p = 0; p < PERM_COUNT; p++) {
        if (permission_name(p)[0])
            CHECK(permission_parse(str_of(permission_name(p)), &back) && back == p);
    }
    CHECK(!permission_parse(STR(""), &back));
    CHECK(!permission_parse(STR("runs"), &back) && !permission_parse(STR("Runs:read"), &back));
}

/* o owner, a admin, d developer, v viewer */
TEST(the_roles_allow_what_the_table_says)
{
    static const struct {
        const char *permission, *roles;
    } rows[] = {
        {"runs:create",                "oad" },
        {"runs:manage",                "oad" },
        {"runs:read",                  "oadv"},
        {"session-streams:read",       "oadv"},
        {"session-input:send",         "oad" },
        {"session-output:append",      "oad" },
        {"tokens:read",                "oadv"},
        {"tokens:create",              "oad" },
        {"tokens:complete",            "oad" },
        {"tokens:cancel",              "oad" },
        {"secrets:write",              "oa"  },
        {"tasks:deploy",               "oad" },
        {"workspace-files:read",       "oadv"},
        {"workspace-versions:read",    "oadv"},
        {"workspace-exec:read",        "oadv"},
        {"workspace-pty:read",         "oadv"},
        {"workspace-lifecycle:manage", "oad" },
        {"workspace-files:write",      "oad" },
        {"workspace-exec:create",      "oad" },
        {"workspace-exec:manage",      "oad" },
        {"workspace-pty:create",       "oad" },
        {"workspace-pty:manage",       "oad" },
        {"projects:manage",            "oa"  },
        {"api-keys:manage",            "oa"  },
        {"workers:manage",             "oa"  },
        {"members:manage",             "oa"  },
        {"audit:read",                 "oa"  },
    };
    size_t named = 0;

    for (enum permission p = 0; p < PERM_COUNT; p++)
        named += permission_name(p)[0] != '\0';
    CHECK(named == COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        enum permission permission;

        CHECK(permission_parse(str_of(rows[i].permission), &permission));
        for (enum role role = 0; role < ROLE_COUNT; role++) {
            bool is_listed = strchr(rows[i].roles, role_name(role)[0]);

            CHECK(role_allows(role, permission) == is_listed);
        }
    }
}

TEST(no_role_has_what_only_a_worker_has)
{
    for (enum role role = 0, back; role < ROLE_COUNT; role++) {
        CHECK(!role_allows(role, PERM_UNSET) && !role_allows(role, PERM_WORKER));
        CHECK(role_allows(role, PERM_SESSION) && role_allows(role, PERM_PUBLIC));
        CHECK(role_parse(str_of(role_name(role)), &back) && back == role);
    }
}

TEST_MAIN()
