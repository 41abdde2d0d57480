#include "server/stream_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "base/time.h"
#include "model/name.h"
#include "server/history.h"
#include "server/page.h"
#include "store/queries.h"

/* PULL_ROWS: few, for each may be large; small ones are read in several steps. */
enum {
    PULL_BYTES = 256 * 1024,
    PULL_ROWS = 32,
    PAGE_BYTES = 8 * 1024 * 1024,
    RECORDS_DEFAULT = 100,
    RECORDS_MAX = 500,
};

static struct str correlation_of(const struct stream_feed *feed)
{
    return feed->correlation_id[0] ? str_of(feed->correlation_id) : (struct str){0};
}

static bool read_request(struct call *call, struct stream_feed *feed, struct error *err)
{
    struct str given;
    bool found;

    if (!history_cursor(call, &feed->cursor, err) ||
        !call_query(call, "correlation_id", &given, &found, err))
        return false;
    if (!found)
        return true;
    if (!name_check(NAME_EXTERNAL, "correlation_id", given, err))
        return false;
    if (feed->correlation_id[0] && !str_equal(given, str_of(feed->correlation_id)))
        return error_set(err, ERR_TOKEN_SCOPE, "the token is for another correlation_id");
    snprintf(feed->correlation_id, sizeof feed->correlation_id, "%.*s", (int)given.len, given.ptr);
    return true;
}

static bool read_after(struct tx *tx, const struct stream_feed *feed, int64_t limit,
                       struct arena *arena, struct rows *rows, struct error *err)
{
    return stream_records(tx, feed->ref.id, correlation_of(feed), feed->cursor, limit, arena, rows,
                          err);
}

static bool send_rows(struct stream_feed *feed, const struct rows *rows, struct buf *out,
                      struct error *err)
{
    for (size_t i = 0; i < rows->n_rows; i++) {
        const struct stream_record record = stream_record_at(rows, i);

        if (!sse_begin(out, record.sequence, "stream_record", err))
            return false;
        struct json_writer json = json_begin(out);
        stream_record_write(&json, NULL, &record);
        if (!json_end(&json, err) || !sse_end(out, err))
            return false;
        feed->cursor = record.sequence;
    }
    return true;
}

static bool may_go_on(struct stream_feed *feed, struct tx *tx, struct arena *arena, bool *may,
                      struct error *err)
{
    struct rows rows;

    *may = true;
    if (!feed->public_id[0])
        return true;
    if (!STORE(tx, &public_access_token_is_live, arena, &rows, err, V_TEXT(feed->public_id),
               V_INT(time_now_ms())))
        return false;
    *may = rows.n_rows == 1;
    return true;
}

/* Status and records are of one snapshot: what was appended before the end has been sent. */
static bool is_at_the_end(struct tx *tx, const struct stream_feed *feed, struct arena *arena,
                          bool *over, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &stream_session_status, arena, &rows, err, V_TEXT(feed->ref.session_id)))
        return false;
    *over = rows.n_rows == 0 ||
            !str_equal(row_str(&rows, 0, STREAM_SESSION_STATUS_STATUS), STR("open"));
    return true;
}

static bool pull(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct stream_feed *feed = state;
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows = {0};
    bool may = true;
    AUTO_TX tx = NULL;

    *over = !feed->public_id[0] && !caller_still_may(&feed->hold);
    if (*over)
        return true;
    if (!store_begin_read(feed->server->store, &tx, err) || !may_go_on(feed, tx, &arena, &may, err))
        return false;
    *over = !may;
    if (*over)
        return true;
    do {
        if (!read_after(tx, feed, PULL_ROWS, &arena, &rows, err) ||
            !send_rows(feed, &rows, out, err))
            return false;
    } while (rows.n_rows == PULL_ROWS && out->len < PULL_BYTES);
    *more = rows.n_rows == PULL_ROWS;
    return *more || is_at_the_end(tx, feed, &arena, over, err);
}

static void answer_stream(const struct stream_feed *feed, struct response *res)
{
    struct stream_feed *state = alloc(sizeof *state);
    char topic[TOPIC_TEXT];

    *state = *feed;
    state->ref.name = (struct str){0}; /* was the request's */
    snprintf(topic, sizeof topic, "session:%s", feed->ref.session_id);
    response_stream(res, &(struct response_source){.topic = topic,
                                                   .content_type = "text/event-stream",
                                                   .is_sse = true,
                                                   .pull = pull,
                                                   .release = free,
                                                   .state = state});
}

/* Reads in steps, so that a page of large records never holds more than a step over its size. */
static bool write_page(struct call *call, struct tx *tx, struct stream_feed *feed, int64_t limit,
                       const struct buf *body, struct json_writer *json, bool *more,
                       struct error *err)
{
    struct rows rows;
    int64_t shown = 0;

    *more = false;
    do {
        if (!read_after(tx, feed, PULL_ROWS, call->arena, &rows, err))
            return false;
        for (size_t i = 0; i < rows.n_rows; i++) {
            const struct stream_record record = stream_record_at(&rows, i);

            *more = shown == limit || body->len > PAGE_BYTES;
            if (*more)
                return true;
            stream_record_write(json, NULL, &record);
            feed->cursor = record.sequence;
            shown++;
        }
    } while (rows.n_rows == PULL_ROWS);
    return true;
}

static bool answer_page(struct call *call, struct tx *tx, struct stream_feed *feed,
                        struct response *res, struct error *err)
{
    struct buf *body = response_body(res);
    struct json_writer json = json_begin(body);
    char cursor[24];
    int64_t limit;
    bool more;

    if (!call_query_int(call, "limit", 1, RECORDS_MAX, RECORDS_DEFAULT, &limit, err))
        return false;
    json_open(&json, NULL);
    json_open_list(&json, "records");
    if (!write_page(call, tx, feed, limit, body, &json, &more, err))
        return false;
    json_close_list(&json);
    snprintf(cursor, sizeof cursor, "%" PRId64, feed->cursor);
    if (more)
        json_string(&json, "next_cursor", cursor);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool stream_feed_answer(struct call *call, struct stream_feed *feed, struct response *res,
                        struct error *err)
{
    AUTO_TX tx = NULL;

    if (!read_request(call, feed, err) || !store_begin_read(feed->server->store, &tx, err) ||
        !stream_check(tx, &feed->ref, call->arena, err))
        return false;
    if (!call_wants_events(call))
        return answer_page(call, tx, feed, res, err);
    answer_stream(feed, res);
    return true;
}

bool stream_feed_read(struct call *call, struct stream_feed *feed, struct response *res,
                      struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!read_request(call, feed, err) || !store_begin_read(feed->server->store, &tx, err) ||
        !stream_check(tx, &feed->ref, call->arena, err) ||
        !read_after(tx, feed, 1, call->arena, &rows, err))
        return false;
    json_open(&json, NULL);
    if (rows.n_rows > 0) {
        const struct stream_record record = stream_record_at(&rows, 0);
        stream_record_write(&json, "record", &record);
    } else {
        json_null(&json, "record");
    }
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}
