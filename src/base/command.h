/* Commands as data: name, arguments, options, help and function in one row.
 *
 * The same table drives parsing, --help, shell completion and manual pages. A
 * command returns its exit status; an error is printed by the caller as `helmr: text`.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"

enum option_kind { OPTION_FLAG, OPTION_VALUE, OPTION_LIST };

struct option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *value; /* what the value is called in --help: DIR, URL */
    const char *help;
    const char *choices; /* values there are, separated by white space; NULL: any */
};

enum { COMMAND_VALUES_MAX = 64, COMMAND_ARGS_MAX = 256 };

struct command;

struct invocation {
    const struct command *command;
    const char *args[COMMAND_ARGS_MAX];
    size_t n_args;
    struct option_value {
        const struct option *option;
        const char *value; /* NULL for a flag */
    } values[COMMAND_VALUES_MAX];
    size_t n_values;
    bool wants_help;    /* --help: print that of `command`, which may be NULL, and run nothing */
    bool wants_version; /* --version without a command */
};

typedef bool command_run(const struct invocation *invocation, int *exit_code, struct error *err);

struct command {
    const char *name;             /* "run list": words separated by a blank */
    const char *args;             /* "TASK", "[PATH]", "ID"; NULL: none */
    const char *summary;          /* one line for the list of commands */
    const char *help;             /* paragraphs and at least one example for --help */
    const struct option *options; /* ended by {0}; NULL: none */
    const struct option *common;  /* a second, shared list (such as scope and --json) or NULL */
    command_run *run;
    bool internal;          /* not listed */
    int min_args, max_args; /* max_args -1: no limit */
    const char *choices;    /* what the first argument can be, separated by blanks; NULL: any */
};

/* argc and argv as main got them. Finds the command of the longest matching name and parses the
 * rest. Options may stand anywhere; `--` ends them. A letter that both lists have goes to the
 * command's own option when its value holds a '=', else to the common one. ERR_INVALID says what
 * is wrong and names `helmr X --help`. */
bool command_parse(const struct command *table, size_t n, int argc, char **argv,
                   struct invocation *invocation, struct error *err) MUST_USE;

bool invocation_has(const struct invocation *invocation, const char *option);
const char *invocation_value(const struct invocation *invocation, const char *option); /* or NULL */
/* The i-th value of a repeated option, or NULL. */
const char *invocation_nth(const struct invocation *invocation, const char *option, size_t index);

/* Asks on a terminal; without --yes and without a terminal it is an error. *agreed is false when
 * the answer was no. */
bool invocation_confirm(const struct invocation *invocation, const char *question, bool *agreed,
                        struct error *err) MUST_USE;

void command_print_help(const struct command *table, size_t n, const struct command *command,
                        FILE *out); /* command NULL: the overview */

bool command_has_completion(const char *shell); /* "bash", "zsh", "fish" */
void command_print_completion(const struct command *table, size_t n, const char *shell, FILE *out);

/* The page of one command, or with NULL of the program; command_write_man writes them all, each
 * to a file of its name. */
void command_print_man(const struct command *table, size_t n, const struct command *command,
                       const char *version, FILE *out);
bool command_write_man(const struct command *table, size_t n, const char *version,
                       const char *directory, struct error *err) MUST_USE;
