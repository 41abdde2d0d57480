/* The rows of `helmr session …`. */
#include "cli/commands.h"
#include "cli/payload.h"

static const struct option start_options[] = {
    START_OPTIONS,
    {"external-id", 0, OPTION_VALUE, "ID", "A name of your own; the same id starts it only once."},
    {"workspace", 0, OPTION_VALUE, "ID", "A workspace that is there already."},
    {"expires-at", 0, OPTION_VALUE, "TIME", "The session ends then: 2026-12-31T00:00:00Z."},
    {0},
};

static const struct option list_options[] = {
    {"external-id", 0, OPTION_VALUE, "ID", "Only the session of this name."},
    {"status", 0, OPTION_VALUE, "STATUS", "open (default), closed, cancelled, expired or all.",
     "open closed cancelled expired all"},
    {"task", 0, OPTION_VALUE, "TASK", "Only sessions of this task."},
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option get_options[] = {
    {"external-id", 0, OPTION_VALUE, "ID", "The session of this name."},
    {0},
};

static const struct option end_options[] = {
    {"reason", 0, OPTION_VALUE, "TEXT", "Kept with the session."},
    {0},
};

static const struct option streams_options[] = {
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option send_options[] = {
    {"data-json", 0, OPTION_VALUE, "JSON", "What is sent."},
    {"correlation-id", 0, OPTION_VALUE, "ID", "Which conversation of the stream it belongs to."},
    {"idempotency-key", 0, OPTION_VALUE, "KEY", "The same key sends it only once."},
    {0},
};

static const struct option records_options[] = {
    {"cursor", 0, OPTION_VALUE, "N", "Only records after this sequence number."},
    {"limit", 0, OPTION_VALUE, "N", "At most so many (1 to 500)."},
    {"correlation-id", 0, OPTION_VALUE, "ID", "Only those of this conversation."},
    {"jsonl", 0, OPTION_FLAG, NULL, "One JSON object per line, as without it."},
    {0},
};

const struct command session_commands[] = {
    {
     .name = "session start",
     .args = "TASK",
     .summary = "start a session: a run whose files later runs go on with",
     .help =
            "Prints the ids of session, run and workspace. -p with a '=' in its value is a field\n"
            "of the payload, without one it is the project. With --wait or --follow the last\n"
            "line is `run_status: …`; the exit code is 0 also when the run failed.\n\n"
            "  helmr session start hello-world --payload name=Ada\n"
            "  helmr session start chat --external-id ticket-42 --follow --timeout 5m", .options = start_options,
     .common = cli_scope_options,
     .run = session_start_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "session list",
     .summary = "list sessions, newest first",
     .help = "Columns: ID, TASK, STATUS, ACTIVITY, CURRENT RUN.\n\n"
                "  helmr session list\n  helmr session list --status all --task chat --jsonl", .options = list_options,
     .common = cli_scope_options,
     .run = session_list_command,
     },
    {
     .name = "session get",
     .args = "[SESSION]",
     .summary = "show one session",
     .help = "  helmr session get 01981f4e-…\n  helmr session get --external-id ticket-42",
     .options = get_options,
     .common = cli_scope_options,
     .run = session_get_command,
     .max_args = 1,
     },
    {
     .name = "session close",
     .args = "SESSION",
     .summary = "end a session whose run is over",
     .help = "Refused while a run of it goes on: cancel ends that, too.\n\n"
                "  helmr session close 01981f4e-… --reason done", .options = end_options,
     .common = cli_scope_options,
     .run = session_close_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "session cancel",
     .args = "SESSION",
     .summary = "end a session with its run",
     .help = "  helmr session cancel 01981f4e-… --reason 'nobody waits for it'",
     .options = end_options,
     .common = cli_scope_options,
     .run = session_cancel_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "session stream list",
     .args = "SESSION",
     .summary = "list the streams of a session",
     .help = "Columns: NAME, DIRECTION, SEQUENCE (of the last record).\n\n"
                "  helmr session stream list 01981f4e-…", .options = streams_options,
     .common = cli_scope_options,
     .run = stream_list_command,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "session stream input send",
     .args = "SESSION STREAM",
     .summary = "send a record to a session",
     .help =
            "Prints the record's id and sequence number. A run that waits for it goes on; when\n"
            "the session's run is over, a new one begins.\n\n"
            "  helmr session stream input send 01981f4e-… approval --data-json "
            "'{\"approved\":true}'", .options = send_options,
     .common = cli_scope_options,
     .run = stream_send_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "session stream input list",
     .args = "SESSION STREAM",
     .summary = "print what was sent to a session, oldest first",
     .help = "One JSON object per line.\n\n"
                "  helmr session stream input list 01981f4e-… approval", .options = records_options,
     .common = cli_scope_options,
     .run = stream_inputs_command,
     .min_args = 2,
     .max_args = 2,
     },
    {
     .name = "session stream output list",
     .args = "SESSION STREAM",
     .summary = "print what a session said, oldest first",
     .help = "One JSON object per line.\n\n"
                "  helmr session stream output list 01981f4e-… progress --cursor 12", .options = records_options,
     .common = cli_scope_options,
     .run = stream_outputs_command,
     .min_args = 2,
     .max_args = 2,
     },
};

const size_t n_session_commands = COUNT_OF(session_commands);
