#include <stdio.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/idempotency.h"
#include "server/input.h"
#include "server/json_row.h"
#include "server/page.h"
#include "server/run_object.h"
#include "server/run_stop.h"
#include "store/queries.h"

enum { REASON_MAX = 16 * 1024 };

struct cancel_body {
    struct str reason, idempotency_key, idempotency_key_ttl;
    struct key_origin idempotency_key_options;
    bool force;
};

static const struct json_field cancel_fields[] = {
    {"reason", JSON_TEXT, offsetof(struct cancel_body, reason), OPTIONAL, .max = REASON_MAX},
    {"force", JSON_BOOL, offsetof(struct cancel_body, force), OPTIONAL},
    {"idempotency_key", JSON_TEXT, offsetof(struct cancel_body, idempotency_key), OPTIONAL,
     .max = 512},
    {"idempotency_key_ttl", JSON_RAW, offsetof(struct cancel_body, idempotency_key_ttl), OPTIONAL,
     .max = 256},
    {"idempotency_key_options", JSON_OBJ, offsetof(struct cancel_body, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

/* A cancel on its way. */
struct cancel {
    struct call *call;
    struct cancel_body body;
    struct run_stop stop;
    char by[64];
};

static bool answer(const struct cancel *cancel, struct response *res, struct error *err)
{
    struct value environment = V_TEXT(call_environment(cancel->call));
    struct arena *arena = cancel->call->arena;
    struct rows run, operation;
    if (!STORE(cancel->stop.tx, &run_get, arena, &run, err, environment,
               V_TEXT(cancel->stop.run.id)) ||
        !STORE(cancel->stop.tx, &operation_get, arena, &operation, err, environment,
               V_TEXT(cancel->stop.operation_id)))
        return false;
    if (run.n_rows == 0 || operation.n_rows == 0)
        return error_set(err, ERR_GONE, "the operation of this idempotency key is gone");

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    if (!run_object_show(cancel->stop.tx, &json, "run", &run, 0, arena, err))
        return false;
    json_open(&json, "operation");
    json_row_text(&json, "id", &operation, 0, OPERATION_GET_ID);
    json_row_text(&json, "run_id", &operation, 0, OPERATION_GET_RUN_ID);
    json_row_text(&json, "kind", &operation, 0, OPERATION_GET_KIND);
    json_row_text(&json, "status", &operation, 0, OPERATION_GET_STATUS);
    json_row_text_if(&json, "reason", &operation, 0, OPERATION_GET_REASON);
    json_row_time(&json, "created_at", &operation, 0, OPERATION_GET_CREATED_MS);
    json_row_time_if(&json, "applied_at", &operation, 0, OPERATION_GET_APPLIED_MS);
    json_close(&json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool claim_key(struct cancel *cancel, char first[ID_TEXT], struct error *err)
{
    first[0] = '\0';
    if (!cancel->body.idempotency_key.ptr)
        return true;
    struct idempotency claim = {
        .environment_id = call_environment(cancel->call),
        .route = "POST /api/runs/:run/cancel",
        .key = cancel->body.idempotency_key,
        .subject_id = cancel->stop.operation_id,
        .now = cancel->stop.now,
        .ttl_ms = DAY_MS,
    };
    struct blake2b state;
    blake2b_init(&state, (struct str){0});
    blake2b_update(&state, str_of(cancel->stop.run.id));
    blake2b_update(&state, cancel->body.force ? STR("1") : STR("0"));
    blake2b_update(&state, cancel->body.reason);
    blake2b_final(&state, claim.fingerprint);
    return name_check(NAME_EXTERNAL, "idempotency_key", claim.key, err) &&
           input_key_ttl(cancel->body.idempotency_key_ttl, &claim.ttl_ms, err) &&
           idempotency_claim_key(cancel->stop.tx, &claim, cancel->call->arena, first, err);
}

static bool open_run(struct cancel *cancel, const char *id, struct error *err)
{
    struct run_stop *stop = &cancel->stop;

    if (!STORE(stop->tx, &run_lock, NULL, NULL, err, V_TEXT(id)) ||
        !run_row_load(stop->tx, id, stop->arena, &stop->run, err))
        return false;
    return strcmp(stop->run.environment_id, call_environment(cancel->call)) == 0 ||
           error_set(err, ERR_NOT_FOUND, "there is no run %s", id);
}

bool run_cancel(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct cancel cancel = {
        .call = call, .stop = {.server = server, .arena = call->arena, .now = time_now_ms()}
    };
    char id[ID_TEXT], first[ID_TEXT];
    AUTO_TX tx = NULL;
    if (!call_id(call, 0, id, err) ||
        !call_body(call, cancel_fields, &cancel.body, sizeof cancel.body, err) ||
        !store_begin(server->store, &tx, err))
        return false;
    cancel.stop.tx = tx;
    caller_label(caller_of(call), cancel.by);
    cancel.stop.by = cancel.by;
    cancel.stop.reason = cancel.body.reason;
    cancel.stop.force = cancel.body.force;
    id_make(cancel.stop.operation_id);

    struct wakes wakes = {0};
    if (!open_run(&cancel, id, err) || !claim_key(&cancel, first, err))
        return false;
    if (first[0])
        memcpy(cancel.stop.operation_id, first, sizeof first);
    else if (!run_stop(&cancel.stop, &wakes, err) ||
             !audit_call(tx, call, "run.cancel", str_of(cancel.stop.run.id), err))
        return false;
    return answer(&cancel, res, err) && hub_commit(&server->hub, &tx, &wakes, err);
}
