#include "server/task_session_object.h"

#include "model/session_state.h"
#include "server/json_row.h"

static struct session_signs signs_of(const struct rows *rows, size_t row, int64_t now)
{
    struct session_signs signs = {
        .is_due = !row_is_null(rows, row, SESSION_GET_EXPIRES_MS) &&
                  row_int(rows, row, SESSION_GET_EXPIRES_MS) <= now,
        .is_continued = row_int(rows, row, SESSION_GET_IS_CONTINUED) != 0,
        .has_wait = row_int(rows, row, SESSION_GET_HAS_WAIT) != 0,
    };

    /* What is in no known state is shown as what nobody can do anything with. */
    if (!session_state_parse(row_str(rows, row, SESSION_GET_STATUS), &signs.state))
        signs.state = SESSION_CLOSED;
    signs.has_run = run_state_parse(row_str(rows, row, SESSION_GET_RUN_STATE), &signs.run);
    return signs;
}

/* The result is that of the newest run, and so is the error, unless it could not even begin. */
static void write_result(struct json_writer *json, const struct rows *rows, size_t row,
                         const struct session_signs *signs)
{
    bool is_failed = !row_is_null(rows, row, SESSION_GET_CONTINUATION_ERROR);

    json_row_raw_if(json, "result", rows, row, SESSION_GET_OUTPUT);
    json_row_raw_if(json, "error", rows, row,
                    is_failed ? SESSION_GET_CONTINUATION_ERROR : SESSION_GET_ERROR);
    json_bool(json, "timed_out", signs->state == SESSION_EXPIRED);
    json_row_text_if(json, "terminal_reason", rows, row, SESSION_GET_TERMINAL_REASON);
}

void session_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                          size_t row, int64_t now)
{
    struct session_signs signs = signs_of(rows, row, now);

    json_open(json, name);
    json_row_text(json, "id", rows, row, SESSION_GET_ID);
    json_row_text(json, "project_id", rows, row, SESSION_GET_PROJECT_ID);
    json_row_text(json, "environment_id", rows, row, SESSION_GET_ENVIRONMENT_ID);
    json_row_text(json, "task_id", rows, row, SESSION_GET_TASK_ID);
    json_row_text(json, "initial_deployment_id", rows, row, SESSION_GET_INITIAL_DEPLOYMENT_ID);
    json_row_text(json, "active_deployment_id", rows, row, SESSION_GET_ACTIVE_DEPLOYMENT_ID);
    json_row_text_if(json, "external_id", rows, row, SESSION_GET_EXTERNAL_ID);
    json_row_text(json, "status", rows, row, SESSION_GET_STATUS);
    json_string(json, "activity", session_activity_name(session_activity_of(&signs)));
    json_bool(json, "can_close", session_can_close(&signs));
    json_row_text_if(json, "current_run_id", rows, row, SESSION_GET_CURRENT_RUN_ID);
    json_row_text(json, "workspace_id", rows, row, SESSION_GET_WORKSPACE_ID);
    json_row_raw(json, "metadata", rows, row, SESSION_GET_METADATA);
    json_row_raw(json, "tags", rows, row, SESSION_GET_TAGS);
    write_result(json, rows, row, &signs);
    json_row_text_if(json, "forked_from", rows, row, SESSION_GET_FORKED_FROM);
    json_row_time_if(json, "expires_at", rows, row, SESSION_GET_EXPIRES_MS);
    json_row_time_if(json, "expired_at", rows, row, SESSION_GET_EXPIRED_MS);
    json_row_time(json, "created_at", rows, row, SESSION_GET_CREATED_MS);
    json_row_time(json, "updated_at", rows, row, SESSION_GET_UPDATED_MS);
    json_close(json);
}
