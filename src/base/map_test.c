#include "base/map.h"

#include <stdint.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/test.h"

static struct str key_of(int number, char text[16])
{
    snprintf(text, 16, "key-%d", number);
    return str_of(text);
}

static void *value_of(int number)
{
    return (void *)(uintptr_t)(number + 1);
}

TEST(what_is_put_is_found_and_nothing_else)
{
    AUTO(map_finish) struct map map = {0};
    char text[16];

    CHECK(!map_find(&map, STR("key-0")));
    for (int i = 0; i < 2000; i++)
        CHECK(!map_put(&map, key_of(i, text), value_of(i)));
    CHECK(map.count == 2000);
    for (int i = 0; i < 2000; i++)
        CHECK(map_find(&map, key_of(i, text)) == value_of(i));
    CHECK(!map_find(&map, STR("key-2000")));
    CHECK(!map_find(&map, STR("")));
}

TEST(replacing_gives_the_former_value_back)
{
    AUTO(map_finish) struct map map = {0};

    map_put(&map, STR("a"), value_of(1));
    CHECK(map_put(&map, STR("a"), value_of(2)) == value_of(1));
    CHECK(map.count == 1 && map_find(&map, STR("a")) == value_of(2));
}

TEST(removal_never_hides_another_key)
{
    AUTO(map_finish) struct map map = {0};
    char text[16];

    for (int i = 0; i < 500; i++)
        map_put(&map, key_of(i, text), value_of(i));
    for (int i = 0; i < 500; i += 3) {
        CHECK(map_remove(&map, key_of(i, text)) == value_of(i));
        CHECK(!map_remove(&map, key_of(i, text)));
        for (int other = 0; other < 500; other++) {
            bool is_gone = other % 3 == 0 && other <= i;

            CHECK(map_find(&map, key_of(other, text)) == (is_gone ? NULL : value_of(other)));
        }
    }
}

TEST(a_walk_meets_every_entry_once)
{
    AUTO(map_finish) struct map map = {0};
    bool seen[100] = {0};
    char text[16];
    struct str key;
    void *value;
    size_t at = 0;

    for (int i = 0; i < 100; i++)
        map_put(&map, key_of(i, text), value_of(i));
    while (map_next(&map, &at, &key, &value)) {
        size_t i = (uintptr_t)value - 1;

        CHECK(i < 100 && !seen[i] && str_equal(key, key_of((int)i, text)));
        seen[i] = true;
    }
    for (int i = 0; i < 100; i++)
        CHECK(seen[i]);
}

TEST(keys_are_bytes_so_a_nul_is_part_of_them)
{
    AUTO(map_finish) struct map map = {0};

    map_put(&map, (struct str){"a\0b", 3}, value_of(1));
    CHECK(!map_find(&map, STR("a")));
    CHECK(map_find(&map, (struct str){"a\0b", 3}) == value_of(1));
}

TEST_MAIN()
