#include "base/encode.h"

#include "base/id.h"
#include "base/test.h"

TEST(base64_gives_the_vectors_of_the_standard)
{
    static const struct {
        const char *plain, *encoded;
    } rows[] = {
        {"",       ""        },
        {"f",      "Zg=="    },
        {"fo",     "Zm8="    },
        {"foo",    "Zm9v"    },
        {"foob",   "Zm9vYg=="},
        {"fooba",  "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str plain = str_of(rows[i].plain);
        char text[16] = {0}, back[16];
        size_t len = sizeof back;

        base64_encode(plain, text);
        CHECK_STR(text, rows[i].encoded);
        CHECK(base64_encoded_len(plain.len) == strlen(rows[i].encoded));
        CHECK(base64_decode(str_of(text), back, &len));
        CHECK(str_equal((struct str){back, len}, plain));
    }
}

TEST(base64_with_slack_is_refused)
{
    static const char *const wrong[] = {"Zg=",    "Zg",   "Zh==", "Zm9=",     "Z===",     "====",
                                        "Zg==\n", "Zm 9", "Zm-_", "Zg==Zg==", "Zm9vYmFy="};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char back[32];
        size_t len = sizeof back;

        CHECK(!base64_decode(str_of(wrong[i]), back, &len));
    }
}

TEST(base64_never_writes_past_the_room_given)
{
    char back[2];
    size_t len = sizeof back;

    CHECK(!base64_decode(STR("Zm9v"), back, &len));
    len = sizeof back;
    CHECK(base64_decode(STR("Zm8="), back, &len) && len == 2);
}

TEST(every_length_survives_the_round_in_all_forms)
{
    char bytes[200], text[401], back[200];

    for (size_t n = 0; n <= sizeof bytes; n++) {
        size_t len = sizeof back;

        random_bytes(bytes, sizeof bytes);
        base64url_encode((struct str){bytes, n}, text);
        CHECK(strlen(text) == (4 * n + 2) / 3);
        CHECK(base64url_decode(str_of(text), back, &len));
        CHECK(str_equal((struct str){back, len}, (struct str){bytes, n}));

        hex_encode((struct str){bytes, n}, text);
        CHECK(hex_decode(str_of(text), back, n));
        CHECK(str_equal((struct str){back, n}, (struct str){bytes, n}));
    }
}

TEST(a_long_append_has_padding_only_at_its_end)
{
    AUTO(buf_finish) struct buf out = {.max = 1 << 20};
    static char zeroes[2000];
    struct error err;

    CHECK(base64_append(&out, (struct str){zeroes, sizeof zeroes}, &err));
    CHECK(out.len == base64_encoded_len(sizeof zeroes));
    CHECK(memchr(out.bytes, '=', out.len) == out.bytes + out.len - 1);
}

TEST(hex_of_the_wrong_length_or_letters_is_refused)
{
    char back[4];

    CHECK(hex_decode(STR("00fFAb12"), back, 4));
    CHECK(!hex_decode(STR("00ff"), back, 4));
    CHECK(!hex_decode(STR("00fg"), back, 2));
}

TEST(percent_encoding_keeps_only_unreserved_characters)
{
    AUTO(buf_finish) struct buf out = {.max = 100};
    struct error err;
    char back[100];
    size_t len;

    CHECK(percent_append(&out, STR("a b/\xc3\xa9~._-%"), &err));
    CHECK(str_equal(buf_str(&out), STR("a%20b%2F%C3%A9~._-%25")));
    CHECK(percent_decode(buf_str(&out), false, back, &len));
    CHECK(str_equal((struct str){back, len}, STR("a b/\xc3\xa9~._-%")));
}

TEST(a_plus_is_a_blank_only_in_a_query)
{
    char back[8];
    size_t len;

    CHECK(percent_decode(STR("a+b"), true, back, &len) && !memcmp(back, "a b", len));
    CHECK(percent_decode(STR("a+b"), false, back, &len) && !memcmp(back, "a+b", len));
}

TEST(broken_percent_signs_and_nul_are_refused)
{
    static const char *const wrong[] = {"%", "%2", "a%zz", "%00", "%-1"};
    char back[8];
    size_t len;

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK(!percent_decode(str_of(wrong[i]), false, back, &len));
}

TEST(only_well_formed_utf8_is_valid)
{
    static const char *const right[] = {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    static const char *const wrong[] = {"\x80",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x80\x80",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xc3",
                                        "\xe2\x82",
                                        "a\xff"};

    for (size_t i = 0; i < COUNT_OF(right); i++)
        CHECK(utf8_is_valid(str_of(right[i])));
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK(!utf8_is_valid(str_of(wrong[i])));
}

TEST(a_quoted_text_is_always_a_json_string)
{
    AUTO(buf_finish) struct buf out = {.max = 100};
    struct error err;

    CHECK(json_quote(&out, (struct str){"a\"\\\n\t\x01\x7f\xc3\xa9\xff\0", 11}, &err));
    CHECK(
        str_equal(buf_str(&out), STR("\"a\\\"\\\\\\n\\t\\u0001\x7f\xc3\xa9\xef\xbf\xbd\\u0000\"")));
}

TEST_MAIN()
