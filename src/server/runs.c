#include <stdio.h>

#include "base/json.h"
#include "model/name.h"
#include "model/run_state.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/history.h"
#include "server/page.h"
#include "server/run_object.h"
#include "store/queries.h"

/* A page of runs may carry 16 MiB payloads; it ends early rather than grow over this. */
enum { LIST_BYTES = 8 * 1024 * 1024, LIST_STEP = 16 };

bool run_one_get(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!call_id(call, 0, id, err) || !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &run_get, call->arena, &rows, err, V_TEXT(call_environment(call)), V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no run %s", id);
    struct json_writer json = json_begin(response_body(res));
    if (!run_object_show(tx, &json, NULL, &rows, 0, call->arena, err))
        return false;
    response_json(res, 200);
    return json_end(&json, err);
}

struct run_filter {
    const struct query *query;
    enum run_status status; /* of run_list_status */
    char session_id[ID_TEXT];
    struct str task_id;
};

static bool read_status(struct call *call, struct run_filter *filter, struct error *err)
{
    struct str status;
    bool found = false;
    if (!call_query(call, "status", &status, &found, err))
        return false;
    filter->query = &run_list_live;
    if (!found || str_equal(status, STR("live")))
        return true;
    filter->query = &run_list_all;
    if (str_equal(status, STR("all")))
        return true;
    filter->query = &run_list_status;
    return run_status_parse(status, &filter->status) ||
           error_set(err, ERR_INVALID, "status must be live, all or the status of a run");
}

static bool read_filter(struct call *call, struct run_filter *filter, struct page *page,
                        struct error *err)
{
    bool found = false;
    *filter = (struct run_filter){0};
    if (!read_status(call, filter, err) ||
        !call_query_id(call, "session_id", filter->session_id, err) ||
        !call_query(call, "task_id", &filter->task_id, &found, err))
        return false;
    if (!found)
        filter->task_id = (struct str){0};
    else if (!name_check(NAME_ID, "task_id", filter->task_id, err))
        return false;
    const char *text =
        arena_printf(call->arena, "%s %d %s %.*s", filter->query->name, (int)filter->status,
                     filter->session_id, (int)filter->task_id.len,
                     filter->task_id.ptr ? filter->task_id.ptr : "");
    return page_begin(call, "runs", str_of(text), false, page, err);
}

static bool read_runs(struct call *call, struct tx *tx, const struct run_filter *filter,
                      const char *before, int64_t limit, struct rows *rows, struct error *err)
{
    const struct value params[] = {
        V_TEXT(call_environment(call)),
        V_TEXT(before),
        filter->session_id[0] ? V_TEXT(filter->session_id) : V_NULL,
        V_STR_OR_NULL(filter->task_id),
        V_INT(limit),
        V_TEXT(run_status_name(filter->status)),
    };
    return store_run(tx, filter->query, params, (size_t)filter->query->n_params, call->arena, rows,
                     err);
}

/* Reads in steps, so that a page of large payloads never holds more than a step over its size.
 * *last is the id of the last run shown when there are more. */
static bool write_runs(struct call *call, struct tx *tx, const struct run_filter *filter,
                       const struct page *page, struct buf *body, struct json_writer *json,
                       struct str *last, struct error *err)
{
    char before[ID_TEXT];
    snprintf(before, sizeof before, "%s", page->at);
    int64_t shown = 0;
    struct rows rows;
    do {
        if (!read_runs(call, tx, filter, before, LIST_STEP, &rows, err))
            return false;
        for (size_t i = 0; i < rows.n_rows; i++) {
            if (shown == page->limit || body->len > LIST_BYTES) {
                *last = arena_str(call->arena, str_of(before));
                return true;
            }
            if (!run_object_show(tx, json, NULL, &rows, i, call->arena, err))
                return false;
            row_id(&rows, i, RUN_GET_ID, before);
            shown++;
        }
    } while (rows.n_rows == LIST_STEP);
    return true;
}

bool run_list(struct call *call, struct response *res, struct error *err)
{
    struct run_filter filter;
    struct page page;
    AUTO_TX tx = NULL;
    if (!read_filter(call, &filter, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err))
        return false;

    struct buf *body = response_body(res);
    struct json_writer json = json_begin(body);
    struct str last = {0};
    json_open(&json, NULL);
    json_open_list(&json, "runs");
    if (!write_runs(call, tx, &filter, &page, body, &json, &last, err))
        return false;
    json_close_list(&json);
    if (last.ptr)
        page_next(call, &page, last, &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool run_counts_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &run_counts, call->arena, &rows, err, V_TEXT(call_environment(call))))
        return false;

    int64_t counts[RUN_STATUS_COUNT] = {0};
    for (size_t i = 0; i < rows.n_rows; i++) {
        enum run_status status;
        if (run_status_parse(row_str(&rows, i, RUN_COUNTS_STATUS), &status))
            counts[status] = row_int(&rows, i, RUN_COUNTS_N);
    }
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    for (enum run_status s = 0; s < RUN_STATUS_COUNT; s++)
        json_int(&json, run_status_name(s), counts[s]);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool run_events(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    struct rows rows;
    struct history history = {.store = server_of(call)->store, .is_run = true};
    {
        AUTO_TX tx = NULL;
        if (!call_id(call, 0, id, err) || !store_begin_read(history.store, &tx, err) ||
            !STORE(tx, &run_peek, call->arena, &rows, err, V_TEXT(call_environment(call)),
                   V_TEXT(id)))
            return false;
    }
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no run %s", id);
    memcpy(history.owner_id, id, sizeof id);
    row_id(&rows, 0, RUN_PEEK_DEPLOYMENT_ID, history.deployment_id);
    row_id(&rows, 0, RUN_PEEK_SESSION_ID, history.session_id);
    snprintf(history.trace_id, sizeof history.trace_id, "%s",
             row_text(&rows, 0, RUN_PEEK_TRACE_ID));
    return history_answer(call, &history, res, err);
}
