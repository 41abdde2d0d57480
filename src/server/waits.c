/* The waits of a run, as the API shows them. */
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/json_row.h"
#include "server/page.h"
#include "server/wait_object.h"

_Static_assert((int)WAIT_LIST_RELEASED_MS == (int)WAIT_PENDING_RELEASED_MS,
               "both ways to find waits have the same columns");

static void write_checkpoint(struct json_writer *json, const struct rows *rows, size_t row)
{
    if (row_is_null(rows, row, WAIT_LIST_CHECKPOINT_STATE))
        return;
    json_open(json, "checkpoint");
    json_row_text(json, "id", rows, row, WAIT_LIST_CHECKPOINT_ID);
    json_row_text(json, "state", rows, row, WAIT_LIST_CHECKPOINT_STATE);
    json_row_int(json, "size_bytes", rows, row, WAIT_LIST_CHECKPOINT_BYTES);
    json_close(json);
}

void wait_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                       size_t row)
{
    json_open(json, name);
    json_row_text(json, "id", rows, row, WAIT_LIST_ID);
    json_row_text(json, "run_id", rows, row, WAIT_LIST_RUN_ID);
    json_row_int(json, "attempt_number", rows, row, WAIT_LIST_ATTEMPT);
    json_row_text(json, "kind", rows, row, WAIT_LIST_KIND);
    json_row_text(json, "condition", rows, row, WAIT_LIST_CONDITION);
    json_row_text(json, "suspension", rows, row, WAIT_LIST_SUSPENSION);
    json_row_raw(json, "params", rows, row, WAIT_LIST_PARAMS);
    json_row_raw(json, "metadata", rows, row, WAIT_LIST_METADATA);
    json_row_raw(json, "tags", rows, row, WAIT_LIST_TAGS);
    json_row_text_if(json, "timeout", rows, row, WAIT_LIST_TIMEOUT);
    json_row_time_if(json, "timeout_at", rows, row, WAIT_LIST_TIMEOUT_AT_MS);
    json_row_text_if(json, "token_id", rows, row, WAIT_LIST_TOKEN_ID);
    write_checkpoint(json, rows, row);
    json_row_time(json, "created_at", rows, row, WAIT_LIST_CREATED_MS);
    json_row_time_if(json, "settled_at", rows, row, WAIT_LIST_SETTLED_MS);
    json_row_time_if(json, "released_at", rows, row, WAIT_LIST_RELEASED_MS);
    json_close(json);
}

bool run_waits_get(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    struct rows run, rows;
    AUTO_TX tx = NULL;

    if (!call_id(call, 0, id, err) || !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &run_peek, call->arena, &run, err, V_TEXT(call_environment(call)), V_TEXT(id)) ||
        !STORE(tx, &wait_list, call->arena, &rows, err, V_TEXT(call_environment(call)), V_TEXT(id)))
        return false;
    if (run.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no run %s", id);
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_open_list(&json, "waits");
    for (size_t i = 0; i < rows.n_rows; i++)
        wait_object_write(&json, NULL, &rows, i);
    json_close_list(&json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}
