#include "base/secret.h"

#include "base/attr.h"
#include "base/test.h"

TEST(a_secret_gives_back_its_bytes)
{
    AUTO(secret_finish) struct secret secret = secret_create(STR("hunter2"));

    CHECK(secret_is_set(&secret));
    CHECK(str_equal(secret_reveal(&secret), STR("hunter2")));
}

TEST(an_unset_secret_equals_nothing)
{
    struct secret none = {0};

    CHECK(!secret_is_set(&none));
    CHECK(!secret_equals(&none, STR("")));
    CHECK(secret_reveal(&none).len == 0);
    secret_finish(&none);
}

TEST(an_empty_secret_is_set)
{
    AUTO(secret_finish) struct secret empty = secret_create(STR(""));

    CHECK(secret_is_set(&empty) && secret_equals(&empty, STR("")));
}

TEST(comparison_looks_at_length_and_every_byte)
{
    AUTO(secret_finish) struct secret secret = secret_create(STR("abcdef"));

    CHECK(secret_equals(&secret, STR("abcdef")));
    CHECK(!secret_equals(&secret, STR("abcdeg")));
    CHECK(!secret_equals(&secret, STR("Abcdef")));
    CHECK(!secret_equals(&secret, STR("abcde")));
    CHECK(!secret_equals(&secret, STR("abcdefg")));
}

TEST(wiping_leaves_zeroes)
{
    char bytes[32];

    memset(bytes, 'x', sizeof bytes);
    bytes_wipe(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        CHECK(bytes[i] == 0);
}

TEST_MAIN()
