/* Sessions of tasks: the routes that show and end them. */
#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/input.h"
#include "server/page.h"
#include "server/run_object.h"
#include "server/task_session_object.h"
#include "server/task_session_store.h"

enum {
    REASON_MAX = 16 * 1024,
    METADATA_MAX = 64 * 1024,
    LIST_STEP = 16,
    LIST_BYTES = 8 * 1024 * 1024,
};

static bool show(struct call *call, struct tx *tx, const char *id, struct response *res,
                 struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &session_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_SESSION_NOT_FOUND, "there is no session %s", id);
    struct json_writer json = json_begin(response_body(res));
    session_object_write(&json, NULL, &rows, 0, time_now_ms());
    response_json(res, 200);
    return json_end(&json, err);
}

bool session_one_get(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) &&
           task_session_of_call(call, tx, id, err) && show(call, tx, id, res, err);
}

struct session_filter {
    const struct query *query;
    struct str status, task_id, external_id; /* ptr NULL: any */
};

static bool read_text(struct call *call, const char *name, struct str *value, struct error *err)
{
    bool found = false;

    if (!call_query(call, name, value, &found, err))
        return false;
    if (!found)
        *value = (struct str){0};
    return true;
}

static bool read_filter(struct call *call, struct session_filter *filter, struct error *err)
{
    enum session_state state;

    if (!read_text(call, "status", &filter->status, err) ||
        !read_text(call, "task_id", &filter->task_id, err) ||
        !read_text(call, "external_id", &filter->external_id, err) ||
        (filter->task_id.ptr && !name_check(NAME_ID, "task_id", filter->task_id, err)) ||
        (filter->external_id.ptr &&
         !name_check(NAME_EXTERNAL, "external_id", filter->external_id, err)))
        return false;
    if (!filter->status.ptr)
        filter->status = STR("open");
    else if (str_equal(filter->status, STR("all")))
        filter->status = (struct str){0};
    else if (!session_state_parse(filter->status, &state))
        return error_set(err, ERR_INVALID, "status must be all or the status of a session");
    filter->query = filter->external_id.ptr ? &session_list_named
                    : filter->status.ptr    ? &session_list_status
                                            : &session_list_all;
    return true;
}

static bool read_sessions(struct call *call, struct tx *tx, const struct session_filter *filter,
                          const char *before, struct rows *rows, struct error *err)
{
    const struct value params[] = {
        V_TEXT(call_environment(call)), V_TEXT(before),
        V_STR_OR_NULL(filter->task_id), V_INT(LIST_STEP),
        V_STR_OR_NULL(filter->status),  V_STR_OR_NULL(filter->external_id),
    };

    return store_run(tx, filter->query, params, (size_t)filter->query->n_params, call->arena, rows,
                     err);
}

static struct str filter_text(struct call *call, const struct session_filter *filter)
{
    return str_of(
        arena_printf(call->arena, "%.*s %.*s %.*s", (int)filter->status.len,
                     filter->status.ptr ? filter->status.ptr : "", (int)filter->task_id.len,
                     filter->task_id.ptr ? filter->task_id.ptr : "", (int)filter->external_id.len,
                     filter->external_id.ptr ? filter->external_id.ptr : ""));
}

/* In steps, for results may be large: a page ends early rather than grow over its bytes. *last is
 * the id of the last one shown when there are more. */
static bool write_sessions(struct call *call, struct tx *tx, const struct session_filter *filter,
                           const struct page *page, struct json_writer *json, struct str *last,
                           struct error *err)
{
    const char *before = page->at;
    int64_t shown = 0, now = time_now_ms();
    struct rows rows;

    do {
        if (!read_sessions(call, tx, filter, before, &rows, err))
            return false;
        for (size_t i = 0; i < rows.n_rows; i++) {
            if (shown == page->limit || json->out->len > LIST_BYTES) {
                *last = str_of(before);
                return true;
            }
            session_object_write(json, NULL, &rows, i, now);
            before = row_text(&rows, i, SESSION_GET_ID);
            shown++;
        }
    } while (rows.n_rows == LIST_STEP);
    return true;
}

bool session_list_get(struct call *call, struct response *res, struct error *err)
{
    struct session_filter filter;
    struct str last = {0};
    struct page page;
    AUTO_TX tx = NULL;

    if (!read_filter(call, &filter, err) ||
        !page_begin(call, "sessions", filter_text(call, &filter), false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_open_list(&json, "sessions");
    if (!write_sessions(call, tx, &filter, &page, &json, &last, err))
        return false;
    json_close_list(&json);
    if (last.ptr)
        page_next(call, &page, last, &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

struct update_body {
    struct str metadata, expires_at;
    struct json_list tags;
    bool has_tags;
};

static const struct json_field update_fields[] = {
    {"metadata", JSON_RAW, offsetof(struct update_body, metadata), OPTIONAL, .max = METADATA_MAX},
    {"tags", JSON_LIST, offsetof(struct update_body, tags), OPTIONAL, .max = 32,
     .present = offsetof(struct update_body, has_tags)},
    {"expires_at", JSON_TEXT, offsetof(struct update_body, expires_at), OPTIONAL, .max = 64},
    {0},
};

/* What a PATCH changes; ptr NULL and 0: nothing. */
struct update {
    struct str metadata, tags;
    int64_t expires_ms;
};

static bool read_update(struct call *call, struct update *update, struct error *err)
{
    struct update_body body;

    *update = (struct update){0};
    if (!call_body(call, update_fields, &body, sizeof body, err) ||
        (body.metadata.ptr && !input_object(body.metadata, "metadata", METADATA_MAX, call->arena,
                                            &update->metadata, err)) ||
        (body.has_tags &&
         !input_tags(body.tags.items, body.tags.n, call->arena, &update->tags, err)))
        return false;
    return !body.expires_at.ptr || time_parse(body.expires_at, &update->expires_ms, err) ||
           error_wrap(err, "/expires_at");
}

static bool may_expire(const struct session_row *session, const struct update *update, int64_t now,
                       struct error *err)
{
    if (!update->expires_ms || update->expires_ms == session->expires_ms)
        return true;
    if (!task_session_is_open(session, now, err))
        return false;
    if (update->expires_ms <= now)
        return error_set(err, ERR_INVALID, "/expires_at must be in the future");
    if (session->expires_ms && update->expires_ms > session->expires_ms)
        return error_set(err, ERR_SESSION_EXTENDED,
                         "expires_at can be set or made earlier, not later");
    return true;
}

bool session_patch(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct session_row session;
    struct update update;
    struct wakes wakes = {0};
    int64_t now = time_now_ms();
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    if (!read_update(call, &update, err) || !store_begin(server->store, &tx, err) ||
        !task_session_of_call(call, tx, id, err) ||
        !task_session_hold(tx, id, call->arena, &session, err) ||
        !may_expire(&session, &update, now, err) ||
        !STORE(tx, &session_update, NULL, NULL, err, V_TEXT(id), V_STR_OR_NULL(update.metadata),
               V_STR_OR_NULL(update.tags), update.expires_ms ? V_INT(update.expires_ms) : V_NULL,
               V_INT(now)))
        return false;
    wakes_add(&wakes, "session:", id);
    wakes_add(&wakes, "env:", session.environment_id);
    return show(call, tx, id, res, err) &&
           audit_call(tx, call, "session.update", str_of(id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}

struct end_body {
    struct str reason;
};

static const struct json_field end_fields[] = {
    {"reason", JSON_TEXT, offsetof(struct end_body, reason), OPTIONAL, .max = REASON_MAX},
    {0},
};

static bool end_session(struct call *call, enum session_event on, const char *action,
                        struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct session_ending ending = {.server = server,
                                    .arena = call->arena,
                                    .on = on,
                                    .now = time_now_ms()};
    struct session_row session;
    struct end_body body;
    struct wakes wakes = {0};
    char id[ID_TEXT], by[64];
    AUTO_TX tx = NULL;

    caller_label(caller_of(call), by);
    ending.by = by;
    if (!call_body(call, end_fields, &body, sizeof body, err) ||
        !store_begin(server->store, &tx, err) || !task_session_of_call(call, tx, id, err) ||
        !task_session_hold(tx, id, call->arena, &session, err))
        return false;
    ending.tx = tx;
    ending.reason = body.reason;
    return task_session_is_open(&session, ending.now, err) &&
           task_session_end(&ending, &session, &wakes, err) && show(call, tx, id, res, err) &&
           audit_call(tx, call, action, str_of(id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}

bool session_close_post(struct call *call, struct response *res, struct error *err)
{
    return end_session(call, SESSION_CLOSE, "session.close", res, err);
}

bool session_cancel_post(struct call *call, struct response *res, struct error *err)
{
    return end_session(call, SESSION_CANCEL, "session.cancel", res, err);
}

/* As write_sessions, but by turn. */
static bool write_runs(struct call *call, struct tx *tx, const char *session,
                       const struct page *page, struct json_writer *json, struct str *last,
                       struct error *err)
{
    const char *after = page->at;
    int64_t shown = 0;
    struct rows rows;

    do {
        if (!STORE(tx, &session_runs, call->arena, &rows, err, V_TEXT(call_environment(call)),
                   V_TEXT(session), V_TEXT(after), V_INT(LIST_STEP)))
            return false;
        for (size_t i = 0; i < rows.n_rows; i++) {
            if (shown == page->limit || json->out->len > LIST_BYTES) {
                *last = str_of(after);
                return true;
            }
            if (!run_object_show(tx, json, NULL, &rows, i, call->arena, err))
                return false;
            after = row_text(&rows, i, RUN_GET_ID);
            shown++;
        }
    } while (rows.n_rows == LIST_STEP);
    return true;
}

bool session_runs_get(struct call *call, struct response *res, struct error *err)
{
    struct str last = {0};
    char id[ID_TEXT];
    struct page page;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !task_session_of_call(call, tx, id, err) ||
        !page_begin(call, "session runs", str_of(id), true, &page, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_open_list(&json, "runs");
    if (!write_runs(call, tx, id, &page, &json, &last, err))
        return false;
    json_close_list(&json);
    if (last.ptr)
        page_next(call, &page, last, &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}
