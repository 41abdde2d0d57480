#include "cli/escape.h"

#include <stdio.h>

#include "base/test.h"

/* What is typed, what goes through, and what is done at the end. */
static const struct {
    const char *typed, *through;
    enum escape_action action;
} keys[] = {
    {"ls -l\r",                       "ls -l\r",                      ESCAPE_NONE  },
    {"~.",                            "",                             ESCAPE_DETACH},
    {"~?",                            "",                             ESCAPE_HELP  },
    {"ls\r~.",                        "ls\r",                         ESCAPE_DETACH},
    {"ls\n~.",                        "ls\n",                         ESCAPE_DETACH},
    {"a~.",                           "a~.",                          ESCAPE_NONE  },
    {"~~.",                           "~.",                           ESCAPE_NONE  },
    {"~/bin\r",                       "~/bin\r",                      ESCAPE_NONE  },
    {"cd ~\r~\r",                     "cd ~\r~\r",                    ESCAPE_NONE  },
    {"~\x03~.",                       "~\x03~.",                      ESCAPE_NONE  },
    {"\x1b[A~.",                      "\x1b[A~.",                     ESCAPE_NONE  },
    {"\x1b[200~\n~.\n\x1b[201~\r~.",  "\x1b[200~\n~.\n\x1b[201~\r",   ESCAPE_DETACH},
    {"\x1b[200~a\x1b[20\x1b[201~\r~", "\x1b[200~a\x1b[20\x1b[201~\r", ESCAPE_NONE  },
};

static enum escape_action type(const char *typed, size_t step, char through[256])
{
    struct escape escape = {0};
    struct str rest = str_of(typed);
    enum escape_action action = ESCAPE_NONE;
    size_t all = 0;

    while (rest.len > 0 && action == ESCAPE_NONE) {
        struct str piece = {rest.ptr, rest.len < step ? rest.len : step};
        size_t used, len;

        action = escape_take(&escape, piece, &used, through + all, &len);
        all += len;
        rest = (struct str){rest.ptr + used, rest.len - used};
    }
    through[all] = '\0';
    return action;
}

TEST(only_a_tilde_at_the_start_of_a_line_is_ours)
{
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        for (size_t step = 1; step < 100; step += 98) {
            char through[256];
            enum escape_action action = type(keys[i].typed, step, through);

            if (action != keys[i].action || strcmp(through, keys[i].through) != 0)
                printf("# row %zu in pieces of %zu\n", i, step);
            CHECK(action == keys[i].action);
            CHECK_STR(through, keys[i].through);
        }
    }
}

TEST(after_help_one_is_at_the_start_of_a_line_again)
{
    struct escape escape = {0};
    char through[16];
    size_t used, len;

    CHECK(escape_take(&escape, STR("~?~."), &used, through, &len) == ESCAPE_HELP && used == 2);
    CHECK(escape_take(&escape, STR("~."), &used, through, &len) == ESCAPE_DETACH);
}

TEST_MAIN()
