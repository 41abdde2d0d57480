#include "base/hash.h"

#include "base/encode.h"
#include "base/test.h"

static const char *blake2b_hex(struct str key, struct str bytes, size_t piece)
{
    static char text[2 * BLAKE2B_LEN + 1];
    struct blake2b state;
    uint8_t out[BLAKE2B_LEN];

    blake2b_init(&state, key);
    for (size_t at = 0; at < bytes.len; at += piece) {
        size_t n = bytes.len - at < piece ? bytes.len - at : piece;

        blake2b_update(&state, (struct str){bytes.ptr + at, n});
    }
    blake2b_final(&state, out);
    hex_encode((struct str){(const char *)out, sizeof out}, text);
    return text;
}

TEST(crc32c_gives_the_known_values)
{
    static char zeroes[32];

    CHECK(crc32c(0, STR("")) == 0);
    CHECK(crc32c(0, STR("123456789")) == 0xe3069283);
    CHECK(crc32c(0, (struct str){zeroes, sizeof zeroes}) == 0x8a9136aa);
}

TEST(crc32c_goes_on_from_a_former_value)
{
    struct str text = STR("the quick brown fox jumps over the lazy dog");

    for (size_t cut = 0; cut <= text.len; cut++) {
        uint32_t first = crc32c(0, (struct str){text.ptr, cut});

        CHECK(crc32c(first, (struct str){text.ptr + cut, text.len - cut}) == crc32c(0, text));
    }
}

TEST(blake2b_gives_the_known_values)
{
    CHECK_STR(blake2b_hex(STR(""), STR(""), 1),
              "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    CHECK_STR(blake2b_hex(STR(""), STR("abc"), 1),
              "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(blake2b_is_the_same_in_any_pieces)
{
    static char bytes[1000];
    char whole[2 * BLAKE2B_LEN + 1];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    for (size_t len = 0; len <= sizeof bytes; len += 64) {
        struct str input = {bytes, len};

        snprintf(whole, sizeof whole, "%s", blake2b_hex(STR("key"), input, sizeof bytes));
        CHECK_STR(blake2b_hex(STR("key"), input, 1), whole);
        CHECK_STR(blake2b_hex(STR("key"), input, 127), whole);
        CHECK_STR(blake2b_hex(STR("key"), input, 128), whole);
        CHECK_STR(blake2b_hex(STR("key"), input, 129), whole);
    }
}

TEST(a_keyed_blake2b_gives_the_known_values)
{
    char key[64], bytes[256];

    for (int i = 0; i < 64; i++)
        key[i] = (char)i;
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    CHECK_STR(blake2b_hex((struct str){key, 64}, (struct str){bytes, 256}, 100),
              "1ee3b6312b4e0f0b9663b812b8c129e6d45c410b1c9c5a1667bfc6dd951db79f");
    CHECK_STR(blake2b_hex((struct str){key, 32}, STR(""), 1),
              "4e51e7a913fc80137da52880fecca175bf81e117d5c68126dc2774033517ea0d");
}

TEST(a_list_is_hashed_with_the_length_of_each_piece)
{
    const struct str pieces[] = {STR("ab"), STR(""), STR("c")};
    const struct str others[] = {STR("a"), STR("b"), STR("c")};
    uint8_t of_list[BLAKE2B_LEN], of_other[BLAKE2B_LEN];
    char hex[2 * BLAKE2B_LEN + 1];

    blake2b_list(STR("key"), pieces, 3, of_list);
    blake2b_list(STR("key"), others, 3, of_other);
    CHECK(memcmp(of_list, of_other, BLAKE2B_LEN) != 0);
    hex_encode((struct str){(const char *)of_list, sizeof of_list}, hex);
    CHECK_STR(blake2b_hex(STR("key"),
                          STR("\2\0\0\0\0\0\0\0"
                              "ab"
                              "\0\0\0\0\0\0\0\0"
                              "\1\0\0\0\0\0\0\0"
                              "c"),
                          128),
              hex);
}

TEST_MAIN()
