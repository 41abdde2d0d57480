#include "base/time.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/deployment_object.h"
#include "server/event.h"
#include "server/handlers.h"
#include "server/history.h"
#include "server/outbox.h"
#include "server/page.h"
#include "server/queue.h"
#include "server/schedule_store.h"
#include "store/queries.h"

enum { REASON_MAX = 16 * 1024, FAILURE_MAX = 128 * 1024 };

static bool answer_one(struct call *call, struct tx *tx, struct str id, int status,
                       struct response *res, struct error *err)
{
    struct rows rows;
    if (!STORE(tx, &deployment_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_STR(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such deployment");
    struct json_writer json = json_begin(response_body(res));
    if (!deployment_object_write(tx, call->arena, &json, NULL, &rows, 0, err))
        return false;
    response_json(res, status);
    return json_end(&json, err);
}

bool deployment_one_get(struct call *call, struct response *res, struct error *err)
{
    AUTO_TX tx = NULL;
    return store_begin_read(server_of(call)->store, &tx, err) &&
           answer_one(call, tx, id_or_name(call->arena, call_param(call, 0)), 200, res, err);
}

bool deployment_current_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &deployment_current, call->arena, &rows, err, V_TEXT(call_environment(call))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    if (rows.n_rows == 0)
        json_null(&json, "deployment");
    else if (!deployment_object_write(tx, call->arena, &json, "deployment", &rows, 0, err))
        return false;
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool deployment_list_get(struct call *call, struct response *res, struct error *err)
{
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!page_begin(call, "deployments", (struct str){0}, false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &deployment_list, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(page.at), V_INT(page_rows(&page))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "deployments");
    for (size_t i = 0; i < n; i++)
        if (!deployment_object_write(tx, call->arena, &json, NULL, &rows, i, err))
            return false;
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, DEPLOYMENT_LIST_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool peek(struct call *call, struct tx *tx, struct rows *rows, struct error *err)
{
    if (!STORE(tx, &deployment_peek, call->arena, rows, err, V_TEXT(call_environment(call)),
               V_STR(id_or_name(call->arena, call_param(call, 0)))))
        return false;
    return rows->n_rows == 1 || error_set(err, ERR_NOT_FOUND, "there is no such deployment");
}

bool deployment_events_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    {
        AUTO_TX tx = NULL;
        if (!store_begin_read(server_of(call)->store, &tx, err) || !peek(call, tx, &rows, err))
            return false;
    }
    struct history history = {.store = server_of(call)->store};
    row_id(&rows, 0, DEPLOYMENT_PEEK_ID, history.owner_id);
    return history_answer(call, &history, res, err);
}

struct reason_body {
    struct str reason;
};

static const struct json_field reason_fields[] = {
    {"reason", JSON_TEXT, offsetof(struct reason_body, reason), OPTIONAL, .max = REASON_MAX},
    {0},
};

static bool promoted_event(struct call *call, struct tx *tx, const struct rows *deployment,
                           struct str previous, struct str reason, struct error *err)
{
    char label[64];
    caller_label(caller_of(call), label);
    AUTO(buf_finish) struct buf attributes = {.max = FAILURE_MAX};
    struct json_writer json = json_begin(&attributes);
    json_open(&json, NULL);
    json_text(&json, "version", row_str(deployment, 0, DEPLOYMENT_PEEK_VERSION));
    if (previous.len)
        json_text(&json, "previous_deployment_id", previous);
    if (reason.len)
        json_text(&json, "reason", reason);
    json_string(&json, "promoted_by", label);
    json_close(&json);
    struct event event = {.kind = "deployment.promoted"};
    if (!json_end(&json, err))
        return false;
    event.attributes = buf_str(&attributes);
    return deployment_event_append(tx, row_text(deployment, 0, DEPLOYMENT_PEEK_ID), &event, err);
}

static bool promote(struct call *call, struct tx *tx, const struct rows *deployment,
                    struct str reason, struct wakes *wakes, struct error *err)
{
    const char *environment = call_environment(call);
    const char *id = row_text(deployment, 0, DEPLOYMENT_PEEK_ID);
    if (!str_equal(row_str(deployment, 0, DEPLOYMENT_PEEK_STATE), STR("deployed")))
        return error_set(err, ERR_NOT_DEPLOYED, "only a deployed deployment can be promoted");

    struct rows locked;
    if (!STORE(tx, &environment_lock, call->arena, &locked, err, V_TEXT(environment)))
        return false;
    struct str previous = row_str(&locked, 0, ENVIRONMENT_LOCK_CURRENT_DEPLOYMENT_ID);
    if (str_equal(previous, str_of(id)))
        return true;

    char label[64];
    caller_label(caller_of(call), label);
    int64_t now = time_now_ms();
    wakes_add(wakes, "deployment:", id);
    wakes_add(wakes, "env:", environment);
    return STORE(tx, &environment_promote, NULL, NULL, err, V_TEXT(environment), V_TEXT(id),
                 V_INT(now)) &&
           STORE(tx, &deployment_promote, NULL, NULL, err, V_TEXT(id), V_STR_OR_NULL(reason),
                 V_TEXT(label), V_INT(now)) &&
           schedules_reconcile(server_of(call), tx, environment, id, now, call->arena, err) &&
           promoted_event(call, tx, deployment, previous, reason, err);
}

bool deployment_promote_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct reason_body body;
    struct rows rows;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    if (!call_body(call, reason_fields, &body, sizeof body, err) ||
        !store_begin(server->store, &tx, err) || !peek(call, tx, &rows, err) ||
        !promote(call, tx, &rows, body.reason, &wakes, err) ||
        !answer_one(call, tx, row_str(&rows, 0, DEPLOYMENT_PEEK_ID), 200, res, err) ||
        !audit_call(tx, call, "deployment.promote", row_str(&rows, 0, DEPLOYMENT_PEEK_ID), err))
        return false;
    return hub_commit(&server->hub, &tx, &wakes, err);
}

static bool fail_cancelled(struct call *call, struct tx *tx, const struct rows *deployment,
                           struct str reason, struct error *err)
{
    const char *id = row_text(deployment, 0, DEPLOYMENT_PEEK_ID);
    const char *state = row_text(deployment, 0, DEPLOYMENT_PEEK_STATE);
    AUTO(buf_finish) struct buf failure = {.max = FAILURE_MAX};
    struct json_writer json = json_begin(&failure);
    json_open(&json, NULL);
    json_string(&json, "layer", "deployment_build");
    json_string(&json, "failure_kind", "build_cancelled");
    json_text(&json, "message", reason.len ? reason : STR("the build was cancelled"));
    json_close(&json);
    AUTO(buf_finish) struct buf attributes = {.max = FAILURE_MAX};
    struct json_writer event_json = json_begin(&attributes);
    json_open(&event_json, NULL);
    json_string(&event_json, "layer", "deployment_build");
    json_string(&event_json, "failure_kind", "build_cancelled");
    json_text(&event_json, "detail", reason.len ? reason : STR("the build was cancelled"));
    json_close(&event_json);
    struct rows changed;
    if (!json_end(&json, err) || !json_end(&event_json, err) ||
        !STORE(tx, &deployment_fail, call->arena, &changed, err, V_TEXT(id), V_TEXT(state),
               V_STR(buf_str(&failure)), V_INT(time_now_ms())))
        return false;
    if (changed.n_changed != 1)
        return store_lost_race(err, "the deployment moved meanwhile; try again");
    struct event event = {.kind = "deployment.failed",
                          .severity = "error",
                          .attributes = buf_str(&attributes)};
    return deployment_event_append(tx, id, &event, err);
}

bool deployment_cancel_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct reason_body body;
    struct rows rows;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    if (!call_body(call, reason_fields, &body, sizeof body, err) ||
        !store_begin(server->store, &tx, err) || !peek(call, tx, &rows, err))
        return false;

    const char *id = row_text(&rows, 0, DEPLOYMENT_PEEK_ID);
    struct str state = row_str(&rows, 0, DEPLOYMENT_PEEK_STATE);
    if (!str_equal(state, STR("queued")) && !str_equal(state, STR("building")))
        return error_set(err, ERR_DEPLOYMENT_TERMINAL, "the build is over");
    /* Its lease before itself: the order of the workers' reports. And once more, for a lease
     * that was granted while the deployment's row was waited for. */
    if (!outbox_revoke(tx, "build", id, body.reason, &wakes, err) ||
        !fail_cancelled(call, tx, &rows, body.reason, err) || !queue_remove(tx, id, err) ||
        !outbox_revoke(tx, "build", id, body.reason, &wakes, err))
        return false;

    wakes_add(&wakes, "deployment:", id);
    wakes_add(&wakes, "env:", call_environment(call));
    return answer_one(call, tx, str_of(id), 200, res, err) &&
           audit_call(tx, call, "deployment.cancel", str_of(id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}
