#include "base/command.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/process.h"
#include "base/test.h"

static const struct option common[] = {
    {"project", 'p', OPTION_VALUE, "PROJECT", "The project's id or slug."},
    {"json", 0, OPTION_FLAG, NULL, "Print JSON."},
    {0},
};

static const struct option run_options[] = {
    {"payload", 'p', OPTION_LIST, "K=V", "One pair of the payload."},
    {"wait", 'w', OPTION_FLAG, NULL, "Wait for the end; don't return at once."},
    {"queue", 0, OPTION_VALUE, "NAME", "Where it waits.", "quick slow"},
    {"from", 'f', OPTION_VALUE, "FILE", "The payload."},
    {0},
};

static const struct command table[] = {
    {"run",        "TASK",   "Start a task",   "Example:\n  helmr run hello", run_options, common, NULL, false,
     1,                                                                                                            1 },
    {"run list",   NULL,     "List runs",      NULL,                          NULL,        common, NULL, false, 0, 0 },
    {"run get",    "ID",     "Show a run",     NULL,                          NULL,        common, NULL, false, 1, 1 },
    {"exec",       "ARG...", "Run a command",  NULL,                          NULL,        NULL,   NULL, false, 1, -1},
    {"key create", "NAME",   "Make a key",     NULL,                          NULL,        NULL,   NULL, false, 1, 1 },
    {"inner",      NULL,     "Not for people", NULL,                          NULL,        NULL,   NULL, true,  0, 0 },
};

static struct invocation invocation;
static struct error err;

static bool parse(const char *line)
{
    static char copy[512];
    static char *argv[64];
    int argc = 0;

    snprintf(copy, sizeof copy, "helmr %s", line);
    for (char *at = copy; at && *at; argc++) {
        argv[argc] = at;
        at = strchr(at, ' ');
        if (at)
            *at++ = '\0';
    }
    return command_parse(table, COUNT_OF(table), argc, argv, &invocation, &err);
}

TEST(the_longest_name_wins)
{
    CHECK(parse("run list") && invocation.command == &table[1]);
    CHECK(parse("run hello") && invocation.command == &table[0]);
    CHECK_STR(invocation.args[0], "hello");
}

TEST(a_double_hyphen_ends_options_and_sub_commands)
{
    CHECK(parse("run -- list") && invocation.command == &table[0]);
    CHECK_STR(invocation.args[0], "list");
    CHECK(parse("exec -- ls -l --json"));
    CHECK(invocation.n_args == 3 && !invocation_has(&invocation, "json"));
    CHECK_STR(invocation.args[2], "--json");
}

TEST(options_may_stand_anywhere)
{
    CHECK(parse("--json run --project=main list") && invocation.command == &table[1]);
    CHECK(invocation_has(&invocation, "json"));
    CHECK_STR(invocation_value(&invocation, "project"), "main");
    CHECK(parse("--project main run list") && invocation.command == &table[1]);
    CHECK(parse("run hello --wait") && invocation_has(&invocation, "wait"));
    CHECK(!invocation_has(&invocation, "json") && !invocation_value(&invocation, "project"));
}

TEST(a_shared_letter_goes_by_the_form_of_its_value)
{
    CHECK(parse("run hello -p a=1 -p main -pb=2 -w"));
    CHECK_STR(invocation_value(&invocation, "project"), "main");
    CHECK_STR(invocation_nth(&invocation, "payload", 0), "a=1");
    CHECK_STR(invocation_nth(&invocation, "payload", 1), "b=2");
    CHECK(!invocation_nth(&invocation, "payload", 2));
    CHECK(parse("run list -p a=1"));
    CHECK_STR(invocation_value(&invocation, "project"), "a=1");
}

TEST(a_wrong_line_says_what_is_wrong_and_where_to_read_on)
{
    static const struct {
        const char *line, *problem;
    } rows[] = {
        {"",                    "no command given; see helmr --help"                           },
        {"walk",                "no such command: walk; see helmr --help"                      },
        {"key",                 "a sub-command is missing after key; see helmr --help"         },
        {"key burn",            "no such sub-command: burn; see helmr --help"                  },
        {"run",                 "missing argument: TASK; see helmr run --help"                 },
        {"run a b",             "unexpected argument: b; see helmr run --help"                 },
        {"run list --wait",     "no such option: --wait; see helmr run list --help"            },
        {"run list -x",         "no such option: -x; see helmr run list --help"                },
        {"run list --json=yes", "no value belongs to --json=yes; see helmr run list --help"    },
        {"run list --project",  "a value is missing after --project; see helmr run list --help"},
        {"run list -p",         "a value is missing after -p; see helmr run list --help"       },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(!parse(rows[i].line));
        CHECK_STR(err.text, rows[i].problem);
        CHECK(err.code == ERR_INVALID);
    }
}

TEST(help_and_version_need_no_right_command_line)
{
    CHECK(parse("--help") && invocation.wants_help && !invocation.command);
    CHECK(parse("run get --help") && invocation.wants_help && invocation.command == &table[2]);
    CHECK(parse("run -h --nonsense") && invocation.wants_help);
    CHECK(parse("--version") && invocation.wants_version);
    CHECK(parse("exec -- --help") && !invocation.wants_help);
}

static char *printed(void (*print)(FILE *out))
{
    static char text[16384];
    FILE *out = fmemopen(text, sizeof text, "w");

    print(out);
    fclose(out);
    return text;
}

static void overview(FILE *out)
{
    command_print_help(table, COUNT_OF(table), NULL, out);
}

static void run_help(FILE *out)
{
    command_print_help(table, COUNT_OF(table), &table[0], out);
}

TEST(the_overview_lists_what_is_for_people)
{
    const char *text = printed(overview);

    CHECK(strstr(text, "  run TASK         Start a task\n"));
    CHECK(strstr(text, "  run list         List runs\n"));
    CHECK(!strstr(text, "inner"));
}

TEST(the_help_of_a_command_has_its_options_and_examples)
{
    const char *text = printed(run_help);

    CHECK(!strncmp(text, "Usage: helmr run [OPTIONS] TASK\n", 32));
    CHECK(strstr(text, "  -p, --payload K=V      One pair of the payload. (may be repeated)\n"));
    CHECK(strstr(text, "      --json             Print JSON.\n"));
    CHECK(strstr(text, "Example:\n  helmr run hello\n"));
}

static void bash(FILE *out)
{
    command_print_completion(table, COUNT_OF(table), "bash", out);
}

/* What bash would offer for the last of the words. */
static bool offers(const char *words, const char *wanted)
{
    AUTO(buf_finish) struct buf out = {.max = 4096};
    static char script[20000];

    snprintf(script, sizeof script,
             "%s\nCOMP_WORDS=(helmr %s)\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n_helmr\n"
             "echo ${COMPREPLY[@]}\n",
             printed(bash), words);

    const char *const argv[] = {"bash", "-c", script, NULL};

    if (!process_must(argv, STR(""), 20000, &out, &err) ||
        !buf_append(&out, (struct str){"", 1}, &err))
        return false;
    out.bytes[strcspn(out.bytes, "\n")] = '\0';
    if (strcmp(out.bytes, wanted) != 0)
        printf("# offered: %s\n", out.bytes);
    return !strcmp(out.bytes, wanted);
}

TEST(bash_completes_from_the_table)
{
    CHECK(offers("''", "run exec key --help"));
    CHECK(offers("r", "run"));
    CHECK(offers("run ''", "--payload --wait --queue --from --project --json list get --help"));
    CHECK(offers("run li", "list"));
    CHECK(offers("run --project list get --", "--project --json --help"));
    CHECK(offers("run list --", "--project --json --help"));
    CHECK(offers("key ''", "create --help"));
}

TEST(bash_completes_values_that_the_table_knows_and_files)
{
    CHECK(offers("run x --queue ''", "quick slow"));
    CHECK(offers("run x --queue s", "slow"));
    CHECK(offers("run x --queue = s", "slow"));
    CHECK(offers("run x --queue =", "quick slow"));
    CHECK(offers("run x --project ''", ""));
    CHECK(offers("run x --from /etc/os-rel", "/etc/os-release"));
    CHECK(offers("run x -f /etc/os-rel", "/etc/os-release"));
    CHECK(offers("key create x --queue ''", "--help"));
}

static void fish(FILE *out)
{
    command_print_completion(table, COUNT_OF(table), "fish", out);
}

static void zsh(FILE *out)
{
    command_print_completion(table, COUNT_OF(table), "zsh", out);
}

TEST(zsh_and_fish_get_every_command_and_quoted_help)
{
    CHECK(strstr(printed(fish), "-l wait -s w -d 'Wait for the end; don\\'t return at once.'\n"));
    CHECK(strstr(printed(fish), "-l queue -x -a 'quick slow' -d 'Where it waits.'\n"));
    CHECK(strstr(printed(fish), "-l from -r -F -s f"));
    CHECK(strstr(printed(fish), "complete -c helmr -n '__helmr_at run' -a list -d 'List runs'\n"));
    CHECK(!strncmp(printed(zsh), "#compdef helmr\n", 15));
    CHECK(strstr(printed(zsh), "\" run list\") words=\" --project --json --help\" ;;\n"));
    CHECK(command_has_completion("zsh") && !command_has_completion("ksh"));
}

static void run_man(FILE *out)
{
    command_print_man(table, COUNT_OF(table), &table[0], "1.2.3", out);
}

static void whole_man(FILE *out)
{
    command_print_man(table, COUNT_OF(table), NULL, "1.2.3", out);
}

TEST(a_manual_page_has_what_the_help_has)
{
    const char *text = printed(run_man);

    CHECK(!strncmp(text, ".TH \"HELMR-RUN\" 1 \"\" \"helmr 1.2.3\" \"Helmr\"\n", 43));
    CHECK(strstr(text, "helmr\\-run \\- Start a task\n"));
    CHECK(strstr(text, ".B helmr run\n[\\fIOPTIONS\\fR] TASK\n"));
    CHECK(strstr(text, "Example:\n.RS 4\n.EX\nhelmr run hello\n.EE\n.RE\n"));
    CHECK(strstr(text, "\\fB\\-p\\fR, \\fB\\-\\-payload\\fR \\fIK=V\\fR\n"));
    CHECK(strstr(text, "don\\(aqt return"));
    CHECK(strstr(printed(whole_man), "\\fBrun list\\fR\nList runs\n"));
    CHECK(!strstr(printed(whole_man), "inner"));
}

TEST_MAIN()
