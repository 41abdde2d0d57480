#include "base/table.h"

#include <stdlib.h>

#include "base/test.h"

static const char *const columns[] = {"id", "name", "state"};

static char *printed(const struct table *table, bool is_terminal)
{
    static char text[4096];
    FILE *out = fmemopen(text, sizeof text, "w");

    text[0] = '\0';
    table_print(table, out, is_terminal);
    fclose(out);
    return text;
}

static void add(struct table *table, const char *a, const char *b, const char *c)
{
    table_row(table, (const struct str[]){str_of(a), str_of(b), str_of(c)});
}

TEST(people_get_aligned_columns_and_a_header)
{
    AUTO(table_finish) struct table table;

    table_init(&table, columns, 3);
    add(&table, "1", "short", "queued");
    add(&table, "22", "a longer name", "");
    CHECK_STR(printed(&table, true), "id  name           state\n"
                                     "1   short          queued\n"
                                     "22  a longer name  \n");
}

TEST(pipes_get_tabs_and_no_header)
{
    AUTO(table_finish) struct table table;

    table_init(&table, columns, 3);
    add(&table, "1", "a b", "queued");
    CHECK_STR(printed(&table, false), "1\ta b\tqueued\n");
}

TEST(letters_count_as_wide_as_they_are_shown)
{
    AUTO(table_finish) struct table table;

    table_init(&table, columns, 3);
    add(&table, "1", "\xc3\xa9\xc3\xa9", "x");
    add(&table, "2", "\xe6\x97\xa5\xe6\x9c\xac", "x");
    add(&table, "3", "e\xcc\x81", "x");
    CHECK_STR(printed(&table, true), "id  name  state\n"
                                     "1   \xc3\xa9\xc3\xa9    x\n"
                                     "2   \xe6\x97\xa5\xe6\x9c\xac  x\n"
                                     "3   e\xcc\x81     x\n");
}

TEST(a_cell_cannot_move_the_cursor_or_turn_the_text)
{
    AUTO(table_finish) struct table table;

    table_init(&table, columns, 3);
    add(&table, "\x1b[2J", "a\tb\nc", "\xe2\x80\xae\xc2\x9b\xff");
    CHECK_STR(printed(&table, false), "?[2J\ta?b?c\t???\n");
}

TEST(a_file_is_no_place_for_colours)
{
    AUTO(table_finish) struct table table;

    table_init(&table, columns, 3);
    CHECK_STR(printed(&table, false), "");

    FILE *out = tmpfile();

    CHECK(out);
    bool wanted = colour_is_wanted(out);
    fclose(out);
    CHECK(!wanted);
}

TEST_MAIN()
