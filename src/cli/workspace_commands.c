/* The rows of `helmr workspace …`. */
#include "cli/commands.h"

static const struct option create_options[] = {
    {"sandbox", 0, OPTION_VALUE, "ID", "The sandbox its programs run in; required."},
    {"deployment", 0, OPTION_VALUE, "D", "The id or version of another deployment."},
    {"from-version", 0, OPTION_VALUE, "VERSION", "Begin with the files of this version: a branch."},
    {"external-id", 0, OPTION_VALUE, "ID", "A name of your own, which no other workspace has."},
    {"metadata-json", 0, OPTION_VALUE, "JSON", "Metadata of the workspace, an object."},
    {"tag", 0, OPTION_LIST, "TAG", "A tag of the workspace."},
    {"idempotency-key", 0, OPTION_VALUE, "KEY", "The same key makes the workspace only once."},
    {"idempotency-key-ttl", 0, OPTION_VALUE, "DURATION", "How long the key is remembered (24h)."},
    {0},
};

static const struct option list_options[] = {
    {"state", 0, OPTION_VALUE, "STATE", "Only those in this state (all but deleted ones).",
     "active archived recovery_required deleting deleted all"},
    {"external-id", 0, OPTION_VALUE, "ID", "Only the workspace of this name."},
    {"tag", 0, OPTION_VALUE, "TAG", "Only those with this tag."},
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option update_options[] = {
    {"metadata-json", 0, OPTION_VALUE, "JSON", "The new metadata, instead of the former."},
    {"tag", 0, OPTION_LIST, "TAG", "The new tags, instead of the former."},
    {0},
};

static const struct option archive_options[] = {
    {"undo", 0, OPTION_FLAG, NULL, "Make it active again."},
    {0},
};

static const struct option delete_options[] = {
    {"yes", 0, OPTION_FLAG, NULL, "Do not ask."},
    {0},
};

static const struct option stop_options[] = {
    {"idempotency-key", 0, OPTION_VALUE, "KEY", "The same key stops it only once."},
    {"idempotency-key-ttl", 0, OPTION_VALUE, "DURATION", "How long the key is remembered (24h)."},
    {0},
};

static const struct option versions_options[] = {
    {"kind", 0, OPTION_VALUE, "KIND", "Only versions of this kind.", "user system"},
    {"limit", 0, OPTION_VALUE, "N", "At most so many, the newest (all)."},
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

const struct command workspace_commands[] = {
    {
     .name = "workspace create",
     .summary = "make a workspace without a run",
     .help =
            "With --from-version it begins with the files of that version, of any workspace of\n"
            "the environment; both share what they have in common.\n\n"
            "  helmr workspace create --sandbox hello-world --external-id ticket-42\n"
            "  helmr workspace create --sandbox hello-world --from-version 01981f4e-…", .options = create_options,
     .common = cli_scope_options,
     .run = workspace_create_command,
     },
    {
     .name = "workspace list",
     .summary = "list workspaces, newest first",
     .help = "Columns: ID, STATE, SANDBOX, CURRENT VERSION. Those of runs are among them.\n\n"
                "  helmr workspace list\n  helmr workspace list --tag review --jsonl", .options = list_options,
     .common = cli_scope_options,
     .run = workspace_list_command,
     },
    {
     .name = "workspace get",
     .args = "WORKSPACE",
     .summary = "show one workspace",
     .help = "  helmr workspace get 01981f4e-…",
     .common = cli_scope_options,
     .run = workspace_get_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace update",
     .args = "WORKSPACE",
     .summary = "change the metadata or tags of a workspace",
     .help = "  helmr workspace update 01981f4e-… --tag review --tag urgent",
     .options = update_options,
     .common = cli_scope_options,
     .run = workspace_update_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace archive",
     .args = "WORKSPACE",
     .summary = "keep a workspace as it is",
     .help = "It can be read and branched, and nothing writes to it until --undo.\n\n"
                "  helmr workspace archive 01981f4e-…\n  helmr workspace archive 01981f4e-… --undo", .options = archive_options,
     .common = cli_scope_options,
     .run = workspace_archive_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace delete",
     .args = "WORKSPACE",
     .summary = "delete a workspace with all its versions",
     .help = "Its programs are ended. Runs that worked in it stay; branches of it are not "
                "touched.\n\n"
                "  helmr workspace delete 01981f4e-… --yes", .options = delete_options,
     .common = cli_scope_options,
     .run = workspace_delete_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace open",
     .args = "WORKSPACE",
     .summary = "print where the console shows a workspace",
     .help = "  helmr workspace open 01981f4e-…",
     .common = cli_scope_options,
     .run = workspace_open_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace materialize",
     .args = "WORKSPACE",
     .summary = "mount a workspace in a sandbox of its own",
     .help = "Prints the ids of mount and workspace, and the mount's state. Programs do it by\n"
                "themselves; this only makes the first one faster.\n\n"
                "  helmr workspace materialize 01981f4e-…", .common = cli_scope_options,
     .run = workspace_materialize_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace stop",
     .args = "WORKSPACE",
     .summary = "end what runs in a workspace and keep its files",
     .help = "Programs are ended, what changed becomes a version, and the sandbox goes.\n\n"
                "  helmr workspace stop 01981f4e-…", .options = stop_options,
     .common = cli_scope_options,
     .run = workspace_stop_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace versions",
     .args = "WORKSPACE",
     .summary = "list the versions of a workspace, newest first",
     .help = "Columns: ID, KIND, STATE, SIZE, CREATED, CURRENT.\n\n"
                "  helmr workspace versions 01981f4e-… --kind user", .options = versions_options,
     .common = cli_scope_options,
     .run = workspace_versions_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "workspace restore",
     .args = "WORKSPACE VERSION",
     .summary = "go back to a version of a workspace",
     .help =
            "What it held becomes a new version, which is the current one then. Prints its id.\n\n"
            "  helmr workspace restore 01981f4e-… 01981f5a-…", .common = cli_scope_options,
     .run = workspace_restore_command,
     .min_args = 2,
     .max_args = 2,
     },
};

const size_t n_workspace_commands = COUNT_OF(workspace_commands);
