#include "base/glyph.h"

#include "base/attr.h"
#include "base/test.h"

static bool is_shown(const char *text)
{
    struct str rest = str_of(text);
    struct glyph glyph;

    return glyph_next(&rest, &glyph) && !glyph.is_harmful;
}

TEST(wide_letters_take_two_columns_and_marks_none)
{
    CHECK(glyph_width(STR("abc")) == 3);
    CHECK(glyph_width(STR("\xe6\xbc\xa2\xe5\xad\x97")) == 4);
    CHECK(glyph_width(STR("e\xcc\x81")) == 1);
    CHECK(glyph_width(STR("\xf0\x9f\x9a\x80")) == 2);
    CHECK(glyph_width(STR("")) == 0);
}

TEST(a_cut_never_splits_a_character)
{
    struct str text = STR("a\xe6\xbc\xa2\xe5\xad\x97");

    CHECK(glyph_cut(text, 0).len == 0);
    CHECK(glyph_cut(text, 1).len == 1);
    CHECK(glyph_cut(text, 2).len == 1);
    CHECK(glyph_cut(text, 3).len == 4);
    CHECK(glyph_cut(text, 99).len == text.len);
}

TEST(what_moves_the_cursor_is_harmful)
{
    static const char *const bad[] = {
        "\033", "\r", "\x7f", "\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\xff", "\xe6\xbc",
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!is_shown(bad[i]));
    CHECK(is_shown("a") && is_shown("\xe6\xbc\xa2") && is_shown(" "));
}

TEST(bytes_that_are_no_text_are_taken_one_by_one)
{
    struct str rest = STR("\xff\xfe");
    struct glyph glyph;

    CHECK(glyph_next(&rest, &glyph) && glyph.bytes.len == 1 && glyph.columns == 1);
    CHECK(glyph_next(&rest, &glyph) && !glyph_next(&rest, &glyph));
}

TEST_MAIN()
