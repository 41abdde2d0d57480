/* `helmr token …` and `helmr resume respond`: making, showing and answering tokens. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

enum { DATA_MAX = 256 * 1024, BODY_MAX = 2 * DATA_MAX };

static const struct option create_options[] = {
    {"timeout", 0, OPTION_VALUE, "DURATION", "Expires then, at most 365d from now (7d)."},
    {"metadata-json", 0, OPTION_VALUE, "JSON", "Metadata of the token, an object."},
    {"tag", 0, OPTION_LIST, "TAG", "A tag of the token."},
    {"idempotency-key", 0, OPTION_VALUE, "KEY", "The same key makes the token only once."},
    {0},
};

static const struct option list_options[] = {
    {"status", 0, OPTION_VALUE, "STATUS", "pending, completed, cancelled, expired or all (all).",
     "pending completed cancelled expired all"},
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option complete_options[] = {
    {"data-json", 0, OPTION_VALUE, "JSON", "The value that whoever waits gets."},
    {0},
};

static const struct option cancel_options[] = {
    {"reason", 0, OPTION_VALUE, "TEXT", "Told to the program that waits."},
    {0},
};

static const struct option respond_options[] = {
    {"value", 0, OPTION_VALUE, "JSON", "The value that the program gets (null)."},
    {0},
};

static const struct field token_columns[] = {
    {"ID",      "id",         NULL},
    {"STATUS",  "status",     NULL},
    {"TIMEOUT", "timeout_at", NULL},
    {"TAGS",    "tags",       NULL},
};

static const struct field created_labels[] = {
    {"Token",       "id",                  NULL},
    {"Status",      "status",              NULL},
    {"Timeout",     "timeout_at",          NULL},
    {"Callback",    "callback_url",        NULL},
    {"PublicToken", "public_access_token", NULL},
};

static struct str show_completer(struct str token, struct arena *arena)
{
    struct str type = output_value(token, "completed_by.type", arena);
    struct str name = output_value(token, "completed_by.name", arena);

    if (name.len == 0)
        name = output_value(token, "completed_by.id", arena);
    if (type.len == 0)
        return STR("");
    return str_of(
        arena_printf(arena, "%.*s %.*s", (int)type.len, type.ptr, (int)name.len, name.ptr));
}

static const struct field token_labels[] = {
    {"Token",     "id",           NULL          },
    {"Status",    "status",       NULL          },
    {"Timeout",   "timeout_at",   NULL          },
    {"Run",       "run_id",       NULL          },
    {"Wait",      "wait_id",      NULL          },
    {"Metadata",  "metadata",     NULL          },
    {"Tags",      "tags",         NULL          },
    {"Data",      "data",         NULL          },
    {"By",        NULL,           show_completer},
    {"Created",   "created_at",   NULL          },
    {"Completed", "completed_at", NULL          },
};

/* Checked here, so that a forgotten quote is said in words of the command line. */
static bool write_json(const char *option, const char *text, const char *name,
                       struct json_writer *json, struct arena *arena, struct error *err)
{
    AUTO(buf_finish) struct buf value = {.max = DATA_MAX};

    if (!json_canonical(str_of(text), DATA_MAX, &value, err))
        return error_wrap(err, "--%s", option);
    json_raw(json, name, arena_str(arena, buf_str(&value)));
    return true;
}

static void write_tags(const struct invocation *invocation, struct json_writer *json)
{
    if (!invocation_has(invocation, "tag"))
        return;
    json_open_list(json, "tags");
    for (size_t i = 0; invocation_nth(invocation, "tag", i); i++)
        json_string(json, NULL, invocation_nth(invocation, "tag", i));
    json_close_list(json);
}

static bool write_request(const struct invocation *invocation, struct json_writer *json,
                          struct arena *arena, struct error *err)
{
    const char *timeout = invocation_value(invocation, "timeout");
    const char *metadata = invocation_value(invocation, "metadata-json");
    const char *key = invocation_value(invocation, "idempotency-key");

    json_open(json, NULL);
    if (timeout)
        json_string(json, "timeout", timeout);
    if (metadata && !write_json("metadata-json", metadata, "metadata", json, arena, err))
        return false;
    write_tags(invocation, json);
    if (key)
        json_string(json, "idempotency_key", key);
    json_close(json);
    return json_end(json, err);
}

static bool create(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct json_writer json = json_begin(&body);
    struct str token;

    *exit_code = 0;
    return api_open(invocation, API_ANY, NULL, &api, err) &&
           write_request(invocation, &json, &api.arena, err) &&
           api_send(&api, "POST", api_path(&api, "/tokens"), buf_str(&body), &token, err) &&
           output_object(&api, invocation, token, created_labels, COUNT_OF(created_labels), err);
}

static bool list(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *status = invocation_value(invocation, "status");

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const struct listing listing = {
        .path = api_path(&api, "/tokens%s%s", status ? "?status=" : "",
                         status ? api_part(&api, status) : ""),
        .field = "tokens",
        .columns = token_columns,
        .n_columns = COUNT_OF(token_columns),
    };
    return output_list(&api, invocation, &listing, err);
}

static bool get(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str token;

    *exit_code = 0;
    return api_open(invocation, API_ANY, NULL, &api, err) &&
           api_send(&api, "GET", api_path(&api, "/tokens/%s", api_part(&api, invocation->args[0])),
                    (struct str){0}, &token, err) &&
           output_object(&api, invocation, token, token_labels, COUNT_OF(token_labels), err);
}

/* POST of /tokens/ID/complete with the option's value as data; without one, null. */
static bool send_data(const struct invocation *invocation, struct api *api, const char *option,
                      struct str *answer, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct json_writer json = json_begin(&body);
    const char *value = invocation_value(invocation, option);

    json_open(&json, NULL);
    if (value && !write_json(option, value, "data", &json, &api->arena, err))
        return false;
    json_close(&json);
    return json_end(&json, err) &&
           api_send(api, "POST",
                    api_path(api, "/tokens/%s/complete", api_part(api, invocation->args[0])),
                    buf_str(&body), answer, err);
}

static bool complete(const struct invocation *invocation, int *exit_code, struct error *err)
{
    static const struct field labels[] = {
        {"token_id",          "token.id",     NULL},
        {"token_status",      "token.status", NULL},
        {"completion_status", "status",       NULL},
    };
    AUTO(api_finish) struct api api = {0};
    struct str answer;

    *exit_code = 0;
    if (!invocation_has(invocation, "data-json"))
        return error_set(err, ERR_INVALID, "--data-json is required; null is a value, too");
    return api_open(invocation, API_ANY, NULL, &api, err) &&
           send_data(invocation, &api, "data-json", &answer, err) &&
           output_object(&api, invocation, answer, labels, COUNT_OF(labels), err);
}

static bool cancel(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    struct json_writer json = json_begin(&body);
    const char *reason = invocation_value(invocation, "reason");
    struct str token;

    *exit_code = 0;
    json_open(&json, NULL);
    if (reason)
        json_string(&json, "reason", reason);
    json_close(&json);
    if (!json_end(&json, err) || !api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "POST",
                  api_path(&api, "/tokens/%s/cancel", api_part(&api, invocation->args[0])),
                  buf_str(&body), &token, err))
        return false;
    if (invocation_has(invocation, "json")) {
        output_line(token);
        return true;
    }
    struct str id = output_value(token, "id", &api.arena);
    struct str status = output_value(token, "status", &api.arena);
    output_line(str_of(
        arena_printf(&api.arena, "%.*s %.*s", (int)id.len, id.ptr, (int)status.len, status.ptr)));
    return true;
}

static bool respond(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str answer;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !send_data(invocation, &api, "value", &answer, err))
        return false;
    if (invocation_has(invocation, "json"))
        output_line(answer);
    return true;
}

const struct command token_commands[] = {
    {
     .name = "resume respond",
     .args = "ID",
     .summary = "answer a run that waits",
     .help = "ID is the wait's, as ps and show have it, or that of its token. Prints nothing.\n"
                "The same answer again is fine; another one is refused.\n\n"
                "  helmr ps --status waiting\n"
                "  helmr resume respond 01981f4e-… --value '{\"approved\":true}'", .options = respond_options,
     .common = cli_scope_options,
     .run = respond,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "token create",
     .summary = "make a token that somebody outside completes",
     .help = "Prints the callback URL and the public access token, which are shown only here.\n"
                "Whoever has one of the two can complete this token, and nothing else.\n\n"
                "  helmr token create --timeout 2h --tag review", .options = create_options,
     .common = cli_scope_options,
     .run = create,
     },
    {
     .name = "token list",
     .summary = "list tokens, newest first",
     .help = "Columns: ID, STATUS, TIMEOUT, TAGS.\n\n  helmr token list --status pending",
     .options = list_options,
     .common = cli_scope_options,
     .run = list,
     },
    {
     .name = "token get",
     .args = "TOKEN",
     .summary = "show one token",
     .help = "  helmr token get 01981f4e-…",
     .common = cli_scope_options,
     .run = get,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "token complete",
     .args = "TOKEN",
     .summary = "complete a token",
     .help = "TOKEN may also be the id of the wait for it. Completing it again with equal data\n"
                "is fine (completion_status: already_completed).\n\n"
                "  helmr token complete 01981f4e-… --data-json '{\"approved\":true}'", .options = complete_options,
     .common = cli_scope_options,
     .run = complete,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "token cancel",
     .args = "TOKEN",
     .summary = "cancel a token",
     .help = "A program that waits for it gets a WaitCancelledError.\n\n"
                "  helmr token cancel 01981f4e-… --reason 'not needed any more'", .options = cancel_options,
     .common = cli_scope_options,
     .run = cancel,
     .min_args = 1,
     .max_args = 1,
     },
};

const size_t n_token_commands = COUNT_OF(token_commands);
