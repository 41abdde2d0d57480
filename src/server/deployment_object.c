#include "server/deployment_object.h"

#include "server/json_row.h"
#include "store/queries.h"

static void write_task(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_row_text(json, "id", rows, row, TASK_GET_ID);
    json_row_text(json, "task_id", rows, row, TASK_GET_TASK_ID);
    json_row_text(json, "deployment_id", rows, row, TASK_GET_DEPLOYMENT_ID);
    json_row_text(json, "deployment_version", rows, row, TASK_GET_DEPLOYMENT_VERSION);
    json_row_text(json, "file_path", rows, row, TASK_GET_FILE_PATH);
    json_row_text(json, "export_name", rows, row, TASK_GET_EXPORT_NAME);
    json_row_text(json, "sandbox_id", rows, row, TASK_GET_SANDBOX_ID);
    json_row_bool(json, "accepts_payload", rows, row, TASK_GET_ACCEPTS_PAYLOAD);
    json_row_int(json, "max_duration_seconds", rows, row, TASK_GET_MAX_DURATION_SECONDS);
    json_row_text(json, "queue", rows, row, TASK_GET_QUEUE);
    json_row_duration_if(json, "ttl", rows, row, TASK_GET_TTL_MS);
    json_row_raw_if(json, "retry_policy", rows, row, TASK_GET_RETRY_POLICY);
    json_row_raw(json, "secrets", rows, row, TASK_GET_SECRETS);
    json_row_raw(json, "schedules", rows, row, TASK_GET_SCHEDULES);
    json_row_bool(json, "preload", rows, row, TASK_GET_PRELOAD);
    json_row_text_if(json, "preload_reason", rows, row, TASK_GET_PRELOAD_REASON);
}

void task_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                       size_t row)
{
    json_open(json, name);
    write_task(json, rows, row);
    json_close(json);
}

void task_object_write_whole(struct json_writer *json, const struct rows *task,
                             const struct rows *schema)
{
    json_open(json, NULL);
    write_task(json, task, 0);
    json_row_raw_if(json, "payload_schema", schema, 0, TASK_PAYLOAD_SCHEMA_PAYLOAD_SCHEMA);
    json_close(json);
}

void sandbox_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                          size_t row)
{
    int64_t millis = row_int(rows, row, SANDBOX_GET_CPU_MILLIS);
    json_open(json, name);
    json_row_text(json, "id", rows, row, SANDBOX_GET_ID);
    json_row_text(json, "sandbox_id", rows, row, SANDBOX_GET_SANDBOX_ID);
    json_row_text(json, "deployment_id", rows, row, SANDBOX_GET_DEPLOYMENT_ID);
    json_row_text(json, "fingerprint", rows, row, SANDBOX_GET_FINGERPRINT);
    json_row_int(json, "guest_abi", rows, row, SANDBOX_GET_GUEST_ABI);
    json_row_text(json, "image_digest", rows, row, SANDBOX_GET_IMAGE_DIGEST);
    json_row_text(json, "mount_path", rows, row, SANDBOX_GET_MOUNT_PATH);
    json_open(json, "resources");
    json_int(json, "cpu", (millis + 999) / 1000);
    json_row_int(json, "memory_mib", rows, row, SANDBOX_GET_MEMORY_MIB);
    json_row_int(json, "disk_mib", rows, row, SANDBOX_GET_DISK_MIB);
    json_close(json);
    json_row_raw(json, "network", rows, row, SANDBOX_GET_NETWORK);
    json_close(json);
}

static bool write_parts(struct tx *tx, struct arena *arena, struct json_writer *json,
                        const char *deployment_id, struct error *err)
{
    struct rows tasks, sandboxes, queues;
    if (!STORE(tx, &deployment_tasks_list, arena, &tasks, err, V_TEXT(deployment_id)) ||
        !STORE(tx, &deployment_sandboxes_list, arena, &sandboxes, err, V_TEXT(deployment_id)) ||
        !STORE(tx, &deployment_queues_list, arena, &queues, err, V_TEXT(deployment_id)))
        return false;

    json_open_list(json, "tasks");
    for (size_t i = 0; i < tasks.n_rows; i++)
        task_object_write(json, NULL, &tasks, i);
    json_close_list(json);
    json_open_list(json, "sandboxes");
    for (size_t i = 0; i < sandboxes.n_rows; i++)
        sandbox_object_write(json, NULL, &sandboxes, i);
    json_close_list(json);
    json_open_list(json, "queues");
    for (size_t i = 0; i < queues.n_rows; i++) {
        json_open(json, NULL);
        json_row_text(json, "name", &queues, i, DEPLOYMENT_QUEUES_LIST_NAME);
        json_row_int(json, "concurrency_limit", &queues, i,
                     DEPLOYMENT_QUEUES_LIST_CONCURRENCY_LIMIT);
        json_close(json);
    }
    json_close_list(json);
    return true;
}

static void write_times(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_row_time_if(json, "promoted_at", rows, row, DEPLOYMENT_GET_PROMOTED_MS);
    json_row_text_if(json, "promotion_reason", rows, row, DEPLOYMENT_GET_PROMOTION_REASON);
    json_row_text(json, "api_version", rows, row, DEPLOYMENT_GET_API_VERSION);
    json_row_text_if(json, "sdk_version", rows, row, DEPLOYMENT_GET_SDK_VERSION);
    json_row_text_if(json, "cli_version", rows, row, DEPLOYMENT_GET_CLI_VERSION);
    json_row_time(json, "created_at", rows, row, DEPLOYMENT_GET_CREATED_MS);
    json_row_time_if(json, "building_at", rows, row, DEPLOYMENT_GET_BUILDING_MS);
    json_row_time_if(json, "built_at", rows, row, DEPLOYMENT_GET_BUILT_MS);
    json_row_time_if(json, "deployed_at", rows, row, DEPLOYMENT_GET_DEPLOYED_MS);
    json_row_time_if(json, "failed_at", rows, row, DEPLOYMENT_GET_FAILED_MS);
}

bool deployment_object_write(struct tx *tx, struct arena *arena, struct json_writer *json,
                             const char *name, const struct rows *rows, size_t row,
                             struct error *err)
{
    json_open(json, name);
    json_row_text(json, "id", rows, row, DEPLOYMENT_GET_ID);
    json_row_text(json, "version", rows, row, DEPLOYMENT_GET_VERSION);
    json_row_text(json, "project_id", rows, row, DEPLOYMENT_GET_PROJECT_ID);
    json_row_text(json, "environment_id", rows, row, DEPLOYMENT_GET_ENVIRONMENT_ID);
    json_row_text_if(json, "config_project", rows, row, DEPLOYMENT_GET_CONFIG_PROJECT);
    json_row_text(json, "content_hash", rows, row, DEPLOYMENT_GET_CONTENT_HASH);
    json_open(json, "deployment_source");
    json_row_text(json, "digest", rows, row, DEPLOYMENT_GET_CONTENT_HASH);
    json_row_int(json, "size_bytes", rows, row, DEPLOYMENT_GET_SOURCE_BYTES);
    json_string(json, "media_type", "application/vnd.helmr.deployment-source.v0.tar");
    json_close(json);
    json_row_text_if(json, "build_manifest_digest", rows, row,
                     DEPLOYMENT_GET_BUILD_MANIFEST_DIGEST);
    json_row_text_if(json, "deployment_manifest_digest", rows, row,
                     DEPLOYMENT_GET_DEPLOYMENT_MANIFEST_DIGEST);
    json_row_text(json, "status", rows, row, DEPLOYMENT_GET_STATE);
    json_row_bool(json, "is_current", rows, row, DEPLOYMENT_GET_IS_CURRENT);
    json_row_raw_if(json, "error", rows, row, DEPLOYMENT_GET_ERROR);
    if (!write_parts(tx, arena, json, row_text(rows, row, DEPLOYMENT_GET_ID), err))
        return false;
    json_row_raw(json, "streams", rows, row, DEPLOYMENT_GET_STREAMS);
    write_times(json, rows, row);
    json_close(json);
    return true;
}
