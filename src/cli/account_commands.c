/* The rows of commands about people, projects, environments, keys, secrets and the audit log. */
#include "cli/commands.h"

#define GRADES "shared-kernel user-kernel microvm"

#define PERMISSIONS_IN_LINES                                                  \
    "runs:create runs:read runs:manage tasks:deploy secrets:write\n"          \
    "session-streams:read session-input:send session-output:append\n"         \
    "tokens:create tokens:read tokens:complete tokens:cancel\n"               \
    "workspace-lifecycle:manage workspace-files:read workspace-files:write\n" \
    "workspace-versions:read workspace-exec:create workspace-exec:read\n"     \
    "workspace-exec:manage workspace-pty:create workspace-pty:read\n"         \
    "workspace-pty:manage"

/* A line's end separates words as a blank does. */
#define PERMISSIONS "all " PERMISSIONS_IN_LINES

static const struct option audit_list_options[] = {
    {"actor", 0, OPTION_VALUE, "ACTOR", "Only of this actor, by id or name."},
    {"action", 0, OPTION_VALUE, "ACTION", "Only this action, such as secret.set."},
    {"from", 0, OPTION_VALUE, "TIME", "Not before: 2026-01-31T00:00:00Z."},
    {"to", 0, OPTION_VALUE, "TIME", "Before this time."},
    {"limit", 0, OPTION_VALUE, "N", "At most so many (100)."},
    {"cursor", 0, OPTION_VALUE, "CURSOR", "Go on where a former list ended."},
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option audit_export_options[] = {
    {"actor", 0, OPTION_VALUE, "ACTOR", "Only of this actor; such a file cannot be verified."},
    {"action", 0, OPTION_VALUE, "ACTION", "Only this action; such a file cannot be verified."},
    {"from", 0, OPTION_VALUE, "TIME", "Not before: 2026-01-31T00:00:00Z."},
    {"to", 0, OPTION_VALUE, "TIME", "Before this time."},
    {0},
};

static const struct option list_options[] = {
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

/* Of commands about the organization: no environment is chosen. */
static const struct option account_common[] = {
    {"api-url", 'a', OPTION_VALUE, "URL", "The server (HELMR_API_URL, else the saved one)."},
    {"json", 0, OPTION_FLAG, NULL, "Print JSON as the API has it."},
    {0},
};

static const struct option project_common[] = {
    {"api-url", 'a', OPTION_VALUE, "URL", "The server (HELMR_API_URL, else the saved one)."},
    {"project", 'p', OPTION_VALUE, "PROJECT", "A project other than the one of helmr.config.*."},
    {"json", 0, OPTION_FLAG, NULL, "Print JSON as the API has it."},
    {0},
};

static const struct option project_create_options[] = {
    {"slug", 0, OPTION_VALUE, "SLUG", "Its name in commands and paths (made of NAME)."},
    {0},
};

static const struct option project_update_options[] = {
    {"slug", 0, OPTION_VALUE, "SLUG", "Another name in commands and paths."},
    {"name", 0, OPTION_VALUE, "NAME", "Another name for people."},
    {"default", 0, OPTION_FLAG, NULL, "Make it the default project."},
    {0},
};

static const struct option env_create_options[] = {
    {"slug", 0, OPTION_VALUE, "SLUG", "Its name in commands and paths (made of NAME)."},
    {"color", 0, OPTION_VALUE, "#RRGGBB", "Its colour (made of the slug)."},
    {"worker-group", 0, OPTION_VALUE, "GROUP", "Whose workers run its tasks (the first group)."},
    {"min-grade", 0, OPTION_VALUE, "GRADE", "shared-kernel (default), user-kernel or microvm.",
     GRADES},
    {0},
};

static const struct option env_update_options[] = {
    {"slug", 0, OPTION_VALUE, "SLUG", "Another name in commands and paths."},
    {"name", 0, OPTION_VALUE, "NAME", "Another name for people."},
    {"color", 0, OPTION_VALUE, "#RRGGBB", "Another colour."},
    {"worker-group", 0, OPTION_VALUE, "GROUP", "Whose workers run its tasks."},
    {"min-grade", 0, OPTION_VALUE, "GRADE", "The weakest isolation its runs accept.", GRADES},
    {0},
};

static const struct option login_options[] = {
    {"api-url", 'a', OPTION_VALUE, "URL", "The server (HELMR_API_URL, else the saved one)."},
    {"no-browser", 0, OPTION_FLAG, NULL, "Only show the address and the code."},
    {"json", 0, OPTION_FLAG, NULL, "Print JSON when it is done."},
    {0},
};

static const struct option logout_options[] = {
    {"api-url", 'a', OPTION_VALUE, "URL", "The server (HELMR_API_URL, else the saved one)."},
    {"json", 0, OPTION_FLAG, NULL, "Print JSON when it is done."},
    {0},
};

static const struct option whoami_options[] = {
    {"api-url", 'a', OPTION_VALUE, "URL", "The server (HELMR_API_URL, else the saved one)."},
    {"json", 0, OPTION_FLAG, NULL, "Print JSON as the API has it."},
    {0},
};

static const struct option key_list_options[] = {
    {"filter", 0, OPTION_VALUE, "STATE", "active (default), expired, revoked or all.",
     "active expired revoked all"},
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option key_create_options[] = {
    {"permission", 0, OPTION_LIST, "P", "What the key may do; all: everything.", PERMISSIONS},
    {"expires-in-days", 0, OPTION_VALUE, "DAYS", "30, 90 (default), 365 or never.",
     "30 90 365 never"},
    {0},
};

static const struct option yes_options[] = {
    {"yes", 0, OPTION_FLAG, NULL, "Do not ask."},
    {0},
};

const struct command account_commands[] = {
    {
     .name = "login",
     .args = "[URL]",
     .summary = "sign in to a server",
     .help = "Shows a code that is approved in a browser, then saves the login and makes the\n"
                "server the default one.\n\n"
                "  helmr login https://helmr.example", .options = login_options,
     .run = login_command,
     .max_args = 1,
     },
    {
     .name = "logout",
     .args = "[URL]",
     .summary = "end the saved login",
     .help = "Ends it at the server, then forgets it here.\n\n"
                "  helmr logout https://helmr.example", .options = logout_options,
     .run = logout_command,
     .max_args = 1,
     },
    {
     .name = "whoami",
     .summary = "show whose credential is used, and where",
     .help = "  helmr whoami",
     .options = whoami_options,
     .run = whoami_command,
     },
    {
     .name = "project list",
     .summary = "list the projects",
     .help = "Needs a login, as every command about projects.\n\n  helmr project list",
     .options = list_options,
     .common = account_common,
     .run = project_list_command,
     },
    {
     .name = "project get",
     .args = "PROJECT",
     .summary = "show one project by id or slug",
     .help = "  helmr project get main",
     .common = account_common,
     .run = project_get_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "project create",
     .args = "NAME",
     .summary = "make a project",
     .help =
            "It begins with the environments production and staging. Prints id, slug and name.\n\n "
            " helmr project create 'Web shop'\n  helmr project create 'Web shop' --slug shop", .options = project_create_options,
     .common = account_common,
     .run = project_create_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "project update",
     .args = "PROJECT",
     .summary = "rename a project or make it the default",
     .help =
            "  helmr project update shop --name 'The shop'\n  helmr project update shop --default", .options = project_update_options,
     .common = account_common,
     .run = project_update_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "project delete",
     .args = "PROJECT",
     .summary = "delete a project with everything in it",
     .help = "Not the default one, and not one with runs or builds that have not ended, or "
                "with\nworkspaces.\n\n  helmr project delete shop --yes", .options = yes_options,
     .common = account_common,
     .run = project_delete_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "env list",
     .summary = "list the environments of a project",
     .help = "Needs a login, as every command about environments.\n\n  helmr env list --project "
                "shop", .options = list_options,
     .common = project_common,
     .run = env_list_command,
     },
    {
     .name = "env get",
     .args = "ENV",
     .summary = "show one environment by id or slug",
     .help = "  helmr env get staging",
     .common = project_common,
     .run = env_get_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "env create",
     .args = "NAME",
     .summary = "make an environment",
     .help = "Prints id, slug, name and colour.\n\n  helmr env create Preview\n  helmr env "
                "create Untrusted --min-grade user-kernel --color '#c2681d'", .options = env_create_options,
     .common = project_common,
     .run = env_create_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "env update",
     .args = "ENV",
     .summary = "change an environment",
     .help = "production and staging keep their names. A new least grade also counts for what "
                "is\nqueued.\n\n  helmr env update preview --worker-group large\n  helmr env "
                "update production --min-grade user-kernel", .options = env_update_options,
     .common = project_common,
     .run = env_update_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "env delete",
     .args = "ENV",
     .summary = "delete an environment with everything in it",
     .help = "Not production or staging, and not one with runs or builds that have not ended, "
                "or\nwith workspaces.\n\n  helmr env delete preview --yes", .options = yes_options,
     .common = project_common,
     .run = env_delete_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "key list",
     .summary = "list API keys",
     .help = "Needs a login: keys cannot manage keys.\n\n  helmr key list --filter all",
     .options = key_list_options,
     .common = cli_scope_options,
     .run = key_list_command,
     },
    {
     .name = "key create",
     .args = "NAME",
     .summary = "make an API key",
     .help = "Prints the key alone on stdout; it is shown only now. Use it as HELMR_API_KEY.\n\n"
                "  helmr key create ci --permission tasks:deploy --permission runs:read\n"
                "  export HELMR_API_KEY=$(helmr key create laptop --permission all)\n\n"
                "Permissions: " PERMISSIONS_IN_LINES,
     .options = key_create_options,
     .common = cli_scope_options,
     .run = key_create_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "key revoke",
     .args = "ID",
     .summary = "end an API key",
     .help = "  helmr key revoke 01981f4e-… --yes",
     .options = yes_options,
     .common = cli_scope_options,
     .run = key_revoke_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "secret set",
     .args = "NAME [VALUE]",
     .summary = "store a secret of the environment",
     .help =
            "Without VALUE a terminal is asked, unseen, and a pipe is stored byte for byte. An\n"
            "argument stays in the shell's history. Prints the name.\n\n"
            "  helmr secret set NPM_TOKEN\n"
            "  helmr secret set DEPLOY_KEY --env staging < deploy_key", .common = cli_scope_options,
     .run = secret_set_command,
     .min_args = 1,
     .max_args = 2,
     },
    {
     .name = "secret list",
     .summary = "list the secrets of the environment",
     .help = "Names and times only: values are never shown.\n\n  helmr secret list",
     .options = list_options,
     .common = cli_scope_options,
     .run = secret_list_command,
     },
    {
     .name = "secret get",
     .args = "NAME",
     .summary = "show when a secret was stored",
     .help = "The value is never shown.\n\n  helmr secret get NPM_TOKEN",
     .common = cli_scope_options,
     .run = secret_get_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "secret delete",
     .args = "NAME",
     .summary = "delete a secret",
     .help = "  helmr secret delete NPM_TOKEN --yes",
     .options = yes_options,
     .common = cli_scope_options,
     .run = secret_delete_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "audit list",
     .summary = "show who did what, newest first",
     .help = "  helmr audit list --action secret.use --from 2026-01-31T00:00:00Z",
     .options = audit_list_options,
     .common = cli_scope_options,
     .run = audit_list_command,
     },
    {
     .name = "audit export",
     .summary = "print the audit log as lines of JSON, oldest first",
     .help = "The last line is the seal of the file, for `helmr audit verify FILE`.\n\n"
                "  helmr audit export > audit.jsonl", .options = audit_export_options,
     .common = cli_scope_options,
     .run = audit_export_command,
     },
};

const size_t n_account_commands = COUNT_OF(account_commands);
