#include "guest/user.h"

#include "base/attr.h"
#include "base/test.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
                             "short:x:5\n"
                             "bad:x:x:1::/bad:/bin/sh\n"
                             "ann:x:1000:1001:Ann,,,:/home/ann:/bin/zsh\n"
                             "bare:x:1002:1002:::\n"
                             "last:x:1003:1003::/last:/bin/sh";
static const char group[] = "root:x:0:\nann:x:1001:\nwheel:x:70:bob,ann\naudio:x:29:annette,ann\n"
                            "broken:x:y:ann\n";

static bool find(const char *spec, struct user *user)
{
    struct error err;

    return user_find(str_of(passwd), str_of(group), str_of(spec), user, &err);
}

TEST(every_form_of_an_image_user_is_resolved)
{
    static const struct {
        const char *spec;
        uid_t uid;
        gid_t gid;
        size_t n_groups;
        const char *home, *shell;
    } rows[] = {
        {"",           0,    0,    0, "/root",     "/bin/bash"},
        {"root",       0,    0,    0, "/root",     "/bin/bash"},
        {"ann",        1000, 1001, 2, "/home/ann", "/bin/zsh" },
        {"1000",       1000, 1001, 2, "/home/ann", "/bin/zsh" },
        {"ann:wheel",  1000, 70,   0, "/home/ann", "/bin/zsh" },
        {"ann:29",     1000, 29,   0, "/home/ann", "/bin/zsh" },
        {"4242",       4242, 0,    0, "/",         "/bin/sh"  },
        {"4242:70",    4242, 70,   0, "/",         "/bin/sh"  },
        {"4242:wheel", 4242, 70,   0, "/",         "/bin/sh"  },
        {"bare",       1002, 1002, 0, "/",         "/bin/sh"  },
        {"last",       1003, 1003, 0, "/last",     "/bin/sh"  },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct user user;
        CHECK(find(rows[i].spec, &user));
        CHECK(user.uid == rows[i].uid && user.gid == rows[i].gid);
        CHECK(user.n_groups == rows[i].n_groups);
        CHECK_STR(user.home, rows[i].home);
        CHECK_STR(user.shell, rows[i].shell);
    }
}

TEST(what_the_image_does_not_have_is_refused)
{
    static const char *const specs[] = {"nobody", "short",      "bad", "ann:nogroup", "ann:",
                                        ":ann",   "4294967295", "-1",  "99999999999"};

    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct user user;
        if (find(specs[i], &user))
            printf("# accepted: %s\n", specs[i]);
        CHECK(!find(specs[i], &user));
    }
}

TEST(an_image_without_accounts_still_has_numbers)
{
    struct user user;
    struct error err;

    CHECK(user_find(STR(""), STR(""), STR("12:13"), &user, &err));
    CHECK(user.uid == 12 && user.gid == 13);
    CHECK(user_find(STR(""), STR(""), STR(""), &user, &err));
    CHECK(user.uid == 0 && user.gid == 0);
    CHECK_STR(user.name, "root");
}

TEST_MAIN()
