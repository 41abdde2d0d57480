#include "server/run_object.h"

#include <stdio.h>

#include "base/time.h"
#include "server/json_row.h"
#include "server/queued_words.h"
#include "server/resume.h"
#include "server/wait_object.h"

static const char *queued_reason(const struct rows *rows, size_t row, int64_t now)
{
    if (strcmp(row_text(rows, row, RUN_GET_STATE), "queued") != 0 ||
        row_is_null(rows, row, RUN_GET_GROUP_WORKERS))
        return NULL;
    if (row_int(rows, row, RUN_GET_NOT_BEFORE_MS) > now)
        return "retry_delay";
    if (!row_is_null(rows, row, RUN_GET_MAX_LIVE) &&
        row_int(rows, row, RUN_GET_LANE_LIVE) >= row_int(rows, row, RUN_GET_MAX_LIVE))
        return "queue_limit";
    if (row_int(rows, row, RUN_GET_GROUP_WORKERS) == 0)
        return "no_worker";
    if (row_int(rows, row, RUN_GET_FITTING_WORKERS) == 0)
        return "no_compatible_worker";
    return "no_capacity";
}

static void write_identity(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_row_text(json, "id", rows, row, RUN_GET_ID);
    json_row_text(json, "session_id", rows, row, RUN_GET_SESSION_ID);
    json_row_text(json, "workspace_id", rows, row, RUN_GET_WORKSPACE_ID);
    json_row_text(json, "project_id", rows, row, RUN_GET_PROJECT_ID);
    json_row_text(json, "environment_id", rows, row, RUN_GET_ENVIRONMENT_ID);
    json_row_text(json, "deployment_id", rows, row, RUN_GET_DEPLOYMENT_ID);
    json_row_text(json, "deployment_task_id", rows, row, RUN_GET_DEPLOYMENT_TASK_ID);
    json_row_text(json, "deployment_version", rows, row, RUN_GET_DEPLOYMENT_VERSION);
    json_row_text(json, "task_id", rows, row, RUN_GET_TASK_ID);
}

static void write_state(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_row_text(json, "status", rows, row, RUN_GET_STATUS);
    json_row_text(json, "execution_status", rows, row, RUN_GET_STATE);
    json_row_text_if(json, "terminal_outcome", rows, row, RUN_GET_OUTCOME);
    json_row_int(json, "exit_code", rows, row, RUN_GET_EXIT_CODE);
    if (!row_is_null(rows, row, RUN_GET_STARTED_MS))
        json_row_int(json, "attempt_number", rows, row, RUN_GET_ATTEMPT);
    json_row_int(json, "turn_index", rows, row, RUN_GET_TURN_INDEX);
    json_row_text_if(json, "previous_run_id", rows, row, RUN_GET_PREVIOUS_RUN_ID);
    json_row_raw_if(json, "forked_from", rows, row, RUN_GET_FORKED_FROM);
    json_row_text(json, "reason", rows, row, RUN_GET_REASON);
    json_row_raw_if(json, "cause", rows, row, RUN_GET_CAUSE);
    json_row_raw(json, "payload", rows, row, RUN_GET_PAYLOAD);
    json_row_raw_if(json, "output", rows, row, RUN_GET_OUTPUT);
    json_row_raw_if(json, "error", rows, row, RUN_GET_ERROR);
}

/* What is known of a run beside its row. */
struct notes {
    struct rows wait;          /* the one that is open, or none */
    const char *queued_reason; /* NULL: as the row has it */
    const char *queued_detail; /* NULL: none */
};

static void write_terms(struct json_writer *json, const struct rows *rows, size_t row, int64_t now,
                        const struct notes *notes)
{
    int64_t active = row_int(rows, row, RUN_GET_ACTIVE_MS);
    if (!row_is_null(rows, row, RUN_GET_ACTIVE_SINCE_MS))
        active += now - row_int(rows, row, RUN_GET_ACTIVE_SINCE_MS);

    json_row_text(json, "queue", rows, row, RUN_GET_QUEUE);
    json_row_text_if(json, "concurrency_key", rows, row, RUN_GET_CONCURRENCY_KEY);
    json_row_int(json, "priority", rows, row, RUN_GET_PRIORITY);
    json_row_duration_if(json, "ttl", rows, row, RUN_GET_TTL_MS);
    json_row_int(json, "max_duration_seconds", rows, row, RUN_GET_MAX_DURATION_SECONDS);
    json_int(json, "active_duration_ms", active < 0 ? 0 : active);
    json_row_raw_if(json, "retry_policy", rows, row, RUN_GET_RETRY_POLICY);
    json_row_raw(json, "secret_names", rows, row, RUN_GET_SECRET_NAMES);
    json_row_raw(json, "metadata", rows, row, RUN_GET_METADATA);
    json_row_raw(json, "tags", rows, row, RUN_GET_TAGS);
    const char *why = notes->queued_reason ? notes->queued_reason : queued_reason(rows, row, now);
    if (why)
        json_string(json, "queued_reason", why);
    if (!row_is_null(rows, row, RUN_GET_ENGINE)) {
        json_open(json, "isolation");
        json_row_text(json, "engine", rows, row, RUN_GET_ENGINE);
        json_row_text(json, "grade", rows, row, RUN_GET_GRADE);
        json_bool(json, "accelerated", row_int(rows, row, RUN_GET_ACCELERATED) != 0);
        json_close(json);
    }
    json_row_text_if(json, "base_version_id", rows, row, RUN_GET_BASE_VERSION_ID);
    json_row_text_if(json, "result_version_id", rows, row, RUN_GET_RESULT_VERSION_ID);
}

static void write_run(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row, bool is_cached, const struct notes *notes)
{
    json_open(json, name);
    write_identity(json, rows, row);
    write_state(json, rows, row);
    write_terms(json, rows, row, time_now_ms(), notes);
    if (notes->queued_detail)
        json_string(json, "queued_detail", notes->queued_detail);
    if (notes->wait.n_rows > 0)
        wait_object_write(json, "pending_wait", &notes->wait, 0);
    json_row_text(json, "api_version", rows, row, RUN_GET_API_VERSION);
    json_row_text_if(json, "sdk_version", rows, row, RUN_GET_SDK_VERSION);
    json_row_text_if(json, "cli_version", rows, row, RUN_GET_CLI_VERSION);
    json_row_time(json, "created_at", rows, row, RUN_GET_CREATED_MS);
    json_row_time(json, "updated_at", rows, row, RUN_GET_UPDATED_MS);
    json_row_time_if(json, "started_at", rows, row, RUN_GET_STARTED_MS);
    json_row_time_if(json, "finished_at", rows, row, RUN_GET_FINISHED_MS);
    if (is_cached)
        json_bool(json, "is_cached", true);
    json_close(json);
}

void run_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row, bool is_cached)
{
    write_run(json, name, rows, row, is_cached, &(struct notes){0});
}

bool run_object_show(struct tx *tx, struct json_writer *json, const char *name,
                     const struct rows *rows, size_t row, struct arena *arena, struct error *err)
{
    struct notes notes = {0};
    const char *why = queued_reason(rows, row, time_now_ms()),
               *id = row_text(rows, row, RUN_GET_ID);
    bool may_wait =
        !row_is_null(rows, row, RUN_GET_STARTED_MS) && row_is_null(rows, row, RUN_GET_FINISHED_MS);
    if (may_wait && !STORE(tx, &wait_pending, arena, &notes.wait, err, V_TEXT(id)))
        return false;
    if (why && strcmp(why, "no_compatible_worker") == 0 &&
        !resume_obstacle(tx, id, arena, &notes.queued_detail, err))
        return false;
    if (why && strcmp(why, "no_capacity") == 0 &&
        !queued_in_vain(tx, id, arena, &notes.queued_detail, err))
        return false;
    if (notes.queued_detail)
        notes.queued_reason = "no_compatible_worker";
    write_run(json, name, rows, row, false, &notes);
    return true;
}
