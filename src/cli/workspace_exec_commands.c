/* The rows of `helmr workspace exec …`. */
#include "cli/commands.h"

static const struct option exec_options[] = {
    {"detach", 0, OPTION_FLAG, NULL, "Print the command's id and do not wait for it."},
    {"cwd", 0, OPTION_VALUE, "DIR", "Where it begins (the workspace)."},
    {"set-env", 0, OPTION_LIST, "NAME=VALUE", "A variable of its environment."},
    {"timeout", 0, OPTION_VALUE, "DURATION", "End it after so long: TERM, and KILL 10 s later."},
    {"idempotency-key", 0, OPTION_VALUE, "KEY", "The same key runs the command only once."},
    {0},
};

static const struct option list_options[] = {
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option logs_options[] = {
    {"cursor", 0, OPTION_VALUE, "OFFSET", "Begin behind this byte of its output."},
    {"follow", 'f', OPTION_FLAG, NULL, "Go on until it ends."},
    {0},
};

static const struct option kill_options[] = {
    {"signal", 0, OPTION_VALUE, "NAME", "The signal to send (TERM).", "TERM KILL INT HUP"},
    {0},
};

const struct command workspace_exec_commands[] = {
    {
     .name = "workspace exec",
     .args = "WORKSPACE -- COMMAND…",
     .summary = "run a command in a workspace",
     .help =
            "The workspace is mounted in a sandbox when it is not yet. Input, output and errors\n"
            "are connected, and the exit code is the command's: 128 and the number of the signal\n"
            "that ended it. Ctrl-C sends it INT; a second one kills it and does not wait.\n\n"
            "  helmr workspace exec 01981f4e-… -- npm test\n"
            "  tar c . | helmr workspace exec 01981f4e-… -- tar x\n"
            "  helmr workspace exec 01981f4e-… --detach -- make watch", .options = exec_options,
     .common = cli_scope_options,
     .run = workspace_exec_command,
     .min_args = 2,
     .max_args = -1,
     },
    {
     .name = "workspace exec list",
     .args = "WORKSPACE",
     .summary = "list the commands of a workspace, newest first",
     .help = "Columns: ID, STATE, EXIT CODE, COMMAND, CREATED.\n\n"
                "  helmr workspace exec list 01981f4e-…", .options = list_options,
     .common = cli_scope_options,
     .run = workspace_exec_list_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace exec get",
     .args = "WORKSPACE EXEC",
     .summary = "show one command",
     .help = "  helmr workspace exec get 01981f4e-… 01981f5a-…",
     .common = cli_scope_options,
     .run = workspace_exec_get_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace exec logs",
     .args = "WORKSPACE EXEC",
     .summary = "print what a command printed",
     .help = "Of each stream the last 16 MiB are kept.\n\n"
                "  helmr workspace exec logs 01981f4e-… 01981f5a-… --follow", .options = logs_options,
     .common = cli_scope_options,
     .run = workspace_exec_logs_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace exec wait",
     .args = "WORKSPACE EXEC",
     .summary = "wait until a command ends",
     .help = "Prints how it ended; the exit code is the command's.\n\n"
                "  helmr workspace exec wait 01981f4e-… 01981f5a-…", .common = cli_scope_options,
     .run = workspace_exec_wait_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace exec kill",
     .args = "WORKSPACE EXEC",
     .summary = "send a command a signal",
     .help = "  helmr workspace exec kill 01981f4e-… 01981f5a-… --signal KILL",
     .options = kill_options,
     .common = cli_scope_options,
     .run = workspace_exec_kill_command,
     .min_args = 2,
     .max_args = 2,
     },
};

const size_t n_workspace_exec_commands = COUNT_OF(workspace_exec_commands);
