#include <stdio.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/event.h"
#include "server/handlers.h"
#include "server/idempotency.h"
#include "server/input.h"
#include "server/json_row.h"
#include "server/outbox.h"
#include "server/page.h"
#include "server/run_object.h"
#include "server/run_store.h"
#include "server/wait_store.h"
#include "store/queries.h"

enum { REASON_MAX = 16 * 1024, EVENT_MAX = 128 * 1024 };

struct cancel_body {
    struct str reason, idempotency_key;
    bool force;
};

static const struct json_field cancel_fields[] = {
    {"reason", JSON_TEXT, offsetof(struct cancel_body, reason), OPTIONAL, .max = REASON_MAX},
    {"force", JSON_BOOL, offsetof(struct cancel_body, force), OPTIONAL},
    {"idempotency_key", JSON_TEXT, offsetof(struct cancel_body, idempotency_key), OPTIONAL,
     .max = 512},
    {0},
};

/* A cancel on its way. */
struct cancel {
    struct call *call;
    struct tx *tx;
    struct cancel_body body;
    struct run_row run;
    char operation_id[ID_TEXT], by[64];
    int64_t now;
};

static bool requested_event(const struct cancel *cancel, struct error *err)
{
    AUTO(buf_finish) struct buf attributes = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&attributes);
    json_open(&json, NULL);
    if (cancel->body.reason.ptr)
        json_text(&json, "reason", cancel->body.reason);
    json_bool(&json, "force", cancel->body.force);
    json_string(&json, "requested_by", cancel->by);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    struct event event = {.kind = "run.cancel_requested",
                          .attempt = cancel->run.started_ms ? cancel->run.attempt : 0,
                          .attributes = buf_str(&attributes)};
    return run_event_append(cancel->tx, cancel->run.id, &event, err);
}

static bool record(struct cancel *cancel, struct error *err)
{
    const struct server *server = server_of(cancel->call);
    int64_t grace = cancel->body.force ? 0 : server->config->cancel_grace_ms;
    if (!STORE(cancel->tx, &run_cancel_record, NULL, NULL, err, V_TEXT(cancel->run.id),
               V_INT(cancel->now), V_INT(cancel->now + grace), V_STR_OR_NULL(cancel->body.reason),
               V_INT(cancel->body.force), V_TEXT(cancel->by)))
        return false;
    if (!cancel->run.is_cancelled)
        cancel->run.cancel_reason = cancel->body.reason;
    cancel->run.cancel_force = cancel->body.force;
    cancel->run.is_cancelled = true;
    return true;
}

static bool insert_operation(const struct cancel *cancel, const char *status, struct error *err)
{
    bool is_applied = strcmp(status, "applied") == 0;
    return STORE(cancel->tx, &operation_insert, NULL, NULL, err, V_TEXT(cancel->operation_id),
                 V_TEXT(call_environment(cancel->call)), V_TEXT(cancel->run.id), V_TEXT("cancel"),
                 V_TEXT(status), V_STR_OR_NULL(cancel->body.reason), V_INT(cancel->body.force),
                 V_TEXT(cancel->by), V_INT(cancel->now), is_applied ? V_INT(cancel->now) : V_NULL);
}

static bool end_at_once(struct cancel *cancel, enum run_event on, struct wakes *wakes,
                        struct error *err)
{
    const struct run_end end = {0};
    return run_finish(cancel->tx, &cancel->run, on, &end, wakes, err) &&
           STORE(cancel->tx, &attempt_close, NULL, NULL, err, V_TEXT(cancel->run.id),
                 V_INT(cancel->run.attempt), V_TEXT("cancelled"), V_INT(cancel->now)) &&
           insert_operation(cancel, "applied", err);
}

static bool is_parked(struct cancel *cancel, bool *parked, struct error *err)
{
    struct wait_row wait;
    bool found;
    if (!wait_load_open(cancel->tx, cancel->run.id, cancel->call->arena, &wait, &found, err))
        return false;
    *parked = found && cancel->run.state == RUN_WAITING && wait.suspension == SUSPENSION_PARKED;
    return true;
}

/* Ends it at once where no sandbox can exist, else asks its worker. */
static bool apply(struct cancel *cancel, struct wakes *wakes, struct error *err)
{
    enum run_state state = cancel->run.state;
    bool parked;
    if (run_state_is_final(state))
        return insert_operation(cancel, "ignored", err);
    if (!requested_event(cancel, err) || !record(cancel, err) || !is_parked(cancel, &parked, err))
        return false;
    if (state == RUN_QUEUED || state == RUN_CREATED || parked)
        return end_at_once(cancel, parked ? RUN_CANCEL_PARKED : RUN_CANCEL, wakes, err);
    /* A second request may only make the first one harder. */
    if (state != RUN_PENDING_CANCEL && !run_move(cancel->tx, &cancel->run, RUN_CANCEL, wakes, err))
        return false;
    wakes_add(wakes, "run:", cancel->run.id);
    return outbox_cancel(cancel->tx, "run", cancel->run.id, cancel->body.reason, cancel->body.force,
                         wakes, err) &&
           insert_operation(cancel, "pending", err);
}

static bool answer(const struct cancel *cancel, struct response *res, struct error *err)
{
    struct value environment = V_TEXT(call_environment(cancel->call));
    struct arena *arena = cancel->call->arena;
    struct rows run, operation;
    if (!STORE(cancel->tx, &run_get, arena, &run, err, environment, V_TEXT(cancel->run.id)) ||
        !STORE(cancel->tx, &operation_get, arena, &operation, err, environment,
               V_TEXT(cancel->operation_id)))
        return false;
    if (run.n_rows == 0 || operation.n_rows == 0)
        return error_set(err, ERR_GONE, "the operation of this idempotency key is gone");

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    if (!run_object_show(cancel->tx, &json, "run", &run, 0, arena, err))
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
        .subject_id = cancel->operation_id,
        .now = cancel->now,
        .ttl_ms = DAY_MS,
    };
    struct blake2b state;
    blake2b_init(&state, (struct str){0});
    blake2b_update(&state, str_of(cancel->run.id));
    blake2b_update(&state, cancel->body.force ? STR("1") : STR("0"));
    blake2b_update(&state, cancel->body.reason);
    blake2b_final(&state, claim.fingerprint);
    return name_check(NAME_EXTERNAL, "idempotency_key", claim.key, err) &&
           idempotency_claim_key(cancel->tx, &claim, cancel->call->arena, first, err);
}

bool run_cancel(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct cancel cancel = {.call = call, .now = time_now_ms()};
    char id[ID_TEXT], first[ID_TEXT];
    AUTO_TX tx = NULL;
    if (!call_id(call, 0, id, err) ||
        !call_body(call, cancel_fields, &cancel.body, sizeof cancel.body, err) ||
        !store_begin(server->store, &tx, err))
        return false;
    cancel.tx = tx;
    caller_label(caller_of(call), cancel.by);
    id_make(cancel.operation_id);
    if (!STORE(tx, &run_lock, NULL, NULL, err, V_TEXT(id)) ||
        !run_row_load(tx, id, call->arena, &cancel.run, err))
        return false;
    if (strcmp(cancel.run.environment_id, call_environment(call)) != 0)
        return error_set(err, ERR_NOT_FOUND, "there is no run %s", id);

    struct wakes wakes = {0};
    if (!claim_key(&cancel, first, err))
        return false;
    if (first[0])
        memcpy(cancel.operation_id, first, sizeof first);
    else if (!apply(&cancel, &wakes, err) ||
             !audit_call(tx, call, "run.cancel", str_of(cancel.run.id), err))
        return false;
    return answer(&cancel, res, err) && hub_commit(&server->hub, &tx, &wakes, err);
}
