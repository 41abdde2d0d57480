#include "server/deployment_store.h"

#include "base/id.h"
#include "base/json.h"
#include "base/time.h"
#include "model/deployment_state.h"
#include "server/event.h"
#include "server/queue.h"
#include "store/queries.h"

enum { ERROR_MAX = 256 * 1024 };

struct deployment_row {
    enum deployment_state state;
    int64_t build_number, created_ms;
    const char *environment_id;
};

static bool load(struct tx *tx, const char *id, struct arena *arena, struct deployment_row *row,
                 struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &deployment_load, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0 ||
        !deployment_state_parse(row_str(&rows, 0, DEPLOYMENT_LOAD_STATE), &row->state))
        return error_set(err, ERR_NOT_FOUND, "there is no deployment %s", id);
    row->build_number = row_int(&rows, 0, DEPLOYMENT_LOAD_BUILD_NUMBER);
    row->created_ms = row_int(&rows, 0, DEPLOYMENT_LOAD_CREATED_MS);
    row->environment_id = row_text(&rows, 0, DEPLOYMENT_LOAD_ENVIRONMENT_ID);
    return true;
}

static bool move(struct deployment_row *row, enum deployment_event on, struct error *err)
{
    if (deployment_state_apply(&row->state, on))
        return true;
    return error_set(err, ERR_CONFLICT, "a deployment that is %s cannot %s",
                     deployment_state_name(row->state), deployment_event_name(on));
}

static void note(const char *id, const struct deployment_row *row, struct wakes *wakes)
{
    wakes_add(wakes, "deployment:", id);
    wakes_add(wakes, "env:", row->environment_id);
}

static bool append(struct tx *tx, const char *id, const char *kind, const char *source,
                   const char *severity, struct json_writer *json, struct buf *text,
                   struct error *err)
{
    if (!json_end(json, err))
        return false;
    const struct event event = {.kind = kind,
                                .source = source,
                                .severity = severity,
                                .attributes = buf_str(text)};
    return deployment_event_append(tx, id, &event, err);
}

bool deployment_start_build(struct tx *tx, const char *id, const struct deployment_builder *builder,
                            struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf text = {.max = 4096};
    struct json_writer json = json_begin(&text);
    struct deployment_row row = {0};
    struct rows rows;

    if (!load(tx, id, &arena, &row, err))
        return false;
    const char *before = deployment_state_name(row.state);
    if (!move(&row, DEPLOYMENT_START, err) ||
        !STORE(tx, &deployment_begin, &arena, &rows, err, V_TEXT(id), V_TEXT(before),
               V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the deployment moved meanwhile");
    json_open(&json, NULL);
    json_string(&json, "worker_id", builder->worker_id);
    json_string(&json, "lease_id", builder->lease_id);
    json_int(&json, "build_number", row.build_number);
    json_text(&json, "engine", builder->engine);
    json_text(&json, "grade", builder->grade);
    json_close(&json);
    note(id, &row, wakes);
    return append(tx, id, "deployment.building", "worker", NULL, &json, &text, err);
}

static bool write_failed(struct tx *tx, const char *id, const char *before,
                         const struct deployment_fault *fault, struct error *err)
{
    AUTO(buf_finish) struct buf error_text = {.max = ERROR_MAX};
    AUTO(buf_finish) struct buf event_text = {.max = ERROR_MAX};
    struct json_writer json = json_begin(&error_text), event = json_begin(&event_text);
    AUTO(arena_finish) struct arena arena = {0};
    struct str file;
    struct rows rows;
    int64_t line;

    json_open(&json, NULL);
    json_string(&json, "layer", fault->layer);
    json_string(&json, "failure_kind", fault->failure_kind);
    json_text(&json, "message", fault->message);
    if (fault->details.ptr)
        json_raw(&json, "details", fault->details);
    json_close(&json);

    json_open(&event, NULL);
    json_string(&event, "layer", fault->layer);
    json_string(&event, "failure_kind", fault->failure_kind);
    json_text(&event, "detail", fault->message);
    if (fault->details.ptr && json_find_text(fault->details, "file", &arena, &file))
        json_text(&event, "file", file);
    if (fault->details.ptr && json_find_int(fault->details, "line", &line))
        json_int(&event, "line", line);
    json_close(&event);
    return json_end(&json, err) &&
           STORE(tx, &deployment_fail, &arena, &rows, err, V_TEXT(id), V_TEXT(before),
                 V_STR(buf_str(&error_text)), V_INT(time_now_ms())) &&
           append(tx, id, "deployment.failed", fault->source, "error", &event, &event_text, err);
}

bool deployment_end_failed(struct tx *tx, const char *id, int on,
                           const struct deployment_fault *fault, struct wakes *wakes,
                           struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct deployment_row row = {0};

    if (!load(tx, id, &arena, &row, err))
        return false;
    const char *before = deployment_state_name(row.state);
    note(id, &row, wakes);
    return move(&row, (enum deployment_event)on, err) && queue_remove(tx, id, err) &&
           write_failed(tx, id, before, fault, err);
}

static bool queue_again(struct tx *tx, const char *id, const char *lane_id, const char *reason,
                        const struct deployment_row *row, const char *before, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf text = {.max = 4096};
    struct json_writer json = json_begin(&text);
    const struct queue_item item = {
        .kind = "build",
        .subject_id = id,
        .lane_id = lane_id,
        .environment_id = row->environment_id,
        .score_ms = row->created_ms,
        .not_before_ms = time_now_ms(),
    };
    struct rows rows;

    json_open(&json, NULL);
    json_string(&json, "reason", reason);
    json_int(&json, "build_number", row->build_number);
    json_close(&json);
    return STORE(tx, &deployment_requeue, &arena, &rows, err, V_TEXT(id), V_TEXT(before),
                 V_INT(time_now_ms())) &&
           queue_put(tx, &item, err) &&
           append(tx, id, "deployment.build.requeued", "control", "warn", &json, &text, err);
}

static bool wake_group(struct tx *tx, const char *environment_id, struct wakes *wakes,
                       struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &environment_group, &arena, &rows, err, V_TEXT(environment_id)))
        return false;
    if (rows.n_rows == 1)
        wakes_add(wakes, "g", row_text(&rows, 0, ENVIRONMENT_GROUP_GROUP_ID));
    return true;
}

bool deployment_give_back(struct tx *tx, const char *id, const char *lane_id, const char *reason,
                          struct str text, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct deployment_row row = {0};

    if (!load(tx, id, &arena, &row, err))
        return false;
    if (deployment_state_is_final(row.state))
        return true;
    if (row.build_number >= BUILD_LEASES_MAX) {
        const struct deployment_fault fault = {
            .layer = "guest_runtime",
            .failure_kind = "worker_lost",
            .message = text.len ? text : STR("every build of it was lost with its worker"),
        };
        int on = row.state == DEPLOYMENT_QUEUED ? DEPLOYMENT_CANCEL : DEPLOYMENT_LEASES_SPENT;
        return deployment_end_failed(tx, id, on, &fault, wakes, err);
    }
    const char *before = deployment_state_name(row.state);
    /* A lease given back before it started has left the deployment queued. */
    if (row.state == DEPLOYMENT_BUILDING && !move(&row, DEPLOYMENT_LEASE_LOST, err))
        return false;
    note(id, &row, wakes);
    return queue_again(tx, id, lane_id, reason, &row, before, err) &&
           wake_group(tx, row.environment_id, wakes, err);
}
