#include "cli/screen_modes.h"

#include <stdio.h>

#include "base/test.h"

/* What passes, and what brings the terminal back after it. */
static const struct {
    const char *output, *back;
} rows[] = {
    {"plain text\r\n",                                               ""                      },
    {"\x1b[?1049h\x1b[22;0;0t\x1b[1;24r\x1b[?12h\x1b[?12l\x1b[?25l", "\x1b[?25h\x1b[?1049l"  },
    {"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l",                     ""                      },
    {"\x1b[?2004h$ ",                                                "\x1b[?2004l"           },
    {"\x1b[?1000;1006h",                                             "\x1b[?1000l\x1b[?1006l"},
    {"\x1b[38;2;10;20;30mcolour",                                    "\x1b[0m"               },
    {"\x1b[38;2;10;20;30mcolour\x1b[0m",                             ""                      },
    {"\x1b[1mbold\x1b[m",                                            ""                      },
    {"\x1b[?1049h\x1b"
     "c",                                                       ""                      },
    {"\x1b[?99999999999999h\x1b[;;;;;;;;;;;;;h\x1b\x1b[?1h",         "\x1b[?1l"              },
};

TEST(what_was_switched_on_is_switched_off)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int bytewise = 0; bytewise < 2; bytewise++) {
            struct screen_modes modes = {0};
            struct str output = str_of(rows[i].output);
            char text[SCREEN_RESTORE_MAX + 1];

            if (!bytewise)
                screen_modes_read(&modes, output);
            for (size_t at = 0; bytewise && at < output.len; at++)
                screen_modes_read(&modes, (struct str){output.ptr + at, 1});
            text[screen_modes_restore(&modes, text)] = '\0';
            if (strcmp(text, rows[i].back) != 0)
                printf("# row %zu\n", i);
            CHECK_STR(text, rows[i].back);
        }
    }
}

TEST(everything_at_once_has_room)
{
    struct screen_modes modes = {.has_colour = true};
    char text[SCREEN_RESTORE_MAX];

    memset(modes.is_changed, true, sizeof modes.is_changed);
    CHECK(screen_modes_restore(&modes, text) < SCREEN_RESTORE_MAX);
}

TEST_MAIN()
