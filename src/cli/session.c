/* `helmr session list|get|close|cancel`. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

static const struct field session_columns[] = {
    {"ID",          "id",             NULL},
    {"TASK",        "task_id",        NULL},
    {"STATUS",      "status",         NULL},
    {"ACTIVITY",    "activity",       NULL},
    {"CURRENT RUN", "current_run_id", NULL},
};

static const struct field session_labels[] = {
    {"Session",   "id",             NULL},
    {"Task",      "task_id",        NULL},
    {"Status",    "status",         NULL},
    {"Activity",  "activity",       NULL},
    {"Run",       "current_run_id", NULL},
    {"Workspace", "workspace_id",   NULL},
};

static const struct field ended_labels[] = {
    {"session_id",       "id",             NULL},
    {"session_status",   "status",         NULL},
    {"session_activity", "activity",       NULL},
    {"run_id",           "current_run_id", NULL},
};

bool session_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    static const struct api_flag flags[] = {
        {"external-id", "external_id"},
        {"status",      "status"     },
        {"task",        "task_id"    },
        {NULL,          NULL         },
    };
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const struct listing listing = {
        .path = api_path(&api, "/sessions%s", api_query(&api, invocation, flags, "")),
        .field = "sessions",
        .columns = session_columns,
        .n_columns = COUNT_OF(session_columns),
    };

    return output_list(&api, invocation, &listing, err);
}

bool session_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    static const struct api_flag flags[] = {
        {"external-id", "external_id"},
        {NULL,          NULL         },
    };
    AUTO(api_finish) struct api api = {0};
    bool by_external = invocation_has(invocation, "external-id");
    struct str session;

    *exit_code = 0;
    if (by_external == (invocation->n_args > 0))
        return error_set(err, ERR_INVALID, "name the session by its id or by --external-id");
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const char *path =
        by_external
            ? api_path(&api, "/sessions/by-external-id%s", api_query(&api, invocation, flags, ""))
            : api_path(&api, "/sessions/%s", api_part(&api, invocation->args[0]));

    if (!api_send(&api, "GET", path, (struct str){0}, &session, err))
        return false;
    output_console(&api, "sessions", output_value(session, "id", &api.arena));
    return output_object(&api, invocation, session, session_labels, COUNT_OF(session_labels), err);
}

static bool end_session(const struct invocation *invocation, const char *verb, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    const char *reason = invocation_value(invocation, "reason");
    struct json_writer json = json_begin(&body);
    struct str session;

    json_open(&json, NULL);
    if (reason)
        json_string(&json, "reason", reason);
    json_close(&json);
    if (!json_end(&json, err) || !api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const char *path = api_path(&api, "/sessions/%s/%s", api_part(&api, invocation->args[0]), verb);

    if (!api_send(&api, "POST", path, buf_str(&body), &session, err))
        return false;
    if (!invocation_has(invocation, "json"))
        output_label(stdout, "operation", str_of(verb));
    return output_object(&api, invocation, session, ended_labels, COUNT_OF(ended_labels), err);
}

bool session_close_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return end_session(invocation, "close", err);
}

bool session_cancel_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return end_session(invocation, "cancel", err);
}
