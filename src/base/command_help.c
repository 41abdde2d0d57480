/* What base/command.h prints from the table as help. */
#include <stdlib.h>

#include "base/command.h"

#define PROGRAM "helmr"

static int full_width(const struct command *command)
{
    return (int)strlen(command->name) + (command->args ? 1 + (int)strlen(command->args) : 0);
}

static void print_overview(const struct command *table, size_t n, FILE *out)
{
    int width = 0;

    for (size_t i = 0; i < n; i++) {
        if (!table[i].internal && full_width(&table[i]) > width)
            width = full_width(&table[i]);
    }
    fprintf(out, "Usage: " PROGRAM " COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n");
    for (size_t i = 0; i < n; i++) {
        if (table[i].internal)
            continue;

        const char *args = table[i].args ? table[i].args : "";

        fprintf(out, "  %s%s%s%*s  %s\n", table[i].name, *args ? " " : "", args,
                width - full_width(&table[i]), "", table[i].summary);
    }
    fprintf(out, "\nMore about one of them: " PROGRAM " COMMAND --help\n");
}

static int option_width(const struct option *option)
{
    return (int)strlen(option->name) + (option->value ? 1 + (int)strlen(option->value) : 0);
}

static int widest(const struct option *list, int width)
{
    for (; list && list->name; list++) {
        if (option_width(list) > width)
            width = option_width(list);
    }
    return width;
}

static void print_options(const struct option *list, int width, FILE *out)
{
    for (; list && list->name; list++) {
        const char *value = list->value ? list->value : "";

        if (list->letter)
            fprintf(out, "  -%c, ", list->letter);
        else
            fprintf(out, "      ");
        fprintf(out, "--%s%s%s%*s  %s%s\n", list->name, *value ? " " : "", value,
                width - option_width(list), "", list->help,
                list->kind == OPTION_LIST ? " (may be repeated)" : "");
    }
}

static void print_command(const struct command *command, FILE *out)
{
    static const struct option help[] = {
        {"help", 'h', OPTION_FLAG, NULL, "Print this text."},
        {0},
    };
    int width = widest(command->options, widest(command->common, widest(help, 0)));

    fprintf(out, "Usage: " PROGRAM " %s [OPTIONS]%s%s\n\n%s\n", command->name,
            command->args ? " " : "", command->args ? command->args : "", command->summary);
    if (command->help)
        fprintf(out, "\n%s\n", command->help);
    fprintf(out, "\nOptions:\n");
    print_options(command->options, width, out);
    print_options(command->common, width, out);
    print_options(help, width, out);
}

void command_print_help(const struct command *table, size_t n, const struct command *command,
                        FILE *out)
{
    if (command)
        print_command(command, out);
    else
        print_overview(table, n, out);
}
