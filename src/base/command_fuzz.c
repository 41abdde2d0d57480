/* Property: the arguments of a line that parses, given again behind a double hyphen, parse to
 * the same command and the same number of arguments. */
#include "base/command.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct option options[] = {
    {"payload", 'p', OPTION_LIST, "K=V", "Pairs."},
    {"dir", 'd', OPTION_VALUE, "DIR", "A folder."},
    {"wait", 'w', OPTION_FLAG, NULL, "Wait."},
    {0},
};

static const struct option common[] = {
    {"project", 'p', OPTION_VALUE, "P", "A project."},
    {"json", 0, OPTION_FLAG, NULL, "JSON."},
    {0},
};

static const struct command table[] = {
    {"run",            "TASK", "Start", NULL, options, common, NULL, false, 0, -1},
    {"run list",       NULL,   "List",  NULL, NULL,    common, NULL, false, 0, 2 },
    {"workspace exec", "W",    "Run",   NULL, options, NULL,   NULL, false, 0, -1},
};

enum { TOKENS_MAX = 32 };

/* The arguments again, all of them behind the double hyphen. */
static void check_again(const struct invocation *first)
{
    static struct invocation second;
    char program[] = "helmr", one[] = "run", two[] = "list", end[] = "--";
    char *argv[COMMAND_ARGS_MAX] = {program, one};
    int argc = 2;
    struct error err;

    if (first->command == &table[1])
        argv[argc++] = two;
    argv[argc++] = end;
    for (size_t i = 0; i < first->n_args; i++)
        argv[argc++] = (char *)first->args[i];
    if (!command_parse(table, COUNT_OF(table), argc, argv, &second, &err))
        abort();
    if (second.command != first->command || second.n_args != first->n_args || second.n_values)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct invocation invocation;
    char text[1024], program[] = "helmr", *argv[TOKENS_MAX + 1] = {program};
    int argc = 1;
    struct error err;

    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; at && argc < TOKENS_MAX; argc++) {
        argv[argc] = at;
        at = strchr(at, '\n');
        if (at)
            *at++ = '\0';
    }
    if (!command_parse(table, COUNT_OF(table), argc, argv, &invocation, &err))
        return 0;
    if (invocation.wants_help || invocation.wants_version)
        return 0;
    if (!invocation.command || invocation.n_args > COMMAND_ARGS_MAX)
        abort();
    if (invocation.command != &table[2])
        check_again(&invocation);
    return 0;
}
