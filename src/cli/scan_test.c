#include "cli/scan.h"

#include "base/test.h"

static bool is(struct str got, const char *want)
{
    return str_equal(got, str_of(want));
}

TEST(the_items_of_a_list_are_slices_of_its_text)
{
    struct str rest = STR(" [ 1 , \"a,]\\\"\" ,[2,[3]], {\"b\":[4,\"}\"]} ,true]"), item;

    CHECK(scan_item(&rest, &item) && is(item, "1"));
    CHECK(scan_item(&rest, &item) && is(item, "\"a,]\\\"\""));
    CHECK(scan_item(&rest, &item) && is(item, "[2,[3]]"));
    CHECK(scan_item(&rest, &item) && is(item, "{\"b\":[4,\"}\"]}"));
    CHECK(scan_item(&rest, &item) && is(item, "true"));
    CHECK(!scan_item(&rest, &item));
}

TEST(an_empty_list_has_no_items)
{
    struct str rest = STR("[]"), item;

    CHECK(!scan_item(&rest, &item));
    rest = STR("[ \n ]");
    CHECK(!scan_item(&rest, &item));
}

TEST(the_members_of_an_object_come_with_their_keys)
{
    struct str rest = STR("{\"a\" : 1,\n \"b\\\"\":{ \"c\":null},\"d\":\"\"}"), key, value;

    CHECK(scan_member(&rest, &key, &value) && is(key, "\"a\"") && is(value, "1"));
    CHECK(scan_member(&rest, &key, &value) && is(key, "\"b\\\"\"") && is(value, "{ \"c\":null}"));
    CHECK(scan_member(&rest, &key, &value) && is(key, "\"d\"") && is(value, "\"\""));
    CHECK(!scan_member(&rest, &key, &value));
    rest = STR("{}");
    CHECK(!scan_member(&rest, &key, &value));
}

TEST(text_that_is_no_json_ends_the_walk)
{
    static const char *const texts[] = {"",       "{",       "[", "{\"",  "{\"a",
                                        "{\"a\"", "{\"a\":", "x", "[\"\\"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct str list = str_of(texts[i]), object = list, key, value;
        size_t steps = 0;

        while (scan_item(&list, &value))
            CHECK(++steps < 10);
        while (scan_member(&object, &key, &value))
            CHECK(++steps < 10);
    }
}

TEST_MAIN()
