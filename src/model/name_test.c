#include "model/name.h"

#include "base/test.h"

static bool is(enum name_kind kind, const char *text)
{
    return name_is_valid(kind, str_of(text));
}

static bool fits(enum name_kind kind, size_t len)
{
    char text[600];

    memset(text, 'a', sizeof text);
    return name_is_valid(kind, (struct str){text, len});
}

TEST(every_kind_has_its_length)
{
    static const size_t max[NAME_KIND_COUNT] = {
        [NAME_ID] = 128,       [NAME_QUEUE] = 256,    [NAME_STREAM] = 256,
        [NAME_SECRET] = 128,   [NAME_VARIABLE] = 128, [NAME_SLUG] = 63,
        [NAME_EXTERNAL] = 512, [NAME_TAG] = 128,      [NAME_TITLE] = 200,
    };

    for (enum name_kind kind = 0; kind < NAME_COLOUR; kind++) {
        CHECK(!fits(kind, 0) && fits(kind, 1));
        CHECK(fits(kind, max[kind]) && !fits(kind, max[kind] + 1));
    }
}

TEST(ids_begin_with_a_letter_or_digit)
{
    CHECK(is(NAME_ID, "hello") && is(NAME_ID, "9.a_B-c"));
    CHECK(!is(NAME_ID, ".a") && !is(NAME_ID, "-a") && !is(NAME_ID, "_a"));
    CHECK(!is(NAME_ID, "a/b") && !is(NAME_ID, "a b") && !is(NAME_ID, "\xc3\xa9"));
    CHECK(is(NAME_QUEUE, "task/hello") && !is(NAME_QUEUE, "/task"));
    CHECK(is(NAME_STREAM, "log.out") && !is(NAME_STREAM, "a/b"));
    CHECK(!name_is_valid(NAME_ID, (struct str){"a\0b", 3}));
}

TEST(a_secret_is_no_device_name)
{
    CHECK(is(NAME_SECRET, "API_KEY") && is(NAME_SECRET, "_x") && is(NAME_SECRET, "a.b-c"));
    CHECK(!is(NAME_SECRET, ".env") && !is(NAME_SECRET, "-x") && !is(NAME_SECRET, "a/b"));
    CHECK(!is(NAME_SECRET, "con") && !is(NAME_SECRET, "NUL") && !is(NAME_SECRET, "Com1"));
    CHECK(!is(NAME_SECRET, "LPT9") && is(NAME_SECRET, "COM0") && is(NAME_SECRET, "CONSOLE"));
}

TEST(a_variable_leaves_the_platform_alone)
{
    CHECK(is(NAME_VARIABLE, "PATH") && is(NAME_VARIABLE, "_a1") && is(NAME_VARIABLE, "LDX"));
    CHECK(!is(NAME_VARIABLE, "1A") && !is(NAME_VARIABLE, "A-B") && !is(NAME_VARIABLE, "A.B"));
    CHECK(!is(NAME_VARIABLE, "LD_PRELOAD") && !is(NAME_VARIABLE, "HELMR_API_KEY"));
}

TEST(a_slug_is_lower_case)
{
    CHECK(is(NAME_SLUG, "main") && is(NAME_SLUG, "2nd-try"));
    CHECK(!is(NAME_SLUG, "Main") && !is(NAME_SLUG, "-main") && !is(NAME_SLUG, "a_b"));
}

TEST(free_text_has_no_surrounding_blanks_and_no_nul)
{
    CHECK(is(NAME_EXTERNAL, "order #7 \xc3\xa9"));
    CHECK(!is(NAME_EXTERNAL, " x") && !is(NAME_EXTERNAL, "x\n") && !is(NAME_EXTERNAL, "\xff"));
    CHECK(!name_is_valid(NAME_EXTERNAL, (struct str){"a\0b", 3}));
}

TEST(a_colour_is_six_hexadecimal_digits)
{
    CHECK(is(NAME_COLOUR, "#1a2B3c"));
    CHECK(!is(NAME_COLOUR, "1a2b3c") && !is(NAME_COLOUR, "#1a2b3") && !is(NAME_COLOUR, "#1a2b3g"));
    CHECK(!is(NAME_COLOUR, "#1a2b3c4") && !is(NAME_COLOUR, "a1a2b3c"));
}

TEST(a_refusal_says_the_rule)
{
    struct error err;

    CHECK(name_check(NAME_SLUG, "slug", STR("main"), &err));
    CHECK(!name_check(NAME_SLUG, "slug", STR("Main"), &err) && err.code == ERR_INVALID);
    CHECK_STR(err.text, "slug must be 1 to 63 of a-z 0-9 -, the first no hyphen");
}

TEST(a_title_becomes_a_slug)
{
    char slug[SLUG_TEXT];

    CHECK(name_slugify(STR("My  Project! (2)"), slug));
    CHECK_STR(slug, "my-project-2");
    CHECK(!name_slugify(STR("\xe6\x97\xa5"), slug) && !name_slugify(STR(""), slug));
    CHECK(name_slugify(STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bcd"), slug));
    CHECK(is(NAME_SLUG, slug) && strlen(slug) == 47);
}

TEST(a_slug_has_always_the_same_colour)
{
    char one[COLOUR_TEXT], two[COLOUR_TEXT];

    name_colour(STR("main"), one);
    name_colour(STR("main"), two);
    CHECK_STR(one, two);
    CHECK(is(NAME_COLOUR, one));
}

TEST_MAIN()
