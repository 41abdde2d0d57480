#include "cli/replay.h"

#include <stdio.h>

#include "base/test.h"

/* What was printed once, and what is shown of it again. */
static const struct {
    const char *printed, *shown;
} rows[] = {
    {"plain\r\n\ttext\b",                        "plain\r\n\ttext\b"                     },
    {"\x1b[38;2;1;2;3mred\x1b[0m\x1b[38:5:7m",   "\x1b[38;2;1;2;3mred\x1b[0m\x1b[38:5:7m"},
    {"\x1b[2J\x1b[H\x1b[10;20H\x1b[3A\x1b[K",    "\x1b[2J\x1b[H\x1b[10;20H\x1b[3A\x1b[K" },
    {"\x1b[?1049h\x1b[?25l\x1b[1;24r",           "\x1b[?1049h\x1b[?25l\x1b[1;24r"        },
    {"a\x1b[cb\x1b[>c\x1b[=c\x1b[0cc",           "abc"                                   },
    {"\x1b[6n\x1b[5n\x1b[?6n",                   ""                                      },
    {"\x1b[>q\x1b[?u\x1b[18t\x1b[?2026$p\x1b[x", ""                                      },
    {"\x1b]0;title\ax\x1b]11;?\x1b\\y",          "xy"                                    },
    {"\x1bP+q544e\x1b\\z\x1b_apc\x1b\\",         "z"                                     },
    {"\x1bZ\x05w",                               "w"                                     },
    {"\x1b(B\x1b"
     "7\x1b"
     "8\x1b=",                              "\x1b(B\x1b"
     "7\x1b"
     "8\x1b="                                                         },
};

TEST(what_asks_the_terminal_is_left_out_and_the_rest_is_not)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int bytewise = 0; bytewise < 2; bytewise++) {
            struct replay replay = {0};
            struct str printed = str_of(rows[i].printed);
            char shown[256];
            size_t len = 0;

            if (!bytewise)
                len = replay_pass(&replay, printed, shown);
            for (size_t at = 0; bytewise && at < printed.len; at++)
                len += replay_pass(&replay, (struct str){printed.ptr + at, 1}, shown + len);
            shown[len] = '\0';
            if (strcmp(shown, rows[i].shown) != 0)
                printf("# row %zu\n", i);
            CHECK_STR(shown, rows[i].shown);
        }
    }
}

TEST(a_sequence_without_an_end_takes_no_room)
{
    struct replay replay = {0};
    char bytes[5000] = "\x1b[", out[5000 + REPLAY_SEQUENCE_MAX];

    memset(bytes + 2, '1', sizeof bytes - 2);
    CHECK(replay_pass(&replay, (struct str){bytes, sizeof bytes}, out) == 0);
    CHECK(replay_pass(&replay, STR("mx"), out) == 1 && out[0] == 'x');
}

TEST_MAIN()
