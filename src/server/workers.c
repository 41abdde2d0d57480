/* The fleet as people see it: workers and their groups. A group that is paused, or a worker that
 * drains, is given nothing new; what they have goes on. */
#include "base/time.h"
#include "model/worker_state.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/json_row.h"
#include "server/outbox.h"
#include "server/page.h"
#include "store/queries.h"

static void write_worker(struct json_writer *json, const struct rows *rows, size_t row,
                         struct arena *arena)
{
    struct str grade = {0}, probes = STR("[]");
    struct str capabilities = row_str(rows, row, WORKER_LIST_CAPABILITIES);

    json_open(json, NULL);
    json_row_text(json, "id", rows, row, WORKER_LIST_ID);
    json_row_text(json, "resource_id", rows, row, WORKER_LIST_RESOURCE_ID);
    json_row_text(json, "group", rows, row, WORKER_LIST_GROUP_NAME);
    json_row_text(json, "state", rows, row, WORKER_LIST_STATE);
    json_row_int(json, "epoch", rows, row, WORKER_LIST_EPOCH);
    json_row_raw(json, "roles", rows, row, WORKER_LIST_ROLES);
    json_row_raw(json, "labels", rows, row, WORKER_LIST_LABELS);
    json_row_text(json, "engine", rows, row, WORKER_LIST_ENGINE);
    if (capabilities.ptr) {
        json_find_text(capabilities, "grade", arena, &grade);
        json_find_raw(capabilities, "probes", arena, &probes);
    }
    json_text(json, "grade", grade.ptr ? grade : STR(""));
    json_row_text(json, "version", rows, row, WORKER_LIST_VERSION);
    json_raw(json, "capabilities", capabilities.ptr ? capabilities : STR("{}"));
    json_raw(json, "probes", probes);
    json_row_raw(json, "paused", rows, row, WORKER_LIST_PAUSED);
    json_row_raw(json, "quarantined", rows, row, WORKER_LIST_QUARANTINED);
    json_row_int(json, "active_leases", rows, row, WORKER_LIST_ACTIVE_LEASES);
    json_row_time(json, "last_seen_at", rows, row, WORKER_LIST_HEARTBEAT_MS);
    json_close(json);
}

bool worker_list_get(struct call *call, struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &worker_list, call->arena, &rows, err, V_TEXT(caller_of(call)->organization_id)))
        return false;
    json_open(&json, NULL);
    json_open_list(&json, "workers");
    for (size_t i = 0; i < rows.n_rows; i++)
        write_worker(&json, &rows, i, call->arena);
    json_close_list(&json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

/* By the id in the path; columns of worker_show. */
static bool find_worker(struct call *call, struct tx *tx, struct rows *rows, struct error *err)
{
    char id[ID_TEXT];

    if (!call_id(call, 0, id, err) || !STORE(tx, &worker_show, call->arena, rows, err,
                                             V_TEXT(caller_of(call)->organization_id), V_TEXT(id)))
        return false;
    return rows->n_rows == 1 || error_set(err, ERR_NOT_FOUND, "there is no worker %s", id);
}
_Static_assert((int)WORKER_SHOW_ACTIVE_LEASES == (int)WORKER_LIST_ACTIVE_LEASES,
               "a worker is written from the columns of both");

static bool answer_worker(struct call *call, struct tx *tx, struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    struct rows rows;

    if (!find_worker(call, tx, &rows, err))
        return false;
    write_worker(&json, &rows, 0, call->arena);
    response_json(res, 200);
    return json_end(&json, err);
}

bool worker_one_get(struct call *call, struct response *res, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) && answer_worker(call, tx, res, err);
}

/* The worker is told, and its polls look again at what it may take now. */
static bool tell(struct tx *tx, const struct rows *worker, const char *message, struct wakes *wakes,
                 struct error *err)
{
    wakes_add(wakes, "g", row_text(worker, 0, WORKER_SHOW_GROUP_ID));
    return !message || outbox_send(tx, row_text(worker, 0, WORKER_SHOW_ID), NULL, message,
                                   STR("{}"), wakes, err);
}

static bool change(struct call *call, enum worker_event on, const char *message,
                   struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    enum worker_state before = WORKER_LOST, after;
    struct rows worker, rows;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) || !find_worker(call, tx, &worker, err))
        return false;
    if (!worker_state_parse(row_str(&worker, 0, WORKER_SHOW_STATE), &before))
        return error_set(err, ERR_INTERNAL, "the worker is in no known state");
    after = before;
    if (!worker_state_apply(&after, on) ||
        (on == WORKER_DRAINED && row_int(&worker, 0, WORKER_SHOW_ACTIVE_LEASES) > 0))
        return error_set(err, ERR_CONFLICT, "a worker that is %s cannot %s%s",
                         worker_state_name(before), message ? message : "be disabled",
                         message ? "" : ": drain it first, and wait until it has no work");
    if (!STORE(tx, &worker_drain, call->arena, &rows, err,
               V_STR(row_str(&worker, 0, WORKER_SHOW_ID)), V_TEXT(worker_state_name(before)),
               V_TEXT(worker_state_name(after)), V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the worker");
    const char *action = arena_printf(call->arena, "worker.%s", message ? message : "disable");
    return tell(tx, &worker, message, &wakes, err) && answer_worker(call, tx, res, err) &&
           audit_call(tx, call, action, row_str(&worker, 0, WORKER_SHOW_ID), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}

bool worker_drain_post(struct call *call, struct response *res, struct error *err)
{
    return change(call, WORKER_DRAIN, "drain", res, err);
}

bool worker_undrain_post(struct call *call, struct response *res, struct error *err)
{
    return change(call, WORKER_UNDRAIN, "undrain", res, err);
}

/* Only of one that drains and has nothing left: its process ends, its credential is worth
 * nothing more. */
bool worker_disable_post(struct call *call, struct response *res, struct error *err)
{
    return change(call, WORKER_DRAINED, NULL, res, err);
}

static void write_group(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_open(json, NULL);
    json_row_text(json, "name", rows, row, WORKER_GROUP_LIST_NAME);
    json_row_text(json, "state", rows, row, WORKER_GROUP_LIST_STATE);
    json_row_int(json, "workers", rows, row, WORKER_GROUP_LIST_WORKERS);
    json_close(json);
}

bool worker_group_list_get(struct call *call, struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &worker_group_list, call->arena, &rows, err,
               V_TEXT(caller_of(call)->organization_id)))
        return false;
    json_open(&json, NULL);
    json_open_list(&json, "worker_groups");
    for (size_t i = 0; i < rows.n_rows; i++)
        write_group(&json, &rows, i);
    json_close_list(&json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool answer_group(struct call *call, struct tx *tx, struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    struct rows rows;

    if (!STORE(tx, &worker_group_list, call->arena, &rows, err,
               V_TEXT(caller_of(call)->organization_id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++)
        if (str_equal(row_str(&rows, i, WORKER_GROUP_LIST_NAME), call_param(call, 0)))
            write_group(&json, &rows, i);
    response_json(res, 200);
    return json_end(&json, err);
}

/* Polls of a group that is active again look for work at once. */
static bool set_group(struct call *call, const char *state, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &worker_group_set, call->arena, &rows, err,
               V_TEXT(caller_of(call)->organization_id), V_STR(call_param(call, 0)), V_TEXT(state)))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_NOT_FOUND, "there is no such worker group");
    wakes_add(&wakes, "g", row_text(&rows, 0, WORKER_GROUP_SET_ID));
    return answer_group(call, tx, res, err) &&
           audit_call(tx, call, "worker_group.change", call_param(call, 0), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}

bool worker_group_pause_post(struct call *call, struct response *res, struct error *err)
{
    return set_group(call, "paused", res, err);
}

bool worker_group_activate_post(struct call *call, struct response *res, struct error *err)
{
    return set_group(call, "active", res, err);
}
