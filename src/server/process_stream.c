/* The output of a program by byte offset: pages of what is kept, or all of it as it comes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "server/caller.h"
#include "server/history.h"
#include "server/page.h"
#include "server/process_object.h"

enum { PULL_BYTES = 256 * 1024, PULL_ROWS = 256, PAGE_BYTES = 4 * 1024 * 1024 };

struct output_stream {
    struct store *store;
    char environment_id[ID_TEXT], workspace_id[ID_TEXT], process_id[ID_TEXT];
    enum process_kind kind;
    const char *stream;
    int64_t cursor; /* the end of what was sent */
    struct caller_hold hold;
};

/* The offset up to which one answer goes: by size, since a chunk may be a byte or a megabyte. */
static bool choose_end(struct tx *tx, const char *process_id, const char *stream, int64_t cursor,
                       int64_t most_rows, int64_t most_bytes, struct arena *arena, int64_t *upto,
                       bool *more, struct error *err)
{
    struct rows sizes;
    size_t n = 0;

    if (!STORE(tx, &process_chunks_sizes, arena, &sizes, err, V_TEXT(process_id), V_TEXT(stream),
               V_INT(cursor), V_INT(most_rows + 1)))
        return false;
    *upto = cursor;
    while (n < sizes.n_rows && (int64_t)n < most_rows && *upto - cursor < most_bytes)
        *upto = row_int(&sizes, n++, PROCESS_CHUNKS_SIZES_OFFSET_END);
    *more = n < sizes.n_rows;
    return true;
}

/* *earliest: the first byte that is kept; the end when nothing is. */
static bool find_earliest(struct tx *tx, const char *process_id, const char *stream, int64_t end,
                          struct arena *arena, int64_t *earliest, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &process_chunks_first, arena, &rows, err, V_TEXT(process_id), V_TEXT(stream)))
        return false;
    *earliest = rows.n_rows ? row_int(&rows, 0, PROCESS_CHUNKS_FIRST_OFFSET_START) : end;
    return true;
}

static int64_t end_of(const struct rows *process, const char *stream)
{
    return row_int(process, 0,
                   strcmp(stream, "stderr") == 0 ? PROCESS_GET_ERR_END : PROCESS_GET_OUT_END);
}

static bool send_error(struct buf *out, int64_t cursor, int64_t earliest, struct error *err)
{
    struct json_writer json;

    if (!sse_begin(out, cursor, "workspace_stream_error", err))
        return false;
    json = json_begin(out);
    json_open(&json, NULL);
    json_string(&json, "code", error_wire_name(ERR_STREAM_CURSOR_EXPIRED));
    json_string(&json, "message", "the output went on faster than it was read");
    json_int(&json, "cursor", earliest);
    json_close(&json);
    return json_end(&json, err) && sse_end(out, err);
}

static bool send_chunks(struct output_stream *stream, const struct rows *rows, struct buf *out,
                        struct error *err)
{
    for (size_t i = 0; i < rows->n_rows; i++) {
        int64_t end = row_int(rows, i, PROCESS_CHUNKS_BETWEEN_OFFSET_END);

        if (!sse_begin(out, end, "workspace_stream_chunk", err))
            return false;
        struct json_writer json = json_begin(out);
        chunk_object_write(&json, rows, i, stream->cursor);
        if (!json_end(&json, err) || !sse_end(out, err))
            return false;
        stream->cursor = end;
    }
    return true;
}

static void write_state(struct json_writer *json, const struct rows *process, int64_t cursor)
{
    json_open(json, NULL);
    json_string(json, "state", row_text(process, 0, PROCESS_GET_STATE));
    if (!row_is_null(process, 0, PROCESS_GET_EXIT_CODE))
        json_int(json, "exit_code", row_int(process, 0, PROCESS_GET_EXIT_CODE));
    if (!row_is_null(process, 0, PROCESS_GET_SIGNAL))
        json_string(json, "signal", row_text(process, 0, PROCESS_GET_SIGNAL));
    if (!row_is_null(process, 0, PROCESS_GET_ERROR))
        json_string(json, "error", row_text(process, 0, PROCESS_GET_ERROR));
    json_int(json, "cursor", cursor);
    json_close(json);
}

static bool send_end(const struct rows *process, int64_t cursor, struct buf *out, struct error *err)
{
    bool is_lost = str_equal(row_str(process, 0, PROCESS_GET_STATE), STR("lost"));
    struct json_writer json;

    if (!sse_begin(out, cursor, is_lost ? "workspace_stream_lost" : "workspace_stream_terminal",
                   err))
        return false;
    json = json_begin(out);
    write_state(&json, process, cursor);
    return json_end(&json, err) && sse_end(out, err);
}

bool process_read(struct tx *tx, const char *process_id, const char *stream, int64_t cursor,
                  int64_t end, struct arena *arena, struct process_chunks *found, struct error *err)
{
    int64_t upto;

    *found = (struct process_chunks){0};
    if (!find_earliest(tx, process_id, stream, end, arena, &found->earliest, err))
        return false;
    if (found->earliest > cursor)
        return true;
    return choose_end(tx, process_id, stream, cursor, PULL_ROWS, PULL_BYTES, arena, &upto,
                      &found->more, err) &&
           STORE(tx, &process_chunks_between, arena, &found->rows, err, V_TEXT(process_id),
                 V_TEXT(stream), V_INT(cursor), V_INT(upto));
}

static bool send_next(struct output_stream *stream, struct tx *tx, const struct rows *process,
                      struct arena *arena, struct buf *out, bool *more, bool *over,
                      struct error *err)
{
    int64_t end = end_of(process, stream->stream);
    struct process_chunks found;

    if (stream->cursor < end) {
        if (!process_read(tx, stream->process_id, stream->stream, stream->cursor, end, arena,
                          &found, err))
            return false;
        *over = found.earliest > stream->cursor;
        if (*over)
            return send_error(out, stream->cursor, found.earliest, err);
        *more = found.more;
        if (!send_chunks(stream, &found.rows, out, err))
            return false;
    }
    *over = !*more && row_int(process, 0, PROCESS_GET_LIVE) == 0;
    return !*over || send_end(process, stream->cursor, out, err);
}

static bool pull(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct output_stream *stream = state;
    struct rows process;
    AUTO_TX tx = NULL;

    *more = false;
    *over = !caller_still_may(&stream->hold);
    if (*over)
        return true;
    if (!store_begin_read(stream->store, &tx, err) ||
        !STORE(tx, &process_get, &arena, &process, err, V_TEXT(stream->environment_id),
               V_TEXT(stream->workspace_id), V_TEXT(process_kind_name(stream->kind)),
               V_TEXT(stream->process_id)))
        return false;
    *over = process.n_rows == 0;
    return *over || send_next(stream, tx, &process, &arena, out, more, over, err);
}

static bool answer_stream(struct call *call, const struct rows *process, enum process_kind kind,
                          const char *name, int64_t cursor, struct response *res)
{
    struct output_stream *stream = alloc(sizeof *stream);

    *stream = (struct output_stream){.store = server_of(call)->store,
                                     .kind = kind,
                                     .stream = name,
                                     .cursor = cursor,
                                     .hold = caller_hold(call)};
    memcpy(stream->environment_id, call_environment(call), ID_TEXT);
    row_id(process, 0, PROCESS_GET_WORKSPACE_ID, stream->workspace_id);
    row_id(process, 0, PROCESS_GET_ID, stream->process_id);
    response_stream(res, &(struct response_source){.topic = arena_printf(call->arena, "process:%s",
                                                                         stream->process_id),
                                                   .content_type = "text/event-stream",
                                                   .is_sse = true,
                                                   .pull = pull,
                                                   .release = free,
                                                   .state = stream});
    return true;
}

static bool answer_page(struct call *call, struct tx *tx, const struct rows *process,
                        const char *stream, int64_t cursor, struct response *res, struct error *err)
{
    const char *id = row_text(process, 0, PROCESS_GET_ID);
    int64_t limit, upto;
    struct rows rows;
    bool more;

    if (!call_query_int(call, "limit", 1, PAGE_MAX, PAGE_DEFAULT, &limit, err) ||
        !choose_end(tx, id, stream, cursor, limit, PAGE_BYTES, call->arena, &upto, &more, err) ||
        !STORE(tx, &process_chunks_between, call->arena, &rows, err, V_TEXT(id), V_TEXT(stream),
               V_INT(cursor), V_INT(upto)))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_open_list(&json, "chunks");
    for (size_t i = 0; i < rows.n_rows; i++)
        chunk_object_write(&json, &rows, i, cursor);
    json_close_list(&json);
    if (more)
        json_string(&json, "next_cursor", arena_printf(call->arena, "%" PRId64, upto));
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

/* A refusal that tells what is kept; false when the cursor is fine. */
static bool is_expired(struct call *call, int64_t cursor, int64_t earliest, struct response *res)
{
    struct error refusal;

    if (cursor >= earliest)
        return false;
    (void)error_set(&refusal, ERR_STREAM_CURSOR_EXPIRED, "the output before offset %lld is gone",
                    (long long)earliest);
    response_error(res, &refusal,
                   str_of(arena_printf(call->arena, "{\"earliest_cursor\":%lld}",
                                       (long long)earliest)));
    return true;
}

bool process_check_cursor(struct call *call, struct tx *tx, const char *process_id,
                          const char *stream, int64_t cursor, int64_t end, bool *is_refused,
                          struct response *res, struct error *err)
{
    int64_t earliest;

    if (cursor > end)
        return error_set(err, ERR_INVALID_CURSOR, "the output ends at offset %lld", (long long)end);
    if (!find_earliest(tx, process_id, stream, end, call->arena, &earliest, err))
        return false;
    *is_refused = is_expired(call, cursor, earliest, res);
    return true;
}

bool process_output_get(struct call *call, enum process_kind kind, const char *stream,
                        struct response *res, struct error *err)
{
    struct rows process;
    bool is_refused = false;
    int64_t cursor;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !process_of_path(call, tx, kind, &process, err) || !history_cursor(call, &cursor, err))
        return false;
    if (!process_check_cursor(call, tx, row_text(&process, 0, PROCESS_GET_ID), stream, cursor,
                              end_of(&process, stream), &is_refused, res, err))
        return false;
    if (is_refused)
        return true;
    return call_wants_events(call) ? answer_stream(call, &process, kind, stream, cursor, res)
                                   : answer_page(call, tx, &process, stream, cursor, res, err);
}
