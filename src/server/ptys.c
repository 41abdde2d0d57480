/* Terminals in a workspace: made, listed, typed into, resized, closed. */
#include "base/time.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/idempotency.h"
#include "server/page.h"
#include "server/process_object.h"
#include "server/process_request.h"

enum { SIZE_MAX_CELLS = 500, COLS_USUAL = 80, ROWS_USUAL = 24 };

struct pty_body {
    struct str cwd;
    int64_t cols, rows;
    struct str idempotency_key, idempotency_key_ttl;
    struct key_origin idempotency_key_options;
};

static const struct json_field pty_fields[] = {
    {"cwd", JSON_TEXT, offsetof(struct pty_body, cwd), OPTIONAL, .max = WIRE_PATH_MAX},
    {"cols", JSON_INTEGER, offsetof(struct pty_body, cols), OPTIONAL, .max = SIZE_MAX_CELLS},
    {"rows", JSON_INTEGER, offsetof(struct pty_body, rows), OPTIONAL, .max = SIZE_MAX_CELLS},
    {"idempotency_key", JSON_TEXT, offsetof(struct pty_body, idempotency_key), OPTIONAL,
     .max = 512},
    {"idempotency_key_ttl", JSON_RAW, offsetof(struct pty_body, idempotency_key_ttl), OPTIONAL,
     .max = 256},
    {"idempotency_key_options", JSON_OBJ, offsetof(struct pty_body, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

static void set_size(struct pty_body *body)
{
    if (body->cols == 0)
        body->cols = COLS_USUAL;
    if (body->rows == 0)
        body->rows = ROWS_USUAL;
}

static bool insert(struct call *call, struct tx *tx, const struct pty_body *body, const char *id,
                   struct wakes *wakes, struct error *err)
{
    struct process_made made = {.kind = PROCESS_PTY, .id = id};

    return process_begin(call, tx, &made, wakes, err) &&
           STORE(tx, &process_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(call_environment(call)),
                 V_TEXT(made.mount.workspace_id), V_TEXT(made.mount.id), V_TEXT("pty"),
                 V_TEXT("starting"), V_TEXT("[]"), V_STR_OR_NULL(body->cwd), V_TEXT("[]"), V_NULL,
                 V_INT(0), V_NULL, V_INT(body->cols), V_INT(body->rows), V_INT(time_now_ms())) &&
           process_launch(tx, &made, wakes, err) &&
           audit_call(tx, call, "workspace.pty", str_of(id), err);
}

bool pty_create_post(struct call *call, struct response *res, struct error *err)
{
    struct wakes wakes = {0};
    char id[ID_TEXT], first[ID_TEXT];
    struct pty_body body;
    AUTO_TX tx = NULL;

    id_make(id);
    if (!call_body(call, pty_fields, &body, sizeof body, err) ||
        !process_check_cwd(body.cwd, err) || !store_begin(server_of(call)->store, &tx, err))
        return false;
    set_size(&body);
    const struct process_key key = {
        .key = body.idempotency_key,
        .ttl = body.idempotency_key_ttl,
        .fingerprint = str_of(arena_printf(call->arena, "%lld %lld %.*s", (long long)body.cols,
                                           (long long)body.rows, (int)body.cwd.len,
                                           body.cwd.ptr ? body.cwd.ptr : "")),
    };
    if (!process_claim_key(call, tx, "POST /api/workspaces/:workspace/pty", &key, id, first, err))
        return false;
    bool is_cached = first[0];
    return (is_cached || insert(call, tx, &body, id, &wakes, err)) &&
           process_answer_made(call, tx, PROCESS_PTY, is_cached ? first : id, is_cached, res,
                               err) &&
           hub_commit(&server_of(call)->hub, &tx, &wakes, err);
}

bool pty_list_get(struct call *call, struct response *res, struct error *err)
{
    return process_answer_list(call, PROCESS_PTY, res, err);
}

bool pty_one_get(struct call *call, struct response *res, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) &&
           process_answer_one(call, tx, PROCESS_PTY, 200, res, err);
}

bool pty_input_post(struct call *call, struct response *res, struct error *err)
{
    return process_input_post(call, PROCESS_PTY, res, err);
}

bool pty_output_get(struct call *call, struct response *res, struct error *err)
{
    return process_output_get(call, PROCESS_PTY, "output", res, err);
}

struct resize_body {
    int64_t cols, rows;
};

static const struct json_field resize_fields[] = {
    {"cols", JSON_INTEGER, offsetof(struct resize_body, cols), REQUIRED, .min = 1,
     .max = SIZE_MAX_CELLS},
    {"rows", JSON_INTEGER, offsetof(struct resize_body, rows), REQUIRED, .min = 1,
     .max = SIZE_MAX_CELLS},
    {0},
};

static bool hold_open(struct call *call, struct tx *tx, struct process_row *process,
                      struct error *err)
{
    return process_hold_path(call, tx, PROCESS_PTY, process, err) &&
           (process->is_live || error_set(err, ERR_PTY_NOT_OPEN, "the terminal is %.*s",
                                          (int)process->state.len, process->state.ptr));
}

bool pty_resize_post(struct call *call, struct response *res, struct error *err)
{
    struct process_row process;
    struct resize_body body;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;

    return call_body(call, resize_fields, &body, sizeof body, err) &&
           store_begin(server_of(call)->store, &tx, err) && hold_open(call, tx, &process, err) &&
           process_resize(tx, &process, body.cols, body.rows, &wakes, err) &&
           process_answer_one(call, tx, PROCESS_PTY, 200, res, err) &&
           hub_commit(&server_of(call)->hub, &tx, &wakes, err);
}

static const struct json_field nothing_fields[] = {{0}};

/* Closing what is closed changes nothing. */
bool pty_close_post(struct call *call, struct response *res, struct error *err)
{
    struct process_row process;
    struct wakes wakes = {0};
    char nothing;
    AUTO_TX tx = NULL;

    return call_body(call, nothing_fields, &nothing, sizeof nothing, err) &&
           store_begin(server_of(call)->store, &tx, err) &&
           process_hold_path(call, tx, PROCESS_PTY, &process, err) &&
           (!process.is_live || process_hang_up(tx, &process, &wakes, err)) &&
           process_answer_one(call, tx, PROCESS_PTY, 200, res, err) &&
           hub_commit(&server_of(call)->hub, &tx, &wakes, err);
}
