/* The rows of `helmr workspace shell`, `pty …`, `forward` and `preview`. */
#include "cli/commands.h"

static const struct option shell_options[] = {
    {"cwd", 0, OPTION_VALUE, "DIR", "Where the shell begins (the workspace)."},
    {"pty", 0, OPTION_VALUE, "PTY", "Come back to this terminal instead of a new one."},
    {0},
};

static const struct option create_options[] = {
    {"cwd", 0, OPTION_VALUE, "DIR", "Where the shell begins (the workspace)."},
    {"cols", 0, OPTION_VALUE, "N", "Columns (those of this terminal, else 80)."},
    {"rows", 0, OPTION_VALUE, "N", "Rows (those of this terminal, else 24)."},
    {"idempotency-key", 0, OPTION_VALUE, "KEY", "The same key makes the terminal only once."},
    {0},
};

static const struct option list_options[] = {
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

const struct command workspace_terminal_commands[] = {
    {
     .name = "workspace shell",
     .args = "WORKSPACE",
     .summary = "open a shell in a workspace",
     .help = "The workspace is mounted in a sandbox when it is not yet. At the start of a line\n"
                "~. detaches, and the shell goes on; ~? says so, ~~ is one ~. A connection that\n"
                "breaks is made again, without a lost byte. The exit code is the shell's.\n\n"
                "  helmr workspace shell 01981f4e-…\n"
                "  helmr workspace shell 01981f4e-… --pty 01981f5a-…", .options = shell_options,
     .common = cli_scope_options,
     .run = workspace_shell_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace pty create",
     .args = "WORKSPACE",
     .summary = "start a shell in a terminal that nobody looks at yet",
     .help = "Prints the ids of workspace and terminal.\n\n"
                "  helmr workspace pty create 01981f4e-… --cols 120 --rows 40", .options = create_options,
     .common = cli_scope_options,
     .run = workspace_pty_create_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace pty list",
     .args = "WORKSPACE",
     .summary = "list the terminals of a workspace, newest first",
     .help = "Columns: ID, STATE, COLS, ROWS, CREATED.\n\n"
                "  helmr workspace pty list 01981f4e-…", .options = list_options,
     .common = cli_scope_options,
     .run = workspace_pty_list_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace pty connect",
     .args = "WORKSPACE PTY",
     .summary = "look at a terminal and type into it",
     .help = "As `workspace shell --pty`. Any number of people may do so at a time.\n\n"
                "  helmr workspace pty connect 01981f4e-… 01981f5a-…", .common = cli_scope_options,
     .run = workspace_pty_connect_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace pty close",
     .args = "WORKSPACE PTY",
     .summary = "end a terminal and what runs in it",
     .help = "Prints the terminal and its state.\n\n"
                "  helmr workspace pty close 01981f4e-… 01981f5a-…", .common = cli_scope_options,
     .run = workspace_pty_close_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace forward",
     .args = "WORKSPACE LOCAL:PORT",
     .summary = "reach a port of a program in a workspace",
     .help =
            "Listens on 127.0.0.1:LOCAL until Ctrl-C; each connection goes to PORT in the\n"
            "sandbox, which must list it: network({ ports: [3000] }). With 0 as LOCAL any free\n"
            "port is taken and named.\n\n"
            "  helmr workspace forward 01981f4e-… 8080:3000", .common = cli_scope_options,
     .run = workspace_forward_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace preview",
     .args = "WORKSPACE PORT",
     .summary = "a link to a port of a program in a workspace",
     .help =
            "Prints a link for a browser. It opens once, within a minute, and shows the port for\n"
            "an hour, as long as the login or key is good. The sandbox must list the port, and\n"
            "the server must offer previews: HELMR_PREVIEW_URL.\n\n"
            "  helmr workspace preview 01981f4e-… 3000", .common = cli_scope_options,
     .run = workspace_preview_command,
     .min_args = 2,
     .max_args = 2,
     },
};

const size_t n_workspace_terminal_commands = COUNT_OF(workspace_terminal_commands);
