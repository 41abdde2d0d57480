#include "cli/commands.h"

#include "cli/payload.h"

const struct option cli_scope_options[] = {
    {"api-url", 'a', OPTION_VALUE, "URL", "The server (HELMR_API_URL, else the saved one)."},
    {"project", 'p', OPTION_VALUE, "PROJECT", "A project other than the one of helmr.config.*."},
    {"env", 'e', OPTION_VALUE, "ENV", "An environment other than the default one."},
    {"json", 0, OPTION_FLAG, NULL, "Print JSON as the API has it."},
    {0},
};

static const struct option init_options[] = {
    {"dir", 0, OPTION_VALUE, "DIR", "Where to make the project (here)."},
    {"force", 0, OPTION_FLAG, NULL, "Overwrite files that are there already."},
    {"json", 0, OPTION_FLAG, NULL, "Print what was made as one JSON document."},
    {0},
};

static const struct option deploy_options[] = {
    {"env-file", 0, OPTION_VALUE, "FILE", "Variables that exist while the tasks are evaluated."},
    {"no-cache", 0, OPTION_FLAG, NULL, "Build every image step again."},
    {"detach", 0, OPTION_FLAG, NULL, "Return when the build is queued; nothing is promoted."},
    {"skip-promotion", 0, OPTION_FLAG, NULL, "Do not make it the current deployment."},
    {"timeout", 0, OPTION_VALUE, "DURATION", "How long to wait for the build (20m)."},
    {0},
};

static const struct option run_options[] = {
    START_OPTIONS,
    {"deployment", 0, OPTION_VALUE, "D", "The id or version of another deployment."},
    {"idempotency-key", 0, OPTION_VALUE, "KEY", "The same key starts the run only once."},
    {"idempotency-key-ttl", 0, OPTION_VALUE, "DURATION", "How long the key is remembered (30d)."},
    {0},
};

static const struct option run_list_options[] = {
    {"session", 0, OPTION_VALUE, "ID", "Only runs of this session."},
    {"status", 0, OPTION_VALUE, "STATUS", "live, all, or one status such as failed.",
     "live all queued running waiting succeeded failed cancelled expired"},
    {"limit", 0, OPTION_VALUE, "N", "At most so many (100)."},
    {"cursor", 0, OPTION_VALUE, "CURSOR", "Go on where a former list ended."},
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option logs_options[] = {
    {"follow", 0, OPTION_FLAG, NULL, "Go on until the run has ended."},
    {0},
};

static const struct option events_options[] = {
    {"cursor", 0, OPTION_VALUE, "CURSOR", "Only events after this one."},
    {"limit", 0, OPTION_VALUE, "N", "At most so many (1 to 200)."},
    {"follow", 0, OPTION_FLAG, NULL, "Go on until the run has ended."},
    {0},
};

static const struct option diff_options[] = {
    {"from", 0, OPTION_VALUE, "VERSION", "Another version to begin with; image: none at all."},
    {"to", 0, OPTION_VALUE, "VERSION",
     "Another version to end with; live: what a sandbox holds now."},
    {"patch", 0, OPTION_FLAG, NULL, "Show what changed in texts."},
    {"stat", 0, OPTION_FLAG, NULL, "Count changed lines only."},
    {0},
};

static const struct option wait_options[] = {
    {"timeout", 0, OPTION_VALUE, "DURATION", "Stop waiting then; the run goes on."},
    {0},
};

static const struct option cancel_options[] = {
    {"reason", 0, OPTION_VALUE, "TEXT", "Kept in the run's history."},
    {"force", 0, OPTION_FLAG, NULL, "Do not wait for the task to end by itself."},
    {"idempotency-key", 0, OPTION_VALUE, "KEY", "The same key cancels only once."},
    {0},
};

static const struct option fork_options[] = {
    {"at", 0, OPTION_VALUE, "WAIT", "The wait to branch at (the pending one, else the last)."},
    {"answer-json", 0, OPTION_LIST, "JSON", "A branch that gets this answer at once."},
    {"answer-file", 0, OPTION_LIST, "FILE", "The same from a file; -: stdin."},
    {"external-id", 0, OPTION_VALUE, "ID", "A name of your own for the branch's session."},
    {0},
};

static const struct option list_options[] = {
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option reason_options[] = {
    {"reason", 0, OPTION_VALUE, "TEXT", "Kept in the deployment's history."},
    {0},
};

#define LIST_HELP                                                     \
    "A table on a terminal, columns separated by tabs otherwise.\n\n" \
    "Columns: RUN ID, TASK, STATUS, WAIT (kind:id), CREATED.\n\n"

#define GET_HELP                                                                                 \
    "Shows the run with its engine and grade, its output, or its error with the layer it came\n" \
    "from and the stack.\n\n"

#define LOGS_HELP                                                                                \
    "What the run wrote to stdout goes to stdout, what it wrote to stderr to stderr, byte for\n" \
    "byte. A broken connection is resumed without a gap.\n\n"

#define DIFF_HELP                                                                                 \
    "A and B are runs or workspaces. Of one run: what it changed since it began, up to this\n"    \
    "moment while it runs; of one workspace: what its last version changed, or with --to live\n"  \
    "what was changed since it was mounted; of two: what differs between their newest\n"          \
    "versions. A line each: A added, M modified, D deleted, T of another type, R renamed. What\n" \
    "the image holds is in no version, so of its files only the new content can be shown.\n\n"

#define EVENTS_HELP "One JSON object per line, oldest first.\n\n"

const struct command cli_commands[] = {
    {
     .name = "init",
     .summary = "make a project that can be deployed as it is",
     .help = "Creates helmr.config.ts and tasks/hello.ts, and creates or completes\n"
                "package.json. What is there already is not overwritten without --force.\n\n"
                "  helmr init --dir my-project\n  helmr deploy my-project\n"
                "  helmr run hello -p name=Ada --follow", .options = init_options,
     .run = init_command,
     },
    {
     .name = "deploy",
     .args = "[PATH]",
     .summary = "build the tasks of a project and make them current",
     .help =
            "Sends the project's source (without node_modules, .git, .helmr, .next and .env*),\n"
            "follows the build and promotes the result. The version is printed on stdout,\n"
            "progress on stderr: the steps as they go on when that is a terminal, lines\n"
            "otherwise. Without PATH the project is the nearest one above. An interrupt leaves\n"
            "the build running.\n\n"
            "  helmr deploy\n  helmr deploy examples/hello-world --env-file .env.build", .options = deploy_options,
     .common = cli_scope_options,
     .run = deploy_command,
     .max_args = 1,
     },
    {
     .name = "run",
     .args = "TASK",
     .summary = "start a task",
     .help =
            "Prints the id of the run. -p with a '=' in its value is a field of the payload,\n"
            "without one it is the project. A task named like a sub-command: helmr run -- list.\n"
            "With --wait or --follow the last line is `run_status: …`; the exit code is 0\n"
            "also when the run failed.\n\n"
            "  helmr run hello-world -p name=Ada --follow\n"
            "  helmr run hello-world --payload-json '{\"name\":\"Ada\"}' --wait --timeout 5m", .options = run_options,
     .common = cli_scope_options,
     .run = run_start_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "ps",
     .summary = "list runs of every status",
     .help = LIST_HELP "  helmr ps\n  helmr ps --status failed --json",
     .options = run_list_options,
     .common = cli_scope_options,
     .run = run_ps_command,
     },
    {
     .name = "show",
     .args = "RUN",
     .summary = "show one run: status, output, error",
     .help = GET_HELP "  helmr show 01981f4e-…",
     .common = cli_scope_options,
     .run = run_get_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "logs",
     .args = "RUN",
     .summary = "print what a run wrote",
     .help = LOGS_HELP "  helmr logs 01981f4e-… --follow",
     .options = logs_options,
     .common = cli_scope_options,
     .run = run_logs_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "diff",
     .args = "A [B]",
     .summary = "show what a run changed, or how two differ",
     .help = DIFF_HELP "  helmr diff 01981f4e-…\n  helmr diff 01981f4e-… 01981f5a-… --patch",
     .options = diff_options,
     .common = cli_scope_options,
     .run = diff_command,
     .min_args = 1,
     .max_args = 2,
     },
    {
     .name = "events",
     .args = "RUN",
     .summary = "print the history of a run",
     .help = EVENTS_HELP "  helmr events 01981f4e-… --follow",
     .options = events_options,
     .common = cli_scope_options,
     .run = run_events_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "fork",
     .args = "RUN",
     .summary = "branch a run at a wait",
     .help =
            "Each branch is a run of its own, with its own session and workspace, that goes on\n"
            "from the checkpoint of the wait; the run itself is left as it is. With answers\n"
            "there is one branch for each, with none one that waits. Per branch a line: ids of\n"
            "run, session, workspace and token.\n\n"
            "  helmr fork 01981f4e-… --answer-json '{\"approved\":true}' --answer-json "
            "'{\"approved\":false}'", .options = fork_options,
     .common = cli_scope_options,
     .run = fork_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "run list",
     .summary = "list runs that have not ended",
     .help = LIST_HELP "  helmr run list\n  helmr run list --status waiting --jsonl",
     .options = run_list_options,
     .common = cli_scope_options,
     .run = run_list_command,
     },
    {
     .name = "run get",
     .args = "RUN",
     .summary = "the same as show",
     .help = GET_HELP "  helmr run get 01981f4e-… --json",
     .common = cli_scope_options,
     .run = run_get_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "run logs",
     .args = "RUN",
     .summary = "the same as logs",
     .help = LOGS_HELP "  helmr run logs 01981f4e-… > output.txt",
     .options = logs_options,
     .common = cli_scope_options,
     .run = run_logs_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "run events",
     .args = "RUN",
     .summary = "the same as events",
     .help = EVENTS_HELP "  helmr run events 01981f4e-… --limit 10",
     .options = events_options,
     .common = cli_scope_options,
     .run = run_events_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "run wait",
     .args = "RUN",
     .summary = "wait until a run has ended",
     .help =
            "Prints its id, status and session. The exit code is 0 also when the run failed.\n\n"
            "  helmr run wait 01981f4e-… --timeout 10m", .options = wait_options,
     .common = cli_scope_options,
     .run = run_wait_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "run cancel",
     .args = "RUN",
     .summary = "cancel a run",
     .help =
            "The task is told first and has some seconds to end by itself; --force skips that.\n"
            "A run that has ended is left alone (operation_status: ignored).\n\n"
            "  helmr run cancel 01981f4e-… --reason 'wrong payload'", .options = cancel_options,
     .common = cli_scope_options,
     .run = run_cancel_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "deployment list",
     .summary = "list deployments, newest first",
     .help = "  helmr deployment list\n  helmr deployment list --env staging --jsonl",
     .options = list_options,
     .common = cli_scope_options,
     .run = deployment_list_command,
     },
    {
     .name = "deployment get",
     .args = "ID",
     .summary = "show one deployment by id or version",
     .help = "  helmr deployment get 20261115.1",
     .common = cli_scope_options,
     .run = deployment_get_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "deployment promote",
     .args = "ID",
     .summary = "make a deployment the current one",
     .help = "New runs use the current deployment. An older one can be promoted again.\n\n"
                "  helmr deployment promote 20261114.3 --reason 'back to what worked'", .options = reason_options,
     .common = cli_scope_options,
     .run = deployment_promote_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "deployment cancel",
     .args = "ID",
     .summary = "stop a build",
     .help = "  helmr deployment cancel 20261115.2",
     .options = reason_options,
     .common = cli_scope_options,
     .run = deployment_cancel_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "task list",
     .summary = "list the tasks of the current deployment",
     .help = "  helmr task list",
     .options = list_options,
     .common = cli_scope_options,
     .run = task_list_command,
     },
    {
     .name = "task get",
     .args = "ID",
     .summary = "show one task",
     .help = "  helmr task get hello-world",
     .common = cli_scope_options,
     .run = task_get_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "sandbox list",
     .summary = "list the sandboxes of the current deployment",
     .help = "Columns: SANDBOX ID, FINGERPRINT, GUEST ABI, MOUNT.\n\n  helmr sandbox list",
     .options = list_options,
     .common = cli_scope_options,
     .run = sandbox_list_command,
     },
    {
     .name = "sandbox get",
     .args = "ID",
     .summary = "show one sandbox: its image, mount and resources",
     .help = "  helmr sandbox get hello-world",
     .common = cli_scope_options,
     .run = sandbox_get_command,
     .min_args = 1,
     .max_args = 1,
     },
};

const size_t n_cli_commands = COUNT_OF(cli_commands);
