/* `helmr session stream …`: what is sent to a session and what it says. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

enum { DATA_MAX = 256 * 1024, BODY_MAX = 2 * DATA_MAX };

static const struct field stream_columns[] = {
    {"NAME",      "name",      NULL},
    {"DIRECTION", "direction", NULL},
    {"SEQUENCE",  "sequence",  NULL},
};

bool stream_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const struct listing listing = {
        .path = api_path(&api, "/sessions/%s/streams", api_part(&api, invocation->args[0])),
        .field = "streams",
        .columns = stream_columns,
        .n_columns = COUNT_OF(stream_columns),
    };

    return output_list(&api, invocation, &listing, err);
}

static const char *stream_path(struct api *api, const struct invocation *invocation,
                               const char *direction)
{
    return api_path(api, "/sessions/%s/%s/%s", api_part(api, invocation->args[0]), direction,
                    api_part(api, invocation->args[1]));
}

/* Checked here, so that a forgotten quote is said in words of the command line. */
static bool write_record(const struct invocation *invocation, struct buf *body, struct error *err)
{
    AUTO(buf_finish) struct buf data = {.max = DATA_MAX};
    const char *text = invocation_value(invocation, "data-json");
    const char *correlation = invocation_value(invocation, "correlation-id");
    const char *key = invocation_value(invocation, "idempotency-key");

    if (!text)
        return error_set(err, ERR_INVALID, "--data-json is required; null is a value, too");
    if (!json_canonical(str_of(text), DATA_MAX, &data, err))
        return error_wrap(err, "--data-json");

    struct json_writer json = json_begin(body);

    json_open(&json, NULL);
    json_raw(&json, "data", buf_str(&data));
    if (correlation)
        json_string(&json, "correlation_id", correlation);
    if (key)
        json_string(&json, "idempotency_key", key);
    json_close(&json);
    return json_end(&json, err);
}

bool stream_send_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct str answer;

    *exit_code = 0;
    if (!write_record(invocation, &body, err) || !api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "POST", stream_path(&api, invocation, "inputs"), buf_str(&body), &answer,
                  err))
        return false;
    if (invocation_has(invocation, "json")) {
        output_line(answer);
        return true;
    }
    struct str id = output_value(answer, "record.id", &api.arena);
    struct str sequence = output_value(answer, "record.sequence", &api.arena);
    output_line(str_of(arena_printf(&api.arena, "%.*s %.*s", (int)id.len, id.ptr, (int)sequence.len,
                                    sequence.ptr)));
    return true;
}

/* Records are JSON in any form: one object a line, or with --json one document. */
static bool print_records(const struct invocation *invocation, const char *direction,
                          struct error *err)
{
    static const struct api_flag flags[] = {
        {"limit",          "limit"         },
        {"cursor",         "cursor"        },
        {"correlation-id", "correlation_id"},
        {NULL,             NULL            },
    };
    AUTO(api_finish) struct api api = {0};

    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const char *path = stream_path(&api, invocation, direction);
    const struct listing listing = {
        .path = arena_printf(&api.arena, "%s%s", path, api_query(&api, invocation, flags, "")),
        .field = "records",
        .one_page = invocation_has(invocation, "limit"),
        .always_lines = true,
    };

    return output_list(&api, invocation, &listing, err);
}

bool stream_inputs_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return print_records(invocation, "inputs", err);
}

bool stream_outputs_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return print_records(invocation, "outputs", err);
}
