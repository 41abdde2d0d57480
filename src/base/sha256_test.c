#include "base/sha256.h"

#include "base/own.h"
#include "base/test.h"

#define OF_ABC     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

TEST(the_hash_is_that_of_the_standard)
{
    char hex[SHA256_HEX];

    sha256_of(STR("abc"), hex);
    CHECK_STR(hex, OF_ABC);
    sha256_of((struct str){0}, hex);
    CHECK_STR(hex, OF_NOTHING);
}

TEST(bytes_in_parts_hash_like_the_whole_and_taking_starts_anew)
{
    AUTO(sha256_finish) struct sha256 state;
    char hex[SHA256_HEX];

    sha256_init(&state);
    sha256_update(&state, STR("a"));
    sha256_update(&state, STR("bc"));
    sha256_take(&state, hex);
    CHECK_STR(hex, OF_ABC);
    sha256_take(&state, hex);
    CHECK_STR(hex, OF_NOTHING);
}

TEST(only_sixty_four_lower_case_digits_are_a_hash)
{
    CHECK(sha256_hex_is_valid(STR(OF_ABC)));
    CHECK(!sha256_hex_is_valid(STR("")));
    CHECK(!sha256_hex_is_valid((struct str){OF_ABC, 63}));
    CHECK(!sha256_hex_is_valid(STR(OF_ABC "0")));
    CHECK(!sha256_hex_is_valid(
        STR("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD")));
    CHECK(!sha256_hex_is_valid(
        STR("ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")));
}

TEST_MAIN()
