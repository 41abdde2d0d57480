/* What base/command.h prints from the table: help and shell completion. */
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

/* Whether a listed command before this one begins with the same words. */
static bool was_printed(const struct command *table, size_t at, size_t prefix_len)
{
    for (size_t i = 0; i < at; i++) {
        const char *name = table[i].name;

        if (!table[i].internal && !strncmp(name, table[at].name, prefix_len) &&
            (name[prefix_len] == ' ' || !name[prefix_len]))
            return true;
    }
    return false;
}

/* Calls `visit` once for every prefix of every listed name: "run", then "run list". */
static void each_prefix(const struct command *table, size_t n, FILE *out,
                        void (*visit)(const struct command *table, size_t n, struct str prefix,
                                      FILE *out))
{
    for (size_t i = 0; i < n; i++) {
        const char *name = table[i].name;

        for (size_t len = 1; !table[i].internal && len <= strlen(name); len++) {
            bool is_end = name[len] == ' ' || !name[len];

            if (is_end && !was_printed(table, i, len))
                visit(table, n, (struct str){name, len}, out);
        }
    }
}

static void print_option_names(const struct option *list, FILE *out)
{
    for (; list && list->name; list++)
        fprintf(out, " --%s", list->name);
}

/* The words and options that may follow the prefix. */
static void print_following(const struct command *table, size_t n, struct str prefix, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = table[i].name;
        size_t skip = prefix.len ? prefix.len + 1 : 0;

        if (table[i].internal || strncmp(name, prefix.ptr, prefix.len) != 0)
            continue;
        if (prefix.len && !name[prefix.len]) {
            print_option_names(table[i].options, out);
            print_option_names(table[i].common, out);
        } else if (!prefix.len || name[prefix.len] == ' ') {
            size_t len = strcspn(name + skip, " ");

            if (!was_printed(table, i, skip + len))
                fprintf(out, " %.*s", (int)len, name + skip);
        }
    }
}

static void print_known(const struct command *table UNUSED, size_t n UNUSED, struct str prefix,
                        FILE *out)
{
    fprintf(out, "|\" %.*s\"", (int)prefix.len, prefix.ptr);
}

static void print_case(const struct command *table, size_t n, struct str prefix, FILE *out)
{
    fprintf(out, "    \"%s%.*s\") words=\"", prefix.len ? " " : "", (int)prefix.len, prefix.ptr);
    print_following(table, n, prefix, out);
    fprintf(out, " --help\" ;;\n");
}

/* bash and zsh: the words typed so far name a place in the tree; a case lists what may follow. */
static void print_cases(const struct command *table, size_t n, FILE *out)
{
    fprintf(out, "    case \"$place $word\" in \"\"");
    each_prefix(table, n, out, print_known);
    fprintf(out, ") place=\"$place $word\" ;; esac\n  done\n  case \"$place\" in\n");
    print_case(table, n, (struct str){"", 0}, out);
    each_prefix(table, n, out, print_case);
    fprintf(out, "  esac\n");
}

static void print_bash(const struct command *table, size_t n, FILE *out)
{
    fprintf(out, "_" PROGRAM "() {\n"
                 "  local place=\"\" words=\"\" word\n"
                 "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n");
    print_cases(table, n, out);
    fprintf(out, "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
                 "}\n"
                 "complete -o default -F _" PROGRAM " " PROGRAM "\n");
}

static void print_zsh(const struct command *table, size_t n, FILE *out)
{
    fprintf(out, "#compdef " PROGRAM "\n"
                 "_" PROGRAM "() {\n"
                 "  local place=\"\" typed=(\"${(@)words[2,CURRENT-1]}\") words=\"\" word\n"
                 "  for word in \"${typed[@]}\"; do\n");
    print_cases(table, n, out);
    fprintf(out, "  compadd -- ${=words}\n  _files\n}\n"
                 "compdef _" PROGRAM " " PROGRAM "\n");
}

static void print_fish_quoted(const char *text, FILE *out)
{
    for (putc('\'', out); *text; text++) {
        if (*text == '\'' || *text == '\\')
            putc('\\', out);
        putc(*text, out);
    }
    putc('\'', out);
}

static void print_fish_options(const struct command *command, const struct option *list, FILE *out)
{
    for (; list && list->name; list++) {
        fprintf(out, "complete -c " PROGRAM " -n '__" PROGRAM "_in %s' -l %s%s -d ", command->name,
                list->name, list->kind == OPTION_FLAG ? "" : " -r");
        print_fish_quoted(list->help, out);
        putc('\n', out);
    }
}

static void print_fish(const struct command *table, size_t n, FILE *out)
{
    fprintf(out, "function __" PROGRAM "_words\n"
                 "  for word in (commandline -opc)[2..-1]\n"
                 "    string match -q -- '-*' $word; or echo $word\n"
                 "  end\n"
                 "end\n"
                 "function __" PROGRAM "_at; test \"$(__" PROGRAM "_words)\" = \"$argv\"; end\n"
                 "function __" PROGRAM "_in; string match -q -- \"$argv*\" \"$(__" PROGRAM
                 "_words)\"; end\n");
    for (size_t i = 0; i < n; i++) {
        const char *name = table[i].name, *blank = strrchr(name, ' ');

        if (table[i].internal)
            continue;
        fprintf(out, "complete -c " PROGRAM " -n '__" PROGRAM "_at %.*s' -a %s -d ",
                blank ? (int)(blank - name) : 0, name, blank ? blank + 1 : name);
        print_fish_quoted(table[i].summary, out);
        putc('\n', out);
        print_fish_options(&table[i], table[i].options, out);
        print_fish_options(&table[i], table[i].common, out);
    }
}

static const struct {
    const char *shell;
    void (*print)(const struct command *table, size_t n, FILE *out);
} completions[] = {
    {"bash", print_bash},
    {"zsh",  print_zsh },
    {"fish", print_fish},
};

bool command_has_completion(const char *shell)
{
    for (size_t i = 0; i < COUNT_OF(completions); i++) {
        if (!strcmp(completions[i].shell, shell))
            return true;
    }
    return false;
}

void command_print_completion(const struct command *table, size_t n, const char *shell, FILE *out)
{
    for (size_t i = 0; i < COUNT_OF(completions); i++) {
        if (!strcmp(completions[i].shell, shell))
            completions[i].print(table, n, out);
    }
}
