/* `helmr`: one table of commands, joined from those that speak the API, the server's and the
 * worker's. Errors are printed here and nowhere else. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/command.h"
#include "base/log.h"
#include "base/own.h"
#include "cli/commands.h"
#include "doctor.h"
#include "server/server.h"
#include "up.h"
#include "worker/commands.h"

enum { EXIT_INTERRUPTED = 130, NEAR = 2, WORD_MAX = 32 };

static struct command *table;
static size_t n_table;

static bool completion_command(const struct invocation *invocation, int *exit_code,
                               struct error *err)
{
    const char *shell = invocation->args[0];

    if (!command_has_completion(shell))
        return error_set(err, ERR_INVALID, "no completion for %.32s: bash, zsh or fish", shell);
    command_print_completion(table, n_table, shell, stdout);
    *exit_code = 0;
    return true;
}

/* Into a folder, or the page of the program to stdout. */
static bool man_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    if (invocation->n_args > 0)
        return command_write_man(table, n_table, HELMR_VERSION, invocation->args[0], err);
    command_print_man(table, n_table, NULL, HELMR_VERSION, stdout);
    return true;
}

static const struct command own_commands[] = {
    {
     .name = "completion",
     .args = "SHELL",
     .summary = "print completion for bash, zsh or fish",
     .help = "  source <(helmr completion bash)\n"
                "  helmr completion zsh > ~/.zfunc/_helmr\n"
                "  helmr completion fish > ~/.config/fish/completions/helmr.fish", .run = completion_command,
     .min_args = 1,
     .max_args = 1,
     .choices = "bash zsh fish",
     },
    {
     .name = "man",
     .args = "[DIR]",
     .summary = "write the manual pages into a folder",
     .help = "One page per command, helmr-run-list.1 and so on. Without DIR the page of helmr\n"
                "itself goes to stdout.\n\n"
                "  helmr man /usr/local/share/man/man1\n  helmr man | man -l -", .run = man_command,
     .max_args = 1,
     },
};

static void join_tables(void)
{
    const struct {
        const struct command *rows;
        size_t n;
    } parts[] = {
        {up_commands,                 n_up_commands                },
        {cli_commands,                n_cli_commands               },
        {session_commands,            n_session_commands           },
        {workspace_commands,          n_workspace_commands         },
        {workspace_files_commands,    n_workspace_files_commands   },
        {workspace_exec_commands,     n_workspace_exec_commands    },
        {workspace_terminal_commands, n_workspace_terminal_commands},
        {token_commands,              n_token_commands             },
        {schedule_commands,           n_schedule_commands          },
        {account_commands,            n_account_commands           },
        {server_commands,             n_server_commands            },
        {fleet_commands,              n_fleet_commands             },
        {doctor_commands,             n_doctor_commands            },
        {worker_commands,             n_worker_commands            },
        {own_commands,                COUNT_OF(own_commands)       },
    };

    for (size_t i = 0; i < COUNT_OF(parts); i++)
        n_table += parts[i].n;
    table = alloc(n_table * sizeof *table);
    struct command *next = table;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        memcpy(next, parts[i].rows, parts[i].n * sizeof *next);
        next += parts[i].n;
    }
}

/* The first word that is no option; values of options before it are rare enough. */
static const char *first_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            return argv[i];
    }
    return NULL;
}

/* How many letters must be added, dropped or changed. */
static size_t distance(struct str a, struct str b)
{
    size_t row[WORD_MAX + 1];

    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t changed = diagonal + (a.ptr[i - 1] != b.ptr[j - 1]);
            size_t shorter = row[j] + 1, longer = row[j - 1] + 1;

            diagonal = row[j];
            row[j] = changed < shorter ? changed : shorter;
            row[j] = row[j] < longer ? row[j] : longer;
        }
    }
    return row[b.len];
}

/* The command whose first word is nearest, when one is near at all. */
static const char *suggest(const char *word, char nearest[WORD_MAX + 1])
{
    size_t best = NEAR + 1;

    if (strlen(word) > WORD_MAX)
        return NULL;
    for (size_t i = 0; i < n_table; i++) {
        struct str rest = str_of(table[i].name), first;

        if (table[i].internal || !str_split(&rest, ' ', &first) || first.len > WORD_MAX)
            continue;
        size_t far = distance(str_of(word), first);
        if (far < best && far < first.len) {
            best = far;
            snprintf(nearest, WORD_MAX + 1, "%.*s", (int)first.len, first.ptr);
        }
    }
    return best <= NEAR ? nearest : NULL;
}

static void complain(const struct error *err)
{
    fprintf(stderr, "helmr: %s\n", err->text);
}

static int refuse(int argc, char **argv, const struct invocation *invocation, struct error *err)
{
    char nearest[WORD_MAX + 1];
    const char *word = first_word(argc, argv);
    const char *meant = !invocation->command && word ? suggest(word, nearest) : NULL;

    if (meant && strcmp(meant, word) != 0)
        error_set(err, ERR_INVALID, "no such command: %.64s; did you mean `helmr %s`?", word,
                  meant);
    complain(err);
    return 1;
}

/* The commands whose names begin with the words and go on. */
static size_t find_group(const char *words, struct command *group)
{
    size_t len = strlen(words), n = 0;

    for (size_t i = 0; len > 0 && i < n_table; i++) {
        if (!strncmp(table[i].name, words, len) && table[i].name[len] == ' ')
            group[n++] = table[i];
    }
    return n;
}

/* `helmr key --help` lists what begins with key, `helmr session stream --help` what begins with
 * both words. */
static void print_help(int argc, char **argv, const struct command *command)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct command *group = arena_array(&arena, n_table, sizeof *group);
    const char *words = "";
    size_t n = 0;

    for (int i = 1; i < argc && !command; i++) {
        if (argv[i][0] == '-')
            continue;
        const char *longer = arena_printf(&arena, "%s%s%s", words, *words ? " " : "", argv[i]);
        size_t found = find_group(longer, group);
        if (found == 0)
            break;
        n = found;
        words = longer;
    }
    if (n > 0)
        n = find_group(words, group);
    command_print_help(n > 0 ? group : table, n > 0 ? n : n_table, command, stdout);
}

/* The server reads these settings for itself, from its file too. */
static bool set_up_log(const struct command *command, struct error *err)
{
    const char *level_text = getenv("HELMR_LOG_LEVEL"), *format_text = getenv("HELMR_LOG_FORMAT");
    enum log_format format = isatty(STDERR_FILENO) ? LOG_TEXT : LOG_JSON;
    enum log_level level = LOG_INFO;

    if (strcmp(command->name, "worker") != 0 && strcmp(command->name, "up") != 0)
        return true;
    if (level_text && *level_text && !log_level_parse(str_of(level_text), &level))
        return error_set(err, ERR_INVALID, "HELMR_LOG_LEVEL must be debug, info, warn or error");
    if (format_text && *format_text && !log_format_parse(str_of(format_text), &format))
        return error_set(err, ERR_INVALID, "HELMR_LOG_FORMAT must be text or json");
    log_setup(level, format, command->name);
    return true;
}

/* What a command leaves behind must be in order at any instruction, so there is nothing to do. */
static void interrupted(int number UNUSED)
{
    _exit(EXIT_INTERRUPTED);
}

static int run(const struct invocation *invocation)
{
    struct error err = {0};
    int exit_code = 1;

    if (!set_up_log(invocation->command, &err) ||
        !invocation->command->run(invocation, &exit_code, &err)) {
        /* Whoever read our output has gone: there is nobody to tell. */
        if (err.sys != EPIPE)
            complain(&err);
        return 1;
    }
    return exit_code;
}

static int flush(int exit_code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    if (errno != EPIPE)
        fprintf(stderr, "helmr: writing the output failed\n");
    return 1;
}

int main(int argc, char **argv)
{
    struct invocation invocation;
    struct error err = {0};

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupted}, NULL);
    join_tables();
    if (!command_parse(table, n_table, argc, argv, &invocation, &err))
        return refuse(argc, argv, &invocation, &err);
    if (invocation.wants_help)
        print_help(argc, argv, invocation.command);
    else if (invocation.wants_version)
        puts(HELMR_VERSION);
    return flush(invocation.wants_help || invocation.wants_version ? 0 : run(&invocation));
}
