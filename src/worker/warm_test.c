#include "worker/warm.h"

#include <stdio.h>

#include "base/test.h"

static struct str name_of(const struct json_list *list, size_t at)
{
    return ((const struct str *)list->items)[at];
}

TEST(what_was_used_last_comes_first_and_only_once)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct warm warm;

    warm_init(&warm);
    warm_note(&warm, WARM_DRIVES, STR("a"));
    warm_note(&warm, WARM_DRIVES, STR("b"));
    warm_note(&warm, WARM_DRIVES, STR("a"));
    warm_note(&warm, WARM_TEMPLATES, STR("c"));
    struct wire_warm lists = warm_list(&warm, &arena);
    CHECK(lists.drives.n == 2 && lists.templates.n == 1 && lists.checkpoints.n == 0);
    CHECK(str_equal(name_of(&lists.drives, 0), STR("a")));
    CHECK(str_equal(name_of(&lists.drives, 1), STR("b")));
    warm_finish(&warm);
}

TEST(the_oldest_goes_when_there_are_too_many)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct warm warm;
    char name[2 * WARM_NAME];

    warm_init(&warm);
    for (int i = 0; i < WARM_NAMES + 3; i++) {
        snprintf(name, sizeof name, "name-%d", i);
        warm_note(&warm, WARM_CHECKPOINTS, str_of(name));
    }
    struct wire_warm lists = warm_list(&warm, &arena);
    CHECK(lists.checkpoints.n == WARM_NAMES);
    CHECK(str_equal(name_of(&lists.checkpoints, 0), str_of(name)));
    CHECK(str_equal(name_of(&lists.checkpoints, WARM_NAMES - 1), STR("name-3")));

    /* What is no name is not noted. */
    memset(name, 'x', sizeof name);
    warm_note(&warm, WARM_CHECKPOINTS, (struct str){name, sizeof name});
    warm_note(&warm, WARM_CHECKPOINTS, STR(""));
    lists = warm_list(&warm, &arena);
    CHECK(str_equal(name_of(&lists.checkpoints, WARM_NAMES - 1), STR("name-3")));
    warm_finish(&warm);
}

TEST_MAIN()
