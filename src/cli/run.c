/* `helmr run list|get|events|wait|cancel` and their short names. */
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/run_object.h"
#include "cli/scan.h"

static struct str show_wait(struct str run, struct arena *arena)
{
    struct str kind = output_value(run, "pending_wait.kind", arena);
    struct str id = output_value(run, "pending_wait.id", arena);

    if (id.len == 0)
        return STR("");
    return str_of(arena_printf(arena, "%.*s:%.*s", (int)kind.len, kind.ptr, (int)id.len, id.ptr));
}

static struct str show_status(struct str run, struct arena *arena)
{
    struct str status = output_value(run, "status", arena);
    struct str reason = output_value(run, "queued_reason", arena);

    struct str detail = output_value(run, "queued_detail", arena);

    if (reason.len == 0)
        return status;
    if (detail.len > 0)
        return str_of(arena_printf(arena, "%.*s (%.*s: %.*s)", (int)status.len, status.ptr,
                                   (int)reason.len, reason.ptr, (int)detail.len, detail.ptr));
    return str_of(arena_printf(arena, "%.*s (%.*s)", (int)status.len, status.ptr, (int)reason.len,
                               reason.ptr));
}

static struct str show_origin(struct str run, struct arena *arena)
{
    struct str from = output_value(run, "forked_from.run_id", arena);
    struct str at = output_value(run, "forked_from.wait_id", arena);

    if (from.len == 0)
        return STR("");
    return str_of(
        arena_printf(arena, "from %.*s at %.*s", (int)from.len, from.ptr, (int)at.len, at.ptr));
}

static struct str show_engine(struct str run, struct arena *arena)
{
    struct str engine = output_value(run, "isolation.engine", arena);
    struct str grade = output_value(run, "isolation.grade", arena);
    bool is_slow = str_equal(grade, STR("microvm")) &&
                   str_equal(output_value(run, "isolation.accelerated", arena), STR("false"));

    if (engine.len == 0)
        return STR("");
    return str_of(arena_printf(arena, "%.*s (%.*s%s)", (int)engine.len, engine.ptr, (int)grade.len,
                               grade.ptr, is_slow ? ", without KVM" : ""));
}

/* The message and, below it, where it was thrown. */
static struct str show_error(struct str run, struct arena *arena)
{
    struct str text = run_error_text(run, arena), line;
    struct str stack = output_value(run, "error.details.stack", arena);
    const char *whole = arena_text(arena, text);

    while (stack.len > 0 && str_split(&stack, '\n', &line))
        whole = arena_printf(arena, "%s\n  %.*s", whole, (int)line.len, line.ptr);
    return str_of(whole);
}

static const struct field list_columns[] = {
    {"RUN ID",  "id",         NULL     },
    {"TASK",    "task_id",    NULL     },
    {"STATUS",  "status",     NULL     },
    {"WAIT",    NULL,         show_wait},
    {"CREATED", "created_at", NULL     },
};

static const struct field run_labels[] = {
    {"ID",        "id",             NULL       },
    {"Task",      "task_id",        NULL       },
    {"Status",    NULL,             show_status},
    {"Exit",      "exit_code",      NULL       },
    {"Attempt",   "attempt_number", NULL       },
    {"Engine",    NULL,             show_engine},
    {"Session",   "session_id",     NULL       },
    {"Workspace", "workspace_id",   NULL       },
    {"Forked",    NULL,             show_origin},
    {"Created",   "created_at",     NULL       },
    {"Updated",   "updated_at",     NULL       },
    {"Wait",      NULL,             show_wait  },
    {"Output",    "output",         NULL       },
    {"Error",     NULL,             show_error },
};

static bool list_runs(const struct invocation *invocation, const char *status, struct error *err)
{
    static const struct api_flag flags[] = {
        {"session", "session_id"},
        {"status",  "status"    },
        {"limit",   "limit"     },
        {"cursor",  "cursor"    },
        {NULL,      NULL        },
    };
    AUTO(api_finish) struct api api = {0};

    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const char *first =
        invocation_has(invocation, "status") ? "" : arena_printf(&api.arena, "?status=%s", status);
    const struct listing listing = {
        .path = api_path(&api, "/runs%s", api_query(&api, invocation, flags, first)),
        .field = "runs",
        .columns = list_columns,
        .n_columns = COUNT_OF(list_columns),
        .one_page = true,
    };

    return output_list(&api, invocation, &listing, err);
}

bool run_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return list_runs(invocation, "live", err);
}

bool run_ps_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return list_runs(invocation, "all", err);
}

bool run_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str run;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "GET", api_path(&api, "/runs/%s", api_part(&api, invocation->args[0])),
                  (struct str){0}, &run, err))
        return false;
    output_console(&api, "runs", output_value(run, "id", &api.arena));
    return output_object(&api, invocation, run, run_labels, COUNT_OF(run_labels), err);
}

static enum follow_verdict print_event(void *arg UNUSED, const struct sse_event *event,
                                       struct error *err)
{
    return fd_write_all(STDOUT_FILENO, event->data, err) &&
                   fd_write_all(STDOUT_FILENO, STR("\n"), err)
               ? FOLLOW_ON
               : FOLLOW_FAILED;
}

static bool follow_events(struct api *api, const char *path, const char *id, const char *cursor,
                          struct error *err)
{
    AUTO(follow_finish) struct follow follow;
    struct str run;

    follow_init(&follow, api, path, print_event, NULL);
    return (!cursor || buf_append(&follow.cursor, str_of(cursor), err)) &&
           run_follow(&follow, id, &run, err);
}

static bool print_events(struct api *api, const struct invocation *invocation, const char *path,
                         struct error *err)
{
    static const struct api_flag flags[] = {
        {"limit",  "limit" },
        {"cursor", "cursor"},
        {NULL,     NULL    },
    };
    const char *at = arena_printf(&api->arena, "%s%s", path, api_query(api, invocation, flags, ""));
    struct str page, list, item, cursor;

    for (;;) {
        if (!api_send(api, "GET", at, (struct str){0}, &page, err))
            return false;
        if (invocation_has(invocation, "json")) {
            output_line(page);
            return true;
        }
        if (!json_find_raw(page, "events", &api->arena, &list))
            return error_set(err, ERR_INTERNAL, "the answer has no events");
        while (scan_item(&list, &item))
            output_line(item);
        cursor = output_value(page, "next_cursor", &api->arena);
        if (cursor.len == 0 || invocation_has(invocation, "limit"))
            return true;
        at = arena_printf(&api->arena, "%s?cursor=%s", path,
                          api_part(api, arena_text(&api->arena, cursor)));
    }
}

bool run_events_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *id = invocation->args[0];

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const char *path = api_path(&api, "/runs/%s/events", api_part(&api, id));

    if (invocation_has(invocation, "follow"))
        return follow_events(&api, path, id, invocation_value(invocation, "cursor"), err);
    return print_events(&api, invocation, path, err);
}

static const struct field wait_labels[] = {
    {"run_id",     "id",         NULL},
    {"run_status", "status",     NULL},
    {"session_id", "session_id", NULL},
};

bool run_wait_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    int64_t deadline_ms;
    struct str run;

    *exit_code = 0;
    return run_deadline(invocation, &deadline_ms, err) &&
           api_open(invocation, API_ANY, NULL, &api, err) &&
           run_wait_end(&api, invocation->args[0], deadline_ms, &run, err) &&
           output_object(&api, invocation, run, wait_labels, COUNT_OF(wait_labels), err);
}

static const struct field cancel_labels[] = {
    {"run_id",           "run.id",           NULL},
    {"run_status",       "run.status",       NULL},
    {"session_id",       "run.session_id",   NULL},
    {"operation_id",     "operation.id",     NULL},
    {"operation_status", "operation.status", NULL},
};

bool run_cancel_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    const char *reason = invocation_value(invocation, "reason");
    const char *key = invocation_value(invocation, "idempotency-key");
    struct json_writer json = json_begin(&body);
    struct str answer;

    *exit_code = 0;
    json_open(&json, NULL);
    if (reason)
        json_string(&json, "reason", reason);
    if (invocation_has(invocation, "force"))
        json_bool(&json, "force", true);
    if (key)
        json_string(&json, "idempotency_key", key);
    json_close(&json);
    if (!json_end(&json, err) || !api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const char *path = api_path(&api, "/runs/%s/cancel", api_part(&api, invocation->args[0]));

    return api_send(&api, "POST", path, buf_str(&body), &answer, err) &&
           output_object(&api, invocation, answer, cancel_labels, COUNT_OF(cancel_labels), err);
}
