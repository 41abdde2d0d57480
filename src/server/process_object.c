#include "server/process_object.h"

#include "base/time.h"
#include "model/name.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/idempotency.h"
#include "server/input.h"
#include "server/json_row.h"
#include "server/page.h"

#define KEY_TTL_MS     DAY_MS
#define KEY_TTL_MAX_MS (365 * DAY_MS)

void exec_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                       size_t row)
{
    json_open(json, name);
    json_row_text(json, "id", rows, row, PROCESS_GET_ID);
    json_row_text(json, "workspace_id", rows, row, PROCESS_GET_WORKSPACE_ID);
    json_row_text(json, "workspace_mount_id", rows, row, PROCESS_GET_MOUNT_ID);
    json_row_raw(json, "command", rows, row, PROCESS_GET_COMMAND);
    json_row_text(json, "cwd", rows, row, PROCESS_GET_CWD);
    json_row_raw(json, "env_shape", rows, row, PROCESS_GET_ENV_NAMES);
    json_row_text(json, "state", rows, row, PROCESS_GET_STATE);
    json_row_bool(json, "detached", rows, row, PROCESS_GET_DETACHED);
    json_row_int_if(json, "process_id", rows, row, PROCESS_GET_PID);
    json_row_int_if(json, "exit_code", rows, row, PROCESS_GET_EXIT_CODE);
    json_row_text_if(json, "signal", rows, row, PROCESS_GET_SIGNAL);
    json_row_text_if(json, "error", rows, row, PROCESS_GET_ERROR);
    json_row_int(json, "stdout_cursor", rows, row, PROCESS_GET_OUT_END);
    json_row_int(json, "stderr_cursor", rows, row, PROCESS_GET_ERR_END);
    json_row_int(json, "stdin_cursor", rows, row, PROCESS_GET_INPUT_END);
    json_row_time_if(json, "stdin_closed_at", rows, row, PROCESS_GET_INPUT_CLOSED_MS);
    json_row_time(json, "created_at", rows, row, PROCESS_GET_CREATED_MS);
    json_row_time_if(json, "started_at", rows, row, PROCESS_GET_STARTED_MS);
    json_row_time_if(json, "exited_at", rows, row, PROCESS_GET_ENDED_MS);
    json_row_time(json, "updated_at", rows, row, PROCESS_GET_UPDATED_MS);
    json_close(json);
}

void pty_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row)
{
    json_open(json, name);
    json_row_text(json, "id", rows, row, PROCESS_GET_ID);
    json_row_text(json, "workspace_id", rows, row, PROCESS_GET_WORKSPACE_ID);
    json_row_text(json, "workspace_mount_id", rows, row, PROCESS_GET_MOUNT_ID);
    json_row_text(json, "state", rows, row, PROCESS_GET_STATE);
    json_row_text(json, "cwd", rows, row, PROCESS_GET_CWD);
    json_row_int(json, "cols", rows, row, PROCESS_GET_COLS);
    json_row_int(json, "rows", rows, row, PROCESS_GET_ROWS);
    json_row_int(json, "output_cursor", rows, row, PROCESS_GET_OUT_END);
    json_row_int(json, "input_cursor", rows, row, PROCESS_GET_INPUT_END);
    json_row_int_if(json, "exit_code", rows, row, PROCESS_GET_EXIT_CODE);
    json_row_text_if(json, "error", rows, row, PROCESS_GET_ERROR);
    json_row_time(json, "created_at", rows, row, PROCESS_GET_CREATED_MS);
    json_row_time_if(json, "opened_at", rows, row, PROCESS_GET_STARTED_MS);
    json_row_time_if(json, "closed_at", rows, row, PROCESS_GET_ENDED_MS);
    json_row_time(json, "updated_at", rows, row, PROCESS_GET_UPDATED_MS);
    json_close(json);
}

void chunk_object_write(struct json_writer *json, const struct rows *rows, size_t row, int64_t from)
{
    int64_t start = row_int(rows, row, PROCESS_CHUNKS_BETWEEN_OFFSET_START);
    struct str bytes = row_str(rows, row, PROCESS_CHUNKS_BETWEEN_BYTES);

    if (from > start && from - start <= (int64_t)bytes.len) {
        bytes = (struct str){bytes.ptr + (from - start), bytes.len - (size_t)(from - start)};
        start = from;
    }
    json_open(json, NULL);
    json_row_text(json, "id", rows, row, PROCESS_CHUNKS_BETWEEN_ID);
    json_row_text(json, "stream", rows, row, PROCESS_CHUNKS_BETWEEN_STREAM);
    json_int(json, "offset_start", start);
    json_row_int(json, "offset_end", rows, row, PROCESS_CHUNKS_BETWEEN_OFFSET_END);
    json_base64(json, "data", bytes);
    json_row_time(json, "observed_at", rows, row, PROCESS_CHUNKS_BETWEEN_OBSERVED_MS);
    json_row_time(json, "created_at", rows, row, PROCESS_CHUNKS_BETWEEN_CREATED_MS);
    json_close(json);
}

void mount_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                        size_t row)
{
    json_open(json, name);
    json_row_text(json, "id", rows, row, MOUNT_GET_ID);
    json_row_text(json, "workspace_id", rows, row, MOUNT_GET_WORKSPACE_ID);
    json_row_text(json, "state", rows, row, MOUNT_GET_STATE);
    json_row_int(json, "fencing_generation", rows, row, MOUNT_GET_FENCING_GENERATION);
    json_row_text_if(json, "worker_id", rows, row, MOUNT_GET_WORKER_ID);
    json_row_text_if(json, "engine", rows, row, MOUNT_GET_ENGINE);
    json_row_text_if(json, "grade", rows, row, MOUNT_GET_GRADE);
    json_row_text_if(json, "error", rows, row, MOUNT_GET_ERROR);
    json_row_time(json, "created_at", rows, row, MOUNT_GET_CREATED_MS);
    json_row_time_if(json, "mounted_at", rows, row, MOUNT_GET_MOUNTED_MS);
    json_row_time_if(json, "unmounted_at", rows, row, MOUNT_GET_ENDED_MS);
    json_close(json);
}

static void write_one(struct json_writer *json, const char *name, enum process_kind kind,
                      const struct rows *rows, size_t row)
{
    if (kind == PROCESS_EXEC)
        exec_object_write(json, name, rows, row);
    else
        pty_object_write(json, name, rows, row);
}

bool workspace_of_path(struct call *call, char id[ID_TEXT], struct error *err)
{
    return id_parse(call_param(call, 0), id) ||
           error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no such workspace");
}

static bool load_one(struct call *call, struct tx *tx, enum process_kind kind, const char *id,
                     struct rows *rows, struct error *err)
{
    char workspace[ID_TEXT];

    return workspace_of_path(call, workspace, err) &&
           STORE(tx, &process_get, call->arena, rows, err, V_TEXT(call_environment(call)),
                 V_TEXT(workspace), V_TEXT(process_kind_name(kind)), V_TEXT(id));
}

static bool not_found(enum process_kind kind, struct error *err)
{
    return kind == PROCESS_EXEC
               ? error_set(err, ERR_EXEC_NOT_FOUND, "there is no such command in the workspace")
               : error_set(err, ERR_PTY_NOT_FOUND, "there is no such terminal in the workspace");
}

bool process_of_path(struct call *call, struct tx *tx, enum process_kind kind, struct rows *rows,
                     struct error *err)
{
    char id[ID_TEXT];

    if (!id_parse(call_param(call, 1), id))
        return not_found(kind, err);
    return load_one(call, tx, kind, id, rows, err) && (rows->n_rows > 0 || not_found(kind, err));
}

bool process_hold_path(struct call *call, struct tx *tx, enum process_kind kind,
                       struct process_row *process, struct error *err)
{
    struct rows rows;

    return process_of_path(call, tx, kind, &rows, err) &&
           process_load(tx, row_text(&rows, 0, PROCESS_GET_ID), call->arena, process, err);
}

static bool workspace_is_there(struct call *call, struct tx *tx, const char *workspace,
                               struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &workspace_versions, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(workspace)))
        return false;
    return rows.n_rows > 0 ||
           error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s", workspace);
}

bool process_answer_list(struct call *call, enum process_kind kind, struct response *res,
                         struct error *err)
{
    char workspace[ID_TEXT];
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!workspace_of_path(call, workspace, err) ||
        !page_begin_with(call, process_kind_name(kind), str_of(workspace), false, 50, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !workspace_is_there(call, tx, workspace, err) ||
        !STORE(tx, &process_list, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(workspace), V_TEXT(process_kind_name(kind)), V_TEXT(page.at),
               V_INT(page_rows(&page))))
        return false;
    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, kind == PROCESS_EXEC ? "execs" : "ptys");
    for (size_t i = 0; i < n; i++)
        write_one(&json, NULL, kind, &rows, i);
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, PROCESS_LIST_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool process_answer_one(struct call *call, struct tx *tx, enum process_kind kind, int status,
                        struct response *res, struct error *err)
{
    struct rows rows;

    if (!process_of_path(call, tx, kind, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    write_one(&json, NULL, kind, &rows, 0);
    response_json(res, status);
    return json_end(&json, err);
}

bool process_claim_key(struct call *call, struct tx *tx, const char *route,
                       const struct process_key *key, const char *id, char first[ID_TEXT],
                       struct error *err)
{
    const struct str pieces[] = {call_param(call, 0), key->fingerprint};
    struct idempotency claim = {
        .environment_id = call_environment(call),
        .route = route,
        .key = key->key,
        .subject_id = id,
        .now = time_now_ms(),
        .ttl_ms = KEY_TTL_MS,
    };

    first[0] = '\0';
    if (!key->key.ptr)
        return true;
    blake2b_list((struct str){0}, pieces, COUNT_OF(pieces), claim.fingerprint);
    return name_check(NAME_EXTERNAL, "idempotency_key", key->key, err) &&
           (!key->ttl.ptr ||
            input_duration(key->ttl, "idempotency_key_ttl", KEY_TTL_MAX_MS, &claim.ttl_ms, err)) &&
           idempotency_claim_key(tx, &claim, call->arena, first, err);
}

bool process_answer_made(struct call *call, struct tx *tx, enum process_kind kind, const char *id,
                         bool is_cached, struct response *res, struct error *err)
{
    struct rows rows;

    if (!load_one(call, tx, kind, id, &rows, err))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_GONE, "what the idempotency key made is gone");
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    write_one(&json, process_kind_name(kind), kind, &rows, 0);
    json_bool(&json, "is_cached", is_cached);
    json_close(&json);
    response_json(res, is_cached ? 200 : 201);
    return json_end(&json, err);
}
