/* Schedules: cron expressions that start runs. */
#include "base/json.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/json_row.h"
#include "server/page.h"
#include "server/schedule_request.h"
#include "store/queries.h"

static void write_fields(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_row_text(json, "id", rows, row, SCHEDULE_GET_ID);
    json_row_text(json, "type", rows, row, SCHEDULE_GET_TYPE);
    json_row_text(json, "deduplication_key", rows, row, SCHEDULE_GET_DEDUPLICATION_KEY);
    json_row_text(json, "task", rows, row, SCHEDULE_GET_TASK_ID);
    json_row_text(json, "cron", rows, row, SCHEDULE_GET_CRON);
    json_row_text(json, "timezone", rows, row, SCHEDULE_GET_TIMEZONE);
    json_row_text_if(json, "external_id", rows, row, SCHEDULE_GET_EXTERNAL_ID);
    json_row_text(json, "status", rows, row, SCHEDULE_GET_STATUS);
    json_row_text_if(json, "last_error", rows, row, SCHEDULE_GET_LAST_ERROR);
    json_row_raw(json, "options", rows, row, SCHEDULE_GET_OPTIONS);
    json_row_raw_if(json, "secret_bindings", rows, row, SCHEDULE_GET_SECRET_BINDINGS);
    json_row_time_if(json, "next_fire_at", rows, row, SCHEDULE_GET_NEXT_FIRE_MS);
    json_row_time_if(json, "last_fire_at", rows, row, SCHEDULE_GET_LAST_FIRE_MS);
    json_row_time(json, "created_at", rows, row, SCHEDULE_GET_CREATED_MS);
    json_row_time(json, "updated_at", rows, row, SCHEDULE_GET_UPDATED_MS);
}

/* The next slots while it is active, from the one that comes first. */
static void write_upcoming(struct json_writer *json, const struct schedule *schedule,
                           struct arena *arena)
{
    int64_t slots[SCHEDULE_UPCOMING];
    struct schedule_times times;
    struct error err;
    size_t n = 0;

    if (schedule->state == SCHEDULE_ACTIVE && schedule_times(schedule, arena, &times, &err))
        n = schedule_upcoming(&times, schedule->next_ms - 1, slots);
    json_open_list(json, "upcoming");
    for (size_t i = 0; i < n; i++)
        json_time(json, NULL, slots[i]);
    json_close_list(json);
}

static bool answer_one(struct call *call, struct tx *tx, const char *id, int status,
                       struct response *res, struct error *err)
{
    struct schedule schedule;
    struct rows rows;

    if (!STORE(tx, &schedule_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no schedule %s", id);
    if (!schedule_read(&rows, 0, &schedule, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    write_fields(&json, &rows, 0);
    write_upcoming(&json, &schedule, call->arena);
    json_close(&json);
    response_json(res, status);
    return json_end(&json, err);
}

bool schedule_one_get(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    return call_id(call, 0, id, err) && store_begin_read(server_of(call)->store, &tx, err) &&
           answer_one(call, tx, id, 200, res, err);
}

bool schedule_list_get(struct call *call, struct response *res, struct error *err)
{
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!page_begin(call, "schedules", (struct str){0}, false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &schedule_list, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(page.at), V_INT(page_rows(&page))))
        return false;
    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "schedules");
    for (size_t i = 0; i < n; i++) {
        json_open(&json, NULL);
        write_fields(&json, &rows, i);
        json_close(&json);
    }
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, SCHEDULE_LIST_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool is_editable(const struct schedule *schedule, struct error *err)
{
    return !schedule->is_declarative ||
           error_set(err, ERR_SCHEDULE_DECLARATIVE,
                     "the schedule belongs to the source of its task: change it there and deploy");
}

/* The schedule of the path, locked, to be changed. */
static bool open_one(struct call *call, struct tx *tx, struct schedule *schedule, struct error *err)
{
    char id[ID_TEXT];

    return call_id(call, 0, id, err) &&
           schedule_load(tx, call_environment(call), id, call->arena, schedule, err) &&
           is_editable(schedule, err);
}

/* *id is "" when there is none with the key. */
static bool find_key(struct call *call, struct tx *tx, struct str key, char id[ID_TEXT],
                     struct error *err)
{
    struct rows rows;

    id[0] = '\0';
    if (!STORE(tx, &schedule_find_key, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_STR(key)))
        return false;
    if (rows.n_rows > 0)
        row_id(&rows, 0, SCHEDULE_FIND_KEY_ID, id);
    return true;
}

/* Makes the change, with its entry in the log and the answer. */
static bool finish(struct call *call, struct tx **tx, const char *action, const char *id,
                   int status, struct response *res, struct error *err)
{
    return answer_one(call, *tx, id, status, res, err) &&
           audit_call(*tx, call, action, str_of(id), err) && store_commit(tx, err);
}

static bool create_one(struct call *call, struct tx *tx, const struct schedule_request *request,
                       char id[ID_TEXT], struct error *err)
{
    struct schedule schedule = {.key = request->key};
    int64_t now = time_now_ms();
    bool is_new;

    id_make(schedule.id);
    memcpy(id, schedule.id, ID_TEXT);
    memcpy(schedule.environment_id, call_environment(call), ID_TEXT);
    if (!schedule_request_apply(request, server_of(call), tx, true, now, call->arena, &schedule,
                                err) ||
        !schedule_write_new(tx, &schedule, now, &is_new, err))
        return false;
    return is_new || store_lost_race(err, "a schedule with this key was made meanwhile");
}

static bool update_one(struct call *call, struct tx *tx, const struct schedule_request *request,
                       struct schedule *schedule, struct error *err)
{
    int64_t now = time_now_ms();

    return schedule_request_apply(request, server_of(call), tx, false, now, call->arena, schedule,
                                  err) &&
           schedule_write(tx, schedule, now, err);
}

bool schedule_create_post(struct call *call, struct response *res, struct error *err)
{
    struct schedule_request request;
    struct schedule schedule;
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    if (!schedule_request_read(call, true, &request, err) ||
        !store_begin(server_of(call)->store, &tx, err) || !find_key(call, tx, request.key, id, err))
        return false;
    if (!id[0])
        return create_one(call, tx, &request, id, err) &&
               finish(call, &tx, "schedule.create", id, 201, res, err);
    return schedule_load(tx, call_environment(call), id, call->arena, &schedule, err) &&
           update_one(call, tx, &request, &schedule, err) &&
           finish(call, &tx, "schedule.update", id, 200, res, err);
}

bool schedule_update_put(struct call *call, struct response *res, struct error *err)
{
    struct schedule_request request;
    struct schedule schedule;
    AUTO_TX tx = NULL;

    return schedule_request_read(call, false, &request, err) &&
           store_begin(server_of(call)->store, &tx, err) && open_one(call, tx, &schedule, err) &&
           update_one(call, tx, &request, &schedule, err) &&
           finish(call, &tx, "schedule.update", schedule.id, 200, res, err);
}

bool schedule_activate_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct schedule_times times;
    struct schedule schedule;
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) || !open_one(call, tx, &schedule, err))
        return false;
    if (schedule.state != SCHEDULE_ACTIVE &&
        (!schedule_times(&schedule, call->arena, &times, err) ||
         !schedule_check_task(tx, &schedule, call->arena, now, err) ||
         !schedule_arm(server, &schedule, &times, now, err) ||
         !schedule_write(tx, &schedule, now, err)))
        return false;
    return finish(call, &tx, "schedule.activate", schedule.id, 200, res, err);
}

bool schedule_deactivate_post(struct call *call, struct response *res, struct error *err)
{
    struct schedule schedule;
    AUTO_TX tx = NULL;

    return store_begin(server_of(call)->store, &tx, err) && open_one(call, tx, &schedule, err) &&
           schedule_switch_off(&schedule, err) &&
           schedule_write(tx, &schedule, time_now_ms(), err) &&
           finish(call, &tx, "schedule.deactivate", schedule.id, 200, res, err);
}

bool schedule_delete_one(struct call *call, struct response *res, struct error *err)
{
    struct schedule schedule;
    AUTO_TX tx = NULL;

    if (!store_begin(server_of(call)->store, &tx, err) || !open_one(call, tx, &schedule, err) ||
        !schedule_remove(tx, schedule.id, err) ||
        !audit_call(tx, call, "schedule.delete", str_of(schedule.id), err) ||
        !store_commit(&tx, err))
        return false;
    response_empty(res, 204);
    return true;
}
