/* Shell completion out of the table of commands.
 *
 * The words typed so far name a *place* in the tree of commands ("run list"). A place has words
 * that may follow it, options that take a value, and for some of these the values there are. Words
 * that are values of options are no part of the place.
 */
#include <stdlib.h>

#include "base/command.h"

#define PROGRAM "helmr"

/* What is asked for where a file of this host is meant. */
static bool is_file(const char *value)
{
    static const char *const names[] = {"FILE", "DIR", "PATH", "[PATH]", "[FILE]", "[DIR]"};

    for (size_t i = 0; value && i < COUNT_OF(names); i++) {
        if (!strcmp(value, names[i]))
            return true;
    }
    return false;
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

/* Calls `visit` for every option of every listed command. */
static void each_option(const struct command *table, size_t n, FILE *out,
                        void (*visit)(const struct command *command, const struct option *option,
                                      FILE *out))
{
    for (size_t i = 0; i < n; i++) {
        const struct option *lists[] = {table[i].options, table[i].common};

        for (size_t j = 0; !table[i].internal && j < COUNT_OF(lists); j++) {
            for (const struct option *option = lists[j]; option && option->name; option++)
                visit(&table[i], option, out);
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
            fprintf(out, "%s%s", table[i].choices ? " " : "",
                    table[i].choices ? table[i].choices : "");
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

static bool takes_file(const struct command *table, size_t n, struct str prefix)
{
    for (size_t i = 0; i < n; i++) {
        if (str_equal(str_of(table[i].name), prefix))
            return is_file(table[i].args);
    }
    return false;
}

static void print_place(const struct command *table, size_t n, struct str prefix, FILE *out)
{
    fprintf(out, "    \"%s%.*s\") words=\"", prefix.len ? " " : "", (int)prefix.len, prefix.ptr);
    print_following(table, n, prefix, out);
    fprintf(out, " --help\"%s ;;\n", takes_file(table, n, prefix) ? "; files=1" : "");
}

/* A row per option with a value; `words` is then what may be the value. */
static void print_value(const struct command *command, const struct option *option, FILE *out)
{
    if (option->kind == OPTION_FLAG)
        return;
    fprintf(out, "    \" %s --%s\"", command->name, option->name);
    if (option->letter)
        fprintf(out, "|\" %s -%c\"", command->name, option->letter);
    fprintf(out, ") words=\"%s\"; files=%s ;;\n", option->choices ? option->choices : "",
            is_file(option->value) ? "1" : "");
}

/* Options of one name take a value in every command that has them, so this needs no place. */
static void print_taking(const struct command *command UNUSED, const struct option *option,
                         FILE *out)
{
    if (option->kind == OPTION_FLAG)
        return;
    fprintf(out, "|--%s", option->name);
    if (option->letter)
        fprintf(out, "|-%c", option->letter);
}

/* bash and zsh: a loop over the words before the one wanted, then a case over where that led. */
static void print_cases(const struct command *table, size_t n, FILE *out)
{
    fprintf(out, "    if [ -n \"$skip\" ]; then skip=; continue; fi\n"
                 "    case \"$word\" in \"\"");
    each_option(table, n, out, print_taking);
    fprintf(out, ") skip=1 ;; esac\n"
                 "    case \"$place $word\" in \"\"");
    each_prefix(table, n, out, print_known);
    fprintf(out, ") place=\"$place $word\" ;; esac\n"
                 "  done\n"
                 "  case \"$place\" in\n");
    print_place(table, n, (struct str){"", 0}, out);
    each_prefix(table, n, out, print_place);
    fprintf(out, "  esac\n"
                 "  case \"$place $previous\" in\n");
    each_option(table, n, out, print_value);
    fprintf(out, "  esac\n");
}

/* An equals sign is a word of its own in bash. */
static void print_bash(const struct command *table, size_t n, FILE *out)
{
    fprintf(out, "_" PROGRAM "() {\n"
                 "  local IFS=$' \\t\\n' place=\"\" words=\"\" files=\"\" skip=\"\" word\n"
                 "  local at=$COMP_CWORD wanted=\"${COMP_WORDS[COMP_CWORD]}\"\n"
                 "  if [ \"$wanted\" = = ]; then wanted=\"\";\n"
                 "  elif [ \"${COMP_WORDS[at-1]}\" = = ]; then at=$((at - 1)); fi\n"
                 "  local previous=\"${COMP_WORDS[at-1]}\"\n"
                 "  for word in \"${COMP_WORDS[@]:1:at-1}\"; do\n"
                 "    if [ \"$word\" = = ]; then skip=1; continue; fi\n");
    print_cases(table, n, out);
    fprintf(out, "  words=\"$(compgen -W \"$words\" -- \"$wanted\")\"\n"
                 "  IFS=$'\\n'\n"
                 "  COMPREPLY=($words)\n"
                 "  if [ -n \"$files\" ]; then\n"
                 "    compopt -o filenames 2>/dev/null\n"
                 "    COMPREPLY+=($(compgen -f -- \"$wanted\"))\n"
                 "  fi\n"
                 "}\n"
                 "complete -F _" PROGRAM " " PROGRAM "\n");
}

static void print_zsh(const struct command *table, size_t n, FILE *out)
{
    fprintf(out, "#compdef " PROGRAM "\n"
                 "_" PROGRAM "() {\n"
                 "  local place=\"\" files=\"\" skip=\"\" word previous=\"${words[CURRENT-1]}\"\n"
                 "  local typed=(\"${(@)words[2,CURRENT-1]}\")\n"
                 "  if [[ \"${words[CURRENT]}\" = --*=* ]]; then\n"
                 "    previous=\"${words[CURRENT]%%%%=*}\"\n"
                 "    compset -P '*='\n"
                 "  fi\n"
                 "  local words=\"\"\n"
                 "  for word in \"${typed[@]}\"; do\n");
    print_cases(table, n, out);
    fprintf(out, "  compadd -- ${=words}\n"
                 "  if [[ -n \"$files\" ]]; then _files; fi\n"
                 "}\n"
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

static void print_fish_known(const struct command *table UNUSED, size_t n UNUSED, struct str prefix,
                             FILE *out)
{
    fprintf(out, " ' %.*s'", (int)prefix.len, prefix.ptr);
}

static void print_fish_taking(const struct command *command UNUSED, const struct option *option,
                              FILE *out)
{
    if (option->kind == OPTION_FLAG)
        return;
    fprintf(out, " --%s", option->name);
    if (option->letter)
        fprintf(out, " -%c", option->letter);
}

static void print_fish_option(const struct command *command, const struct option *option, FILE *out)
{
    bool is_flag = option->kind == OPTION_FLAG;

    fprintf(out, "complete -c " PROGRAM " -n '__" PROGRAM "_at %s' -l %s%s", command->name,
            option->name,
            is_flag                  ? ""
            : is_file(option->value) ? " -r -F"
                                     : " -x");
    if (option->letter)
        fprintf(out, " -s %c", option->letter);
    if (option->choices) {
        fprintf(out, " -a ");
        print_fish_quoted(option->choices, out);
    }
    fprintf(out, " -d ");
    print_fish_quoted(option->help, out);
    putc('\n', out);
}

static void print_fish_group(const struct command *table, size_t n, struct str prefix, FILE *out)
{
    const char *word = prefix.ptr + prefix.len, *summary = NULL;

    while (word > prefix.ptr && word[-1] != ' ')
        word--;
    for (size_t i = 0; i < n; i++) {
        if (str_equal(str_of(table[i].name), prefix))
            summary = table[i].summary;
    }
    size_t len = (size_t)(prefix.ptr + prefix.len - word);
    fprintf(out, "complete -c " PROGRAM " -n '__" PROGRAM "_at%s%.*s' -a %.*s",
            word > prefix.ptr ? " " : "", word > prefix.ptr ? (int)(word - prefix.ptr - 1) : 0,
            prefix.ptr, (int)len, word);
    if (summary) {
        fprintf(out, " -d ");
        print_fish_quoted(summary, out);
    }
    putc('\n', out);
}

static void print_fish_args(const struct command *command, FILE *out)
{
    if (!command->internal && is_file(command->args))
        fprintf(out, "complete -c " PROGRAM " -n '__" PROGRAM "_at %s' -F\n", command->name);
    if (!command->internal && command->choices)
        fprintf(out, "complete -c " PROGRAM " -n '__" PROGRAM "_at %s' -a '%s'\n", command->name,
                command->choices);
}

static void print_fish(const struct command *table, size_t n, FILE *out)
{
    fprintf(out, "set -g __" PROGRAM "_known");
    each_prefix(table, n, out, print_fish_known);
    fprintf(out, "\nset -g __" PROGRAM "_taking");
    each_option(table, n, out, print_fish_taking);
    fprintf(out, "\nfunction __" PROGRAM "_at\n"
                 "  set -l place ''\n"
                 "  set -l skip 0\n"
                 "  for word in (commandline -opc)[2..-1]\n"
                 "    if test $skip = 1\n"
                 "      set skip 0\n"
                 "    else if contains -- $word $__" PROGRAM "_taking\n"
                 "      set skip 1\n"
                 "    else if contains -- \"$place $word\" $__" PROGRAM "_known\n"
                 "      set place \"$place $word\"\n"
                 "    end\n"
                 "  end\n"
                 "  test \"$place\" = (string join '' ' '$argv)\n"
                 "end\n"
                 "complete -c " PROGRAM " -f\n"
                 "complete -c " PROGRAM " -l help -s h -d 'Print help.'\n");
    each_prefix(table, n, out, print_fish_group);
    each_option(table, n, out, print_fish_option);
    for (size_t i = 0; i < n; i++)
        print_fish_args(&table[i], out);
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
