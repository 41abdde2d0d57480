#include "server/workspace_object.h"

#include "server/json_row.h"

static void write_mount(struct json_writer *json, const struct rows *rows, size_t row)
{
    if (row_is_null(rows, row, WORKSPACE_GET_MOUNT_ID))
        return;
    json_open(json, "mount");
    json_row_text(json, "id", rows, row, WORKSPACE_GET_MOUNT_ID);
    json_row_text(json, "state", rows, row, WORKSPACE_GET_MOUNT_STATE);
    json_close(json);
}

void workspace_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                            size_t row)
{
    json_open(json, name);
    json_row_text(json, "id", rows, row, WORKSPACE_GET_ID);
    json_row_text(json, "project_id", rows, row, WORKSPACE_GET_PROJECT_ID);
    json_row_text(json, "environment_id", rows, row, WORKSPACE_GET_ENVIRONMENT_ID);
    json_row_text(json, "sandbox_id", rows, row, WORKSPACE_GET_SANDBOX_ID);
    json_row_text(json, "sandbox_fingerprint", rows, row, WORKSPACE_GET_FINGERPRINT);
    json_row_text(json, "deployment_id", rows, row, WORKSPACE_GET_DEPLOYMENT_ID);
    json_row_text_if(json, "external_id", rows, row, WORKSPACE_GET_EXTERNAL_ID);
    json_row_text(json, "state", rows, row, WORKSPACE_GET_STATE);
    json_row_text_if(json, "current_version_id", rows, row, WORKSPACE_GET_CURRENT_VERSION_ID);
    write_mount(json, rows, row);
    json_row_text_if(json, "forked_from", rows, row, WORKSPACE_GET_FORKED_FROM);
    json_row_raw(json, "metadata", rows, row, WORKSPACE_GET_METADATA);
    json_row_raw(json, "tags", rows, row, WORKSPACE_GET_TAGS);
    json_row_time(json, "created_at", rows, row, WORKSPACE_GET_CREATED_MS);
    json_row_time(json, "updated_at", rows, row, WORKSPACE_GET_UPDATED_MS);
    json_close(json);
}

void version_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                          size_t row)
{
    json_open(json, name);
    json_row_text(json, "id", rows, row, VERSION_GET_ID);
    json_row_text(json, "workspace_id", rows, row, VERSION_GET_WORKSPACE_ID);
    json_row_text_if(json, "parent_id", rows, row, VERSION_GET_PARENT_ID);
    json_row_text(json, "kind", rows, row, VERSION_GET_KIND);
    json_row_text(json, "state", rows, row, VERSION_GET_STATE);
    json_row_bool(json, "is_current", rows, row, VERSION_GET_IS_CURRENT);
    json_row_text_if(json, "run_id", rows, row, VERSION_GET_RUN_ID);
    json_row_int_if(json, "attempt_number", rows, row, VERSION_GET_ATTEMPT);
    json_row_int(json, "size_bytes", rows, row, VERSION_GET_SIZE_BYTES);
    json_row_int(json, "entries", rows, row, VERSION_GET_ENTRIES);
    json_row_text(json, "digest", rows, row, VERSION_GET_TREE_DIGEST);
    json_row_time(json, "created_at", rows, row, VERSION_GET_CREATED_MS);
    /* Nobody sees one before it is whole. */
    json_row_time(json, "ready_at", rows, row, VERSION_GET_CREATED_MS);
    json_close(json);
}
