#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/history.h"
#include "server/json_row.h"
#include "server/page.h"
#include "store/queries.h"

enum {
    PULL_BYTES = 256 * 1024,
    PULL_ROWS_MAX = 256,
    SNAPSHOT_BYTES = 1024 * 1024,
    SNAPSHOT_ROWS = 8,
};

struct log_stream {
    struct store *store;
    char run_id[ID_TEXT];
    int64_t cursor; /* the last one sent */
    struct caller_hold hold;
};

static void write_chunk(struct json_writer *json, const struct log_stream *stream,
                        const struct rows *rows, size_t row)
{
    int64_t cursor = row_int(rows, row, LOG_CHUNKS_BETWEEN_CURSOR);
    struct str bytes = row_str(rows, row, LOG_CHUNKS_BETWEEN_BYTES);
    char id[24];
    snprintf(id, sizeof id, "%" PRId64, cursor);
    json_open(json, NULL);
    json_string(json, "id", id);
    json_string(json, "run_id", stream->run_id);
    json_row_int(json, "attempt_number", rows, row, LOG_CHUNKS_BETWEEN_ATTEMPT);
    json_row_text(json, "stream", rows, row, LOG_CHUNKS_BETWEEN_STREAM);
    json_base64(json, "content_base64", bytes);
    json_int(json, "bytes", (int64_t)bytes.len);
    json_int(json, "observed_seq", cursor);
    json_row_time(json, "at", rows, row, LOG_CHUNKS_BETWEEN_OBSERVED_MS);
    json_close(json);
}

static bool send_chunks(struct log_stream *stream, const struct rows *rows, struct buf *out,
                        struct error *err)
{
    for (size_t i = 0; i < rows->n_rows; i++) {
        if (!sse_begin(out, row_int(rows, i, LOG_CHUNKS_BETWEEN_CURSOR), "run_log", err))
            return false;
        struct json_writer json = json_begin(out);
        write_chunk(&json, stream, rows, i);
        if (!json_end(&json, err) || !sse_end(out, err))
            return false;
        stream->cursor = row_int(rows, i, LOG_CHUNKS_BETWEEN_CURSOR);
    }
    return true;
}

/* The cursor up to which a pull may send: by size, since a chunk may be a byte or a megabyte. */
static bool choose_end(struct tx *tx, const struct log_stream *stream, struct arena *arena,
                       int64_t *upto, bool *more, struct error *err)
{
    struct rows sizes;
    if (!STORE(tx, &log_sizes_after, arena, &sizes, err, V_TEXT(stream->run_id),
               V_INT(stream->cursor), V_INT(PULL_ROWS_MAX)))
        return false;
    int64_t total = 0;
    size_t n = 0;
    *upto = stream->cursor;
    for (; n < sizes.n_rows && total < PULL_BYTES; n++) {
        total += row_int(&sizes, n, LOG_SIZES_AFTER_N_BYTES);
        *upto = row_int(&sizes, n, LOG_SIZES_AFTER_CURSOR);
    }
    *more = n < sizes.n_rows || n == PULL_ROWS_MAX;
    return true;
}

static bool is_over(struct tx *tx, const struct log_stream *stream, struct arena *arena, bool *over,
                    struct error *err)
{
    struct rows rows;
    if (!STORE(tx, &run_progress, arena, &rows, err, V_TEXT(stream->run_id)))
        return false;
    *over =
        rows.n_rows == 0 || (str_equal(row_str(&rows, 0, RUN_PROGRESS_STATE), STR("finished")) &&
                             row_int(&rows, 0, RUN_PROGRESS_LOG_CURSOR) <= stream->cursor);
    return true;
}

static bool pull(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct log_stream *stream = state;
    AUTO_TX tx = NULL;
    *over = !caller_still_may(&stream->hold);
    if (*over)
        return true;
    if (!store_begin_read(stream->store, &tx, err))
        return false;

    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows = {0};
    int64_t upto;
    if (!choose_end(tx, stream, &arena, &upto, more, err))
        return false;
    if (upto > stream->cursor &&
        (!STORE(tx, &log_chunks_between, &arena, &rows, err, V_TEXT(stream->run_id),
                V_INT(stream->cursor), V_INT(upto)) ||
         !send_chunks(stream, &rows, out, err)))
        return false;
    return *more || is_over(tx, stream, &arena, over, err);
}

static bool answer_stream(struct call *call, const char *run_id, struct response *res,
                          struct error *err)
{
    int64_t cursor;
    if (!history_cursor(call, &cursor, err))
        return false;
    struct log_stream *stream = alloc(sizeof *stream);
    *stream = (struct log_stream){.store = server_of(call)->store,
                                  .cursor = cursor,
                                  .hold = caller_hold(call)};
    memcpy(stream->run_id, run_id, ID_TEXT);
    response_stream(res,
                    &(struct response_source){.topic = arena_printf(call->arena, "run:%s", run_id),
                                              .content_type = "text/event-stream",
                                              .is_sse = true,
                                              .pull = pull,
                                              .release = free,
                                              .state = stream});
    return true;
}

struct piece {
    struct str bytes;
    struct piece *next;
};

/* The last bytes of a stream, as a list of pieces in order. */
static bool read_tail(struct tx *tx, const char *run_id, const char *stream, int64_t before,
                      struct arena *arena, struct piece **first, size_t *len, struct error *err)
{
    struct rows rows;
    *first = NULL;
    *len = 0;
    do {
        if (!STORE(tx, &log_chunks_before, arena, &rows, err, V_TEXT(run_id), V_INT(before),
                   V_TEXT(stream), V_INT(SNAPSHOT_ROWS)))
            return false;
        for (size_t i = 0; i < rows.n_rows && *len < SNAPSHOT_BYTES; i++) {
            struct str bytes = row_str(&rows, i, LOG_CHUNKS_BEFORE_BYTES);
            size_t room = SNAPSHOT_BYTES - *len;
            if (bytes.len > room)
                bytes = (struct str){bytes.ptr + (bytes.len - room), room};
            struct piece *piece = arena_alloc(arena, sizeof *piece);
            *piece = (struct piece){bytes, *first};
            *first = piece;
            *len += bytes.len;
            before = row_int(&rows, i, LOG_CHUNKS_BEFORE_CURSOR);
        }
    } while (rows.n_rows == SNAPSHOT_ROWS && *len < SNAPSHOT_BYTES);
    return true;
}

static bool write_tail(struct tx *tx, const char *run_id, const char *stream, const char *name,
                       int64_t before, struct arena *arena, struct json_writer *json, size_t *len,
                       struct error *err)
{
    struct piece *piece;
    if (!read_tail(tx, run_id, stream, before, arena, &piece, len, err))
        return false;
    AUTO(buf_finish) struct buf whole = {.max = SNAPSHOT_BYTES};
    for (; piece; piece = piece->next)
        if (!buf_append(&whole, piece->bytes, err))
            return false;
    json_base64(json, name, buf_str(&whole));
    return true;
}

static bool answer_snapshot(struct call *call, struct tx *tx, const char *run_id,
                            const struct rows *run, struct response *res, struct error *err)
{
    int64_t cursor = row_int(run, 0, RUN_PEEK_LOG_CURSOR);
    int64_t stdout_bytes = row_int(run, 0, RUN_PEEK_STDOUT_BYTES);
    int64_t stderr_bytes = row_int(run, 0, RUN_PEEK_STDERR_BYTES);
    size_t shown_out = 0, shown_err = 0;
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, cursor);

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    if (!write_tail(tx, run_id, "stdout", "stdout_base64", cursor + 1, call->arena, &json,
                    &shown_out, err) ||
        !write_tail(tx, run_id, "stderr", "stderr_base64", cursor + 1, call->arena, &json,
                    &shown_err, err))
        return false;
    json_string(&json, "cursor", text);
    json_int(&json, "stdout_bytes", stdout_bytes);
    json_int(&json, "stderr_bytes", stderr_bytes);
    json_bool(&json, "truncated",
              (int64_t)shown_out < stdout_bytes || (int64_t)shown_err < stderr_bytes);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool run_logs(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    struct rows run;
    AUTO_TX tx = NULL;
    if (!call_id(call, 0, id, err) || !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &run_peek, call->arena, &run, err, V_TEXT(call_environment(call)), V_TEXT(id)))
        return false;
    if (run.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no run %s", id);
    return call_wants_events(call) ? answer_stream(call, id, res, err)
                                   : answer_snapshot(call, tx, id, &run, res, err);
}
