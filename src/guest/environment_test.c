#include "guest/environment.h"

#include "base/test.h"

static const struct user ann = {.uid = 7, .name = "ann", .home = "/home/ann"};

TEST(what_is_always_there_is_there)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct environment env;

    environment_build(&env, &arena, (struct str_list){0}, (struct str_list){0}, &ann, "/work");
    CHECK_STR(environment_get(&env, "PATH"), "/usr/local/bin:/usr/bin:/bin");
    CHECK_STR(environment_get(&env, "HOME"), "/home/ann");
    CHECK_STR(environment_get(&env, "USER"), "ann");
    CHECK_STR(environment_get(&env, "LOGNAME"), "ann");
    CHECK_STR(environment_get(&env, "PWD"), "/work");
    CHECK(env.block[env.n] == NULL && env.n == 5);
}

TEST(the_image_and_then_the_launch_win)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str image[] = {STR("PATH=/image"), STR("HOME=/elsewhere"), STR("A=1"), STR("USER=eve"),
                          STR("EMPTY=")};
    struct str launch[] = {STR("A=2"), STR("B=x=y")};
    struct environment env;

    environment_build(&env, &arena, (struct str_list){image, COUNT_OF(image)},
                      (struct str_list){launch, COUNT_OF(launch)}, &ann, "/");
    CHECK_STR(environment_get(&env, "PATH"), "/image");
    CHECK_STR(environment_get(&env, "HOME"), "/elsewhere");
    CHECK_STR(environment_get(&env, "USER"), "ann");
    CHECK_STR(environment_get(&env, "A"), "2");
    CHECK_STR(environment_get(&env, "B"), "x=y");
    CHECK_STR(environment_get(&env, "EMPTY"), "");
}

TEST(loader_switches_and_nonsense_are_left_out)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str image[] = {
        STR("LD_PRELOAD=/evil.so"), STR("LD_"), STR("novalue"), STR("=x"), STR(""), STR("OLD_X=1")};
    struct environment env;

    environment_build(&env, &arena, (struct str_list){image, COUNT_OF(image)}, (struct str_list){0},
                      &ann, "/");
    CHECK(!environment_get(&env, "LD_PRELOAD") && !environment_get(&env, "novalue"));
    CHECK_STR(environment_get(&env, "OLD_X"), "1");
    CHECK(env.n == 6);
}

TEST_MAIN()
