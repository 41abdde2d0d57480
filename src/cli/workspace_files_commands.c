/* The rows of `helmr workspace files …`. */
#include "cli/commands.h"

#define READ_OPTIONS                                                                          \
    {"version", 0, OPTION_VALUE, "VERSION", "Read this version instead of the current one."}, \
        {"live", 0, OPTION_FLAG, NULL, "Read what the mounted sandbox has right now."}

static const struct option read_options[] = {
    READ_OPTIONS,
    {0},
};

static const struct option list_options[] = {
    READ_OPTIONS,
    {"name", 0, OPTION_VALUE, "GLOB", "Only names that match; with a slash, whole paths."},
    {"recursive", 'r', OPTION_FLAG, NULL, "Everything below, too."},
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option put_options[] = {
    {"mode", 0, OPTION_VALUE, "MODE",
     "The mode of a file, octal; as a rule that of the local one."},
    {0},
};

static const struct option rm_options[] = {
    {"recursive", 'r', OPTION_FLAG, NULL, "A directory with what is in it."},
    {0},
};

const struct command workspace_files_commands[] = {
    {
     .name = "workspace files list",
     .args = "WORKSPACE [PATH]",
     .summary = "list files of a workspace",
     .help = "Columns: TYPE, MODE, SIZE, MTIME, NAME. Nothing has to run for it.\n\n"
                "  helmr workspace files list 01981f4e-… src\n"
                "  helmr workspace files list 01981f4e-… --recursive --name '*.ts'", .options = list_options,
     .common = cli_scope_options,
     .run = workspace_files_list_command,
     .min_args = 1,
     .max_args = 2,
     },
    {
     .name = "workspace files stat",
     .args = "WORKSPACE PATH",
     .summary = "show one entry of a workspace",
     .help = "  helmr workspace files stat 01981f4e-… package.json",
     .options = read_options,
     .common = cli_scope_options,
     .run = workspace_files_stat_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace files read",
     .args = "WORKSPACE PATH",
     .summary = "print a file of a workspace",
     .help = "Its bytes as they are, on standard output.\n\n"
                "  helmr workspace files read 01981f4e-… README.md\n"
                "  helmr workspace files read 01981f4e-… out.bin --version 01981f5a-… | sha256sum", .options = read_options,
     .common = cli_scope_options,
     .run = workspace_files_read_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace files get",
     .args = "WORKSPACE PATH [LOCAL]",
     .summary = "download a file or directory of a workspace",
     .help =
            "LOCAL is a file, or a directory that the contents of PATH are put into; as a rule\n"
            "the name of PATH, here. - is standard output: a directory is a tar there. Links\n"
            "are made and never followed.\n\n"
            "  helmr workspace files get 01981f4e-… dist\n"
            "  helmr workspace files get 01981f4e-… / - | tar t", .options = read_options,
     .common = cli_scope_options,
     .run = workspace_files_get_command,
     .min_args = 2,
     .max_args = 3,
     },
    {
     .name = "workspace files put",
     .args = "WORKSPACE LOCAL PATH",
     .summary = "upload a file or directory as a new version",
     .help =
            "LOCAL is a file, - for standard input, or a directory, whose contents are laid into\n"
            "PATH. All of it becomes one version, or nothing. Prints its id.\n\n"
            "  helmr workspace files put 01981f4e-… notes.md docs/notes.md\n"
            "  helmr workspace files put 01981f4e-… ./site /\n"
            "  date | helmr workspace files put 01981f4e-… - stamp", .options = put_options,
     .common = cli_scope_options,
     .run = workspace_files_put_command,
     .min_args = 3,
     .max_args = 3,
     },
    {
     .name = "workspace files rm",
     .args = "WORKSPACE PATH",
     .summary = "remove a file of a workspace",
     .help = "As a new version, whose id it prints; older ones keep the file.\n\n"
                "  helmr workspace files rm 01981f4e-… build --recursive", .options = rm_options,
     .common = cli_scope_options,
     .run = workspace_files_rm_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace files mkdir",
     .args = "WORKSPACE PATH",
     .summary = "make a directory in a workspace",
     .help = "Those on the way to it, too. Prints the version.\n\n"
                "  helmr workspace files mkdir 01981f4e-… data/in", .common = cli_scope_options,
     .run = workspace_files_mkdir_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "workspace files mv",
     .args = "WORKSPACE FROM TO",
     .summary = "move or rename a file of a workspace",
     .help = "A file that is at TO is replaced. Prints the version.\n\n"
                "  helmr workspace files mv 01981f4e-… draft.md docs/final.md", .common = cli_scope_options,
     .run = workspace_files_mv_command,
     .min_args = 3,
     .max_args = 3,
     },
};

const size_t n_workspace_files_commands = COUNT_OF(workspace_files_commands);
