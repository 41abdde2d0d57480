#include "base/text_diff.h"

#include <stdint.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text_diff_testing.h"

static const char *diff_of(const char *before, const char *after, struct buf *out)
{
    struct error err;

    *out = (struct buf){.max = TEXT_DIFF_OUT_MAX};
    if (!text_diff(str_of(before), str_of(after), out, &err) || !buf_append(out, STR("\0"), &err))
        return "refused";
    return out->bytes;
}

TEST(equal_texts_have_no_difference)
{
    AUTO(buf_finish) struct buf out = {0};
    CHECK_STR(diff_of("one\ntwo\n", "one\ntwo\n", &out), "");
}

TEST(a_changed_line_has_three_lines_round_it)
{
    AUTO(buf_finish) struct buf out = {0};
    CHECK_STR(diff_of("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", &out),
              "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(changes_far_apart_are_two_hunks_and_near_ones_are_one)
{
    AUTO(buf_finish) struct buf far = {0};
    CHECK_STR(diff_of("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "2\n3\n4\n5\n6\n7\n8\n", &far),
              "@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n@@ -6,4 +5,3 @@\n 6\n 7\n 8\n-9\n");
    AUTO(buf_finish) struct buf near = {0};
    CHECK_STR(diff_of("1\n2\n3\n4\n5\n6\n7\n8\n", "2\n3\n4\n5\n6\n7\n", &near),
              "@@ -1,8 +1,6 @@\n-1\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n");
}

TEST(a_new_file_is_added_from_line_zero)
{
    AUTO(buf_finish) struct buf out = {0};
    CHECK_STR(diff_of("", "a\nb\n", &out), "@@ -0,0 +1,2 @@\n+a\n+b\n");
}

TEST(a_missing_line_end_is_told)
{
    AUTO(buf_finish) struct buf out = {0};
    CHECK_STR(diff_of("a\nb", "a\nb\n", &out),
              "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
}

TEST(the_script_is_the_shortest)
{
    AUTO(buf_finish) struct buf out = {0};
    CHECK_STR(diff_of("a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n", &out),
              "@@ -1,7 +1,6 @@\n-a\n+c\n b\n-c\n a\n b\n-b\n a\n+c\n");
}

TEST(what_is_long_or_binary_is_not_taken)
{
    AUTO_FREE char *text = alloc(TEXT_DIFF_MAX + 1);
    memset(text, 'a', TEXT_DIFF_MAX + 1);
    CHECK(text_diff_takes((struct str){text, TEXT_DIFF_MAX}));
    CHECK(!text_diff_takes((struct str){text, TEXT_DIFF_MAX + 1}));
    text[7] = '\0';
    CHECK(!text_diff_takes((struct str){text, 8}));
}

/* Two texts of many short lines that differ all over. */
TEST(a_patch_of_wild_texts_makes_one_of_the_other)
{
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        char texts[2][4096];
        size_t lens[2];
        for (int side = 0; side < 2; side++) {
            seed = seed * 1103515245u + 12345u;
            lens[side] = (seed >> 8) % sizeof texts[side];
            for (size_t i = 0; i < lens[side]; i++) {
                seed = seed * 1103515245u + 12345u;
                texts[side][i] = "\n\nabc"[(seed >> 16) % (round % 4 + 2)];
            }
        }
        struct str before = {texts[0], lens[0]}, after = {texts[1], lens[1]};
        AUTO(buf_finish) struct buf patch = {.max = TEXT_DIFF_OUT_MAX};
        AUTO(buf_finish) struct buf made = {.max = TEXT_DIFF_OUT_MAX};
        struct error err;
        CHECK(text_diff(before, after, &patch, &err));
        CHECK(patch_apply(before, buf_str(&patch), &made));
        CHECK(str_equal(buf_str(&made), after));
    }
}

TEST(the_longest_texts_that_differ_everywhere_are_done)
{
    AUTO_FREE char *before = alloc(TEXT_DIFF_MAX), *after = alloc(TEXT_DIFF_MAX);
    uint32_t seed = 7;
    for (size_t i = 0; i < TEXT_DIFF_MAX; i++) {
        seed = seed * 1103515245u + 12345u;
        before[i] = (char)(i % 2 ? '\n' : 'a' + (seed >> 16) % 26);
        after[i] = (char)(i % 2 ? '\n' : 'a' + (seed >> 21) % 26);
    }
    AUTO(buf_finish) struct buf patch = {.max = TEXT_DIFF_OUT_MAX};
    struct error err;
    CHECK(text_diff((struct str){before, TEXT_DIFF_MAX}, (struct str){after, TEXT_DIFF_MAX}, &patch,
                    &err));
    CHECK(patch.len > TEXT_DIFF_MAX);
}

TEST_MAIN()
