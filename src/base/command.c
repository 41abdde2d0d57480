#include "base/command.h"

#include <stdlib.h>
#include <unistd.h>

#define PROGRAM "helmr"

enum { WORDS_MAX = 4 };

/* One pass over argv; `at` is the token being read. */
struct parser {
    const struct command *table;
    size_t n;
    int argc;
    char **argv;
    bool is_taken[COMMAND_ARGS_MAX]; /* the command's own words */
    struct invocation *invocation;
    struct error *err;
};

static bool complain(const struct parser *parser, const char *what, const char *token)
{
    const struct command *command = parser->invocation->command;

    return error_set(parser->err, ERR_INVALID, "%s %.128s; see " PROGRAM "%s%s --help", what, token,
                     command ? " " : "", command ? command->name : "");
}

static const struct option *find_name(const struct option *list, struct str name)
{
    for (; list && list->name; list++) {
        if (str_equal(str_of(list->name), name))
            return list;
    }
    return NULL;
}

static const struct option *find_letter(const struct option *list, char letter)
{
    for (; list && list->name; list++) {
        if (list->letter == letter)
            return list;
    }
    return NULL;
}

static struct str long_name(const char *token)
{
    return (struct str){token + 2, strcspn(token + 2, "=")};
}

/* Before the command is known: whether any command's option of this form takes a value. */
static bool takes_next(const struct parser *parser, const char *token)
{
    bool is_long = token[1] == '-';

    if (strchr(token, '=') || (!is_long && token[2]))
        return false;
    for (size_t i = 0; i < parser->n; i++) {
        const struct option *lists[] = {parser->table[i].options, parser->table[i].common};

        for (size_t j = 0; j < COUNT_OF(lists); j++) {
            const struct option *option =
                is_long ? find_name(lists[j], long_name(token)) : find_letter(lists[j], token[1]);

            if (option)
                return option->kind != OPTION_FLAG;
        }
    }
    return false;
}

static bool is_option(const char *token)
{
    return token[0] == '-' && token[1];
}

/* Where the first words stand that are neither options nor their values. */
static size_t find_words(const struct parser *parser, int places[WORDS_MAX])
{
    size_t n = 0;

    for (int i = 1; i < parser->argc && n < WORDS_MAX; i++) {
        const char *token = parser->argv[i];

        if (!strcmp(token, "--"))
            break;
        if (!is_option(token))
            places[n++] = i;
        else if (takes_next(parser, token))
            i++;
    }
    return n;
}

/* How many of the words the name is made of, or 0 when they differ. */
static size_t match_words(const struct parser *parser, const char *name, const int *places,
                          size_t n_words)
{
    struct str rest = str_of(name), word;
    size_t n = 0;

    while (str_split(&rest, ' ', &word)) {
        if (n == n_words || !str_equal(word, str_of(parser->argv[places[n]])))
            return 0;
        n++;
    }
    return n;
}

static void find_command(struct parser *parser, const int *places, size_t n_words)
{
    size_t best = 0;

    for (size_t i = 0; i < parser->n; i++) {
        size_t matched = match_words(parser, parser->table[i].name, places, n_words);

        if (matched > best) {
            best = matched;
            parser->invocation->command = &parser->table[i];
        }
    }
    for (size_t i = 0; i < best; i++)
        parser->is_taken[places[i]] = true;
}

static bool is_group(const struct parser *parser, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i < parser->n; i++) {
        const char *name = parser->table[i].name;

        if (!strncmp(name, word, len) && name[len] == ' ')
            return true;
    }
    return false;
}

static bool no_command(const struct parser *parser, const int *places, size_t n_words)
{
    if (!n_words)
        return error_set(parser->err, ERR_INVALID, "no command given; see " PROGRAM " --help");

    const char *word = parser->argv[places[0]];

    if (!is_group(parser, word))
        return complain(parser, "no such command:", word);
    if (n_words > 1)
        return complain(parser, "no such sub-command:", parser->argv[places[1]]);
    return complain(parser, "a sub-command is missing after", word);
}

static bool add_value(struct parser *parser, const struct option *option, const char *value)
{
    struct invocation *invocation = parser->invocation;

    if (invocation->n_values == COMMAND_VALUES_MAX)
        return complain(parser, "too many options at", option->name);
    invocation->values[invocation->n_values++] = (struct option_value){option, value};
    return true;
}

static bool parse_long(struct parser *parser, int *at)
{
    const struct command *command = parser->invocation->command;
    const char *token = parser->argv[*at], *equals = strchr(token, '=');
    const struct option *option = find_name(command->options, long_name(token));

    if (!option)
        option = find_name(command->common, long_name(token));
    if (!option)
        return complain(parser, "no such option:", token);
    if (option->kind == OPTION_FLAG)
        return equals ? complain(parser, "no value belongs to", token)
                      : add_value(parser, option, NULL);
    if (equals)
        return add_value(parser, option, equals + 1);
    if (*at + 1 >= parser->argc)
        return complain(parser, "a value is missing after", token);
    return add_value(parser, option, parser->argv[++*at]);
}

/* A letter that both lists have is told apart by the form of its value. */
static const struct option *choose(const struct option *own, const struct option *common,
                                   const char *value)
{
    if (!own || !common)
        return own ? own : common;
    return value && strchr(value, '=') ? own : common;
}

static bool parse_letters(struct parser *parser, int *at)
{
    const struct command *command = parser->invocation->command;
    const char *token = parser->argv[*at];

    for (const char *letter = token + 1; *letter; letter++) {
        const struct option *own = find_letter(command->options, *letter);
        const struct option *common = find_letter(command->common, *letter);
        const char *next = *at + 1 < parser->argc ? parser->argv[*at + 1] : NULL;
        const char *value = letter[1] ? letter + 1 : next;
        const struct option *option = choose(own, common, value);

        if (!option)
            return complain(parser, "no such option:", token);
        if (option->kind != OPTION_FLAG) {
            if (!value)
                return complain(parser, "a value is missing after", token);
            *at += !letter[1];
            return add_value(parser, option, value);
        }
        if (!add_value(parser, option, NULL))
            return false;
    }
    return true;
}

static bool add_arg(struct parser *parser, const char *token)
{
    struct invocation *invocation = parser->invocation;
    int max = invocation->command->max_args;

    if (invocation->n_args == COMMAND_ARGS_MAX || (max >= 0 && (int)invocation->n_args >= max))
        return complain(parser, "unexpected argument:", token);
    invocation->args[invocation->n_args++] = token;
    return true;
}

static bool parse_token(struct parser *parser, int *at)
{
    const char *token = parser->argv[*at];

    if (!is_option(token))
        return add_arg(parser, token);
    return token[1] == '-' ? parse_long(parser, at) : parse_letters(parser, at);
}

static bool parse_tokens(struct parser *parser)
{
    bool options_ended = false;

    for (int i = 1; i < parser->argc; i++) {
        if (parser->is_taken[i])
            continue;
        if (!options_ended && !strcmp(parser->argv[i], "--"))
            options_ended = true;
        else if (options_ended ? !add_arg(parser, parser->argv[i]) : !parse_token(parser, &i))
            return false;
    }

    const struct command *command = parser->invocation->command;

    if ((int)parser->invocation->n_args < command->min_args)
        return complain(parser, "missing argument:", command->args ? command->args : "");
    return true;
}

/* Asked for before anything is checked: help must not depend on a right command line. */
static bool has_flag(const struct parser *parser, const char *name, const char *letter)
{
    for (int i = 1; i < parser->argc && strcmp(parser->argv[i], "--") != 0; i++) {
        if (!strcmp(parser->argv[i], name) || !strcmp(parser->argv[i], letter))
            return true;
        if (is_option(parser->argv[i]) && takes_next(parser, parser->argv[i]))
            i++;
    }
    return false;
}

bool command_parse(const struct command *table, size_t n, int argc, char **argv,
                   struct invocation *invocation, struct error *err)
{
    struct parser parser = {table, n, argc, argv, {0}, invocation, err};
    int places[WORDS_MAX];

    *invocation = (struct invocation){0};
    if (argc > COMMAND_ARGS_MAX)
        return error_set(err, ERR_INVALID, "over %d arguments", COMMAND_ARGS_MAX);

    size_t n_words = find_words(&parser, places);

    find_command(&parser, places, n_words);
    invocation->wants_help = has_flag(&parser, "--help", "-h");
    invocation->wants_version = !invocation->command && has_flag(&parser, "--version", "--version");
    if (invocation->wants_help || invocation->wants_version)
        return true;
    if (!invocation->command)
        return no_command(&parser, places, n_words);
    return parse_tokens(&parser);
}

bool invocation_has(const struct invocation *invocation, const char *option)
{
    for (size_t i = 0; i < invocation->n_values; i++) {
        if (!strcmp(invocation->values[i].option->name, option))
            return true;
    }
    return false;
}

const char *invocation_value(const struct invocation *invocation, const char *option)
{
    for (size_t i = invocation->n_values; i > 0; i--) {
        if (!strcmp(invocation->values[i - 1].option->name, option))
            return invocation->values[i - 1].value;
    }
    return NULL;
}

const char *invocation_nth(const struct invocation *invocation, const char *option, size_t index)
{
    for (size_t i = 0; i < invocation->n_values; i++) {
        if (!strcmp(invocation->values[i].option->name, option) && index-- == 0)
            return invocation->values[i].value;
    }
    return NULL;
}

bool invocation_confirm(const struct invocation *invocation, const char *question, bool *agreed,
                        struct error *err)
{
    char answer[16] = "";

    *agreed = true;
    if (invocation_has(invocation, "yes"))
        return true;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return error_set(err, ERR_INVALID, "%s Say so with --yes", question);
    fprintf(stderr, "%s [y/N] ", question);
    *agreed = fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
    return true;
}
