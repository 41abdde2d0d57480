#include "server/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/own.h"
#include "server/event.h"
#include "server/json_row.h"
#include "server/page.h"
#include "store/queries.h"

enum { PULL_BYTES = 256 * 1024, PULL_ROWS = 16, PAGE_BYTES = 8 * 1024 * 1024 };

/* The shared columns stand at the same places in both queries. */
enum {
    COLUMN_CURSOR = RUN_EVENTS_AFTER_CURSOR,
    COLUMN_KIND = RUN_EVENTS_AFTER_KIND,
};
_Static_assert((int)RUN_EVENTS_AFTER_ATTRIBUTES == (int)DEPLOYMENT_EVENTS_AFTER_ATTRIBUTES,
               "events of runs and deployments have the same columns");

static void write_trace(struct json_writer *json, const struct history *history, struct str id)
{
    char span[17], parent[64];
    size_t n = 0;
    for (size_t i = id.len; i > 0 && n < sizeof span - 1; i--)
        if (id.ptr[i - 1] != '-')
            span[n++] = id.ptr[i - 1];
    span[n] = '\0';
    snprintf(parent, sizeof parent, "00-%s-%s-01", history->trace_id, span);
    json_open(json, "trace");
    json_string(json, "trace_id", history->trace_id);
    json_string(json, "span_id", span);
    json_string(json, "traceparent", parent);
    json_close(json);
}

static void write_event(struct json_writer *json, const struct history *history,
                        const struct rows *rows, size_t row)
{
    char cursor[24];
    snprintf(cursor, sizeof cursor, "%" PRId64, row_int(rows, row, COLUMN_CURSOR));
    json_open(json, NULL);
    json_row_text(json, "id", rows, row, RUN_EVENTS_AFTER_ID);
    json_string(json, "cursor", cursor);
    if (history->is_run) {
        json_string(json, "run_id", history->owner_id);
        json_string(json, "deployment_id", history->deployment_id);
        json_string(json, "session_id", history->session_id);
        json_row_int_if(json, "attempt_number", rows, row, RUN_EVENTS_AFTER_ATTEMPT);
    } else {
        json_string(json, "deployment_id", history->owner_id);
    }
    json_row_text(json, "kind", rows, row, COLUMN_KIND);
    json_row_time(json, "at", rows, row, RUN_EVENTS_AFTER_AT_MS);
    json_row_text(json, "category", rows, row, RUN_EVENTS_AFTER_CATEGORY);
    json_row_text(json, "severity", rows, row, RUN_EVENTS_AFTER_SEVERITY);
    json_row_text(json, "source", rows, row, RUN_EVENTS_AFTER_SOURCE);
    json_row_text(json, "redaction_class", rows, row, RUN_EVENTS_AFTER_REDACTION_CLASS);
    if (history->trace_id[0])
        write_trace(json, history, row_str(rows, row, RUN_EVENTS_AFTER_ID));
    json_row_raw(json, "attributes", rows, row, RUN_EVENTS_AFTER_ATTRIBUTES);
    json_close(json);
}

static bool read_after(struct tx *tx, const struct history *history, int64_t cursor, int64_t limit,
                       struct arena *arena, struct rows *rows, struct error *err)
{
    return STORE(tx, history->is_run ? &run_events_after : &deployment_events_after, arena, rows,
                 err, V_TEXT(history->owner_id), V_INT(cursor), V_INT(limit));
}

bool sse_begin(struct buf *out, int64_t cursor, const char *event, struct error *err)
{
    char head[96];
    int len = snprintf(head, sizeof head, "id: %" PRId64 "\nevent: %s\ndata: ", cursor, event);
    return buf_append(out, (struct str){head, (size_t)len}, err);
}

bool sse_end(struct buf *out, struct error *err)
{
    return buf_append(out, STR("\n\n"), err);
}

static bool send_rows(struct history *history, const struct rows *rows, struct buf *out, bool *over,
                      struct error *err)
{
    for (size_t i = 0; i < rows->n_rows && !*over && out->len < PULL_BYTES; i++) {
        int64_t cursor = row_int(rows, i, COLUMN_CURSOR);
        if (!sse_begin(out, cursor, history->is_run ? "run_event" : "deployment_event", err))
            return false;
        struct json_writer json = json_begin(out);
        write_event(&json, history, rows, i);
        if (!json_end(&json, err) || !sse_end(out, err))
            return false;
        history->cursor = cursor;
        *over = event_is_final(row_str(rows, i, COLUMN_KIND));
    }
    return true;
}

/* Nothing more can come: a client that resumes behind the last event must not wait for ever. */
static bool is_at_the_end(struct tx *tx, const struct history *history, struct arena *arena,
                          bool *over, struct error *err)
{
    struct rows rows;
    if (!STORE(tx, history->is_run ? &run_progress : &deployment_state_get, arena, &rows, err,
               V_TEXT(history->owner_id)))
        return false;
    if (rows.n_rows == 0) {
        *over = true;
        return true;
    }
    struct str state = row_str(&rows, 0, 0);
    *over = row_int(&rows, 0, 1) <= history->cursor &&
            (str_equal(state, STR("finished")) || str_equal(state, STR("deployed")) ||
             str_equal(state, STR("failed")));
    return true;
}

static bool pull(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct history *history = state;
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    *over = !caller_still_may(&history->hold);
    if (*over)
        return true;
    if (!store_begin_read(history->store, &tx, err))
        return false;

    struct rows rows = {0};
    do {
        if (!read_after(tx, history, history->cursor, PULL_ROWS, &arena, &rows, err) ||
            !send_rows(history, &rows, out, over, err))
            return false;
    } while (!*over && rows.n_rows == PULL_ROWS && out->len < PULL_BYTES);

    *more = !*over && out->len >= PULL_BYTES;
    return *over || *more || is_at_the_end(tx, history, &arena, over, err);
}

static bool answer_stream(const struct history *history, struct response *res)
{
    struct history *state = alloc(sizeof *state);
    *state = *history;
    char topic[64];
    snprintf(topic, sizeof topic, "%s%s",
             history->is_run ? "run:" : "deployment:", history->owner_id);
    response_stream(res, &(struct response_source){.topic = topic,
                                                   .content_type = "text/event-stream",
                                                   .is_sse = true,
                                                   .pull = pull,
                                                   .release = free,
                                                   .state = state});
    return true;
}

/* Reads in steps, so that a page of large events never holds more than a step over its size. */
static bool write_page(struct call *call, struct tx *tx, struct history *history, int64_t limit,
                       struct buf *body, struct json_writer *json, bool *more, struct error *err)
{
    struct rows rows;
    int64_t shown = 0;
    *more = false;
    do {
        if (!read_after(tx, history, history->cursor, PULL_ROWS, call->arena, &rows, err))
            return false;
        for (size_t i = 0; i < rows.n_rows && !*more; i++) {
            *more = shown == limit || body->len > PAGE_BYTES;
            if (*more)
                break;
            write_event(json, history, &rows, i);
            history->cursor = row_int(&rows, i, COLUMN_CURSOR);
            shown++;
        }
    } while (rows.n_rows == PULL_ROWS && !*more);
    return true;
}

static bool answer_page(struct call *call, struct history *history, struct response *res,
                        struct error *err)
{
    int64_t limit;
    AUTO_TX tx = NULL;
    if (!call_query_int(call, "limit", 1, PAGE_MAX, PAGE_DEFAULT, &limit, err) ||
        !store_begin_read(history->store, &tx, err))
        return false;

    struct buf *body = response_body(res);
    struct json_writer json = json_begin(body);
    bool more;
    json_open(&json, NULL);
    json_open_list(&json, "events");
    if (!write_page(call, tx, history, limit, body, &json, &more, err))
        return false;
    json_close_list(&json);
    char cursor[24];
    snprintf(cursor, sizeof cursor, "%" PRId64, history->cursor);
    json_string(&json, "cursor", cursor);
    if (more)
        json_string(&json, "next_cursor", cursor);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool history_answer(struct call *call, const struct history *history, struct response *res,
                    struct error *err)
{
    struct history found = *history;
    if (!history_cursor(call, &found.cursor, err))
        return false;
    found.hold = caller_hold(call);
    return call_wants_events(call) ? answer_stream(&found, res)
                                   : answer_page(call, &found, res, err);
}
