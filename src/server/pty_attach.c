/* A terminal as a WebSocket: its output from a cursor on, as it is stored; keys, sizes and its end
 * from the client, by the same functions as the routes. Any number may be attached; closing one
 * leaves the terminal open. */
#include <stdio.h>

#include "base/own.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/page.h"
#include "server/process_object.h"

enum {
    PIECE = 32 * 1024,      /* of one message */
    TELL_EVERY = 32 * 1024, /* with it the client knows its place at least every 64 KiB */
    KEYS_PIECE = 64 * 1024,
    CELLS_MAX = 500,
    TRIES_MAX = 5,
    TEXT_MAX = 1024,
};

struct attachment {
    struct server *server;
    char environment_id[ID_TEXT], workspace_id[ID_TEXT], process_id[ID_TEXT];
    int64_t cursor, told; /* bytes that were sent, and of which the client was told the number */
    bool has_opened;
    struct caller_hold hold;
};

static bool say_json(struct websocket_out *out, struct json_writer *json, struct buf *text,
                     struct error *err)
{
    json_close(json);
    return json_end(json, err) && websocket_say(out, WEBSOCKET_TEXT, buf_str(text), err);
}

static struct json_writer begin_json(struct buf *text, const char *type)
{
    struct json_writer json = json_begin(text);

    json_open(&json, NULL);
    json_string(&json, "type", type);
    return json;
}

static bool say_open(struct attachment *line, const struct rows *process, struct websocket_out *out,
                     struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = TEXT_MAX};
    struct json_writer json = begin_json(&text, "open");

    line->has_opened = true;
    json_int(&json, "cols", row_int(process, 0, PROCESS_GET_COLS));
    json_int(&json, "rows", row_int(process, 0, PROCESS_GET_ROWS));
    json_int(&json, "cursor", line->cursor);
    return say_json(out, &json, &text, err);
}

static bool say_cursor(struct attachment *line, struct websocket_out *out, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = TEXT_MAX};
    struct json_writer json = begin_json(&text, "cursor");

    line->told = line->cursor;
    json_int(&json, "cursor", line->cursor);
    return say_json(out, &json, &text, err);
}

static bool say_error(enum error_code code, struct websocket_out *out, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = TEXT_MAX};
    struct json_writer json = begin_json(&text, "error");

    json_string(&json, "code", error_wire_name(code));
    websocket_say_end(out, WEBSOCKET_POLICY, error_wire_name(code));
    return say_json(out, &json, &text, err);
}

static bool say_closed(const struct rows *process, struct websocket_out *out, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = TEXT_MAX};
    struct json_writer json = begin_json(&text, "closed");

    if (row_is_null(process, 0, PROCESS_GET_EXIT_CODE))
        json_null(&json, "exit_code");
    else
        json_int(&json, "exit_code", row_int(process, 0, PROCESS_GET_EXIT_CODE));
    if (row_is_null(process, 0, PROCESS_GET_SIGNAL))
        json_null(&json, "signal");
    else
        json_string(&json, "signal", row_text(process, 0, PROCESS_GET_SIGNAL));
    websocket_say_end(out, WEBSOCKET_NORMAL, "the terminal is closed");
    return say_json(out, &json, &text, err);
}

static bool say_bytes(struct attachment *line, struct str bytes, struct websocket_out *out,
                      struct error *err)
{
    while (bytes.len > 0) {
        struct str piece = {bytes.ptr, bytes.len < PIECE ? bytes.len : PIECE};

        if (!websocket_say(out, WEBSOCKET_BINARY, piece, err))
            return false;
        line->cursor += (int64_t)piece.len;
        if (line->cursor - line->told >= TELL_EVERY && !say_cursor(line, out, err))
            return false;
        bytes = (struct str){bytes.ptr + piece.len, bytes.len - piece.len};
    }
    return true;
}

/* A chunk may begin before the cursor: it was stored whole. */
static bool say_chunks(struct attachment *line, const struct rows *rows, struct websocket_out *out,
                       struct error *err)
{
    for (size_t i = 0; i < rows->n_rows; i++) {
        struct str bytes = row_str(rows, i, PROCESS_CHUNKS_BETWEEN_BYTES);
        size_t skip =
            (size_t)(line->cursor - row_int(rows, i, PROCESS_CHUNKS_BETWEEN_OFFSET_START));

        if (!say_bytes(line, (struct str){bytes.ptr + skip, bytes.len - skip}, out, err))
            return false;
    }
    return true;
}

static bool say_end(const struct rows *process, struct websocket_out *out, struct error *err)
{
    struct str state = row_str(process, 0, PROCESS_GET_STATE);

    if (str_equal(state, STR("lost")))
        return say_error(ERR_WORKSPACE_MOUNT_LOST, out, err);
    if (str_equal(state, STR("failed")))
        return say_error(ERR_WORKSPACE_MOUNT_FAILED, out, err);
    return say_closed(process, out, err);
}

static bool say_next(struct attachment *line, struct tx *tx, const struct rows *process,
                     struct arena *arena, struct websocket_out *out, bool *more, struct error *err)
{
    int64_t end = row_int(process, 0, PROCESS_GET_OUT_END);
    struct process_chunks found = {0};

    if (!line->has_opened && !say_open(line, process, out, err))
        return false;
    if (line->cursor < end) {
        if (!process_read(tx, line->process_id, "output", line->cursor, end, arena, &found, err))
            return false;
        if (found.earliest > line->cursor)
            return say_error(ERR_STREAM_CURSOR_EXPIRED, out, err);
        if (!say_chunks(line, &found.rows, out, err))
            return false;
    }
    *more = found.more;
    return *more || row_int(process, 0, PROCESS_GET_LIVE) != 0 || say_end(process, out, err);
}

static bool pull(void *state, struct websocket_out *out, bool *more, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct attachment *line = state;
    struct rows process;
    AUTO_TX tx = NULL;

    if (!caller_still_may(&line->hold))
        return say_error(ERR_UNAUTHENTICATED, out, err);
    if (!store_begin_read(line->server->store, &tx, err) ||
        !STORE(tx, &process_get, &arena, &process, err, V_TEXT(line->environment_id),
               V_TEXT(line->workspace_id), V_TEXT("pty"), V_TEXT(line->process_id)))
        return false;
    if (process.n_rows == 0)
        return say_error(ERR_PTY_NOT_FOUND, out, err);
    return say_next(line, tx, &process, &arena, out, more, err);
}

/* All of a message or nothing: what finds no room is offered again when the program has read. */
static bool type(struct tx *tx, struct process_row *process, struct str keys, bool *has_room,
                 struct wakes *wakes, struct error *err)
{
    *has_room = true;
    while (keys.len > 0 && *has_room) {
        struct str piece = {keys.ptr, keys.len < KEYS_PIECE ? keys.len : KEYS_PIECE};
        char id[ID_TEXT];

        id_make(id);
        if (!process_input(tx, process, process->input_end, piece, id, has_room, wakes, err))
            return false;
        keys = (struct str){keys.ptr + piece.len, keys.len - piece.len};
    }
    return true;
}

struct order {
    struct str type;
    int64_t cols, rows;
};

static const struct json_field order_fields[] = {
    {"type", JSON_TEXT, offsetof(struct order, type), REQUIRED, .max = 16},
    {"cols", JSON_INTEGER, offsetof(struct order, cols), OPTIONAL, .min = 1, .max = CELLS_MAX},
    {"rows", JSON_INTEGER, offsetof(struct order, rows), OPTIONAL, .min = 1, .max = CELLS_MAX},
    {0},
};

static bool obey(struct tx *tx, struct process_row *process, const struct order *order,
                 struct wakes *wakes, struct error *err)
{
    if (str_equal(order->type, STR("close")))
        return process_hang_up(tx, process, wakes, err);
    if (str_equal(order->type, STR("resize")) && order->cols > 0 && order->rows > 0)
        return process_resize(tx, process, order->cols, order->rows, wakes, err);
    return error_set(err, ERR_INVALID, "a message is a resize with cols and rows, or a close");
}

/* One message in a transaction of its own. A terminal that is over takes nothing, and its end is
 * on the way. */
static bool change(struct attachment *line, enum websocket_kind kind, struct str bytes, bool *held,
                   struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct process_row process;
    struct wakes wakes = {0};
    struct order order = {0};
    bool has_room = true;
    AUTO_TX tx = NULL;

    if (kind == WEBSOCKET_TEXT &&
        !json_read(bytes, order_fields, &order, sizeof order, &arena, err))
        return false;
    if (!store_begin(line->server->store, &tx, err) ||
        !process_load(tx, line->process_id, &arena, &process, err))
        return false;
    if (!process.is_live)
        return true;
    if (kind == WEBSOCKET_TEXT ? !obey(tx, &process, &order, &wakes, err)
                               : !type(tx, &process, bytes, &has_room, &wakes, err))
        return false;
    *held = !has_room;
    return *held || hub_commit(&line->server->hub, &tx, &wakes, err);
}

static bool take(void *state, enum websocket_kind kind, struct str bytes, bool *held,
                 struct websocket_out *out, struct error *err)
{
    struct attachment *line = state;

    if (!caller_still_may(&line->hold))
        return say_error(ERR_UNAUTHENTICATED, out, err);
    for (int tries = 1; !change(line, kind, bytes, held, err); tries++) {
        if (store_is_retryable(err) && tries < TRIES_MAX)
            continue;
        /* What the client got wrong is told to it; anything else is our own. */
        return error_http_status(err->code) < 500 && say_error(err->code, out, err);
    }
    return true;
}

static void answer(struct call *call, const struct rows *process, int64_t cursor,
                   struct response *res)
{
    struct attachment *line = alloc(sizeof *line);

    *line = (struct attachment){
        .server = server_of(call),
        .cursor = cursor,
        .told = cursor,
        .hold = caller_hold(call),
    };
    memcpy(line->environment_id, call_environment(call), ID_TEXT);
    row_id(process, 0, PROCESS_GET_WORKSPACE_ID, line->workspace_id);
    row_id(process, 0, PROCESS_GET_ID, line->process_id);
    response_websocket(res, call,
                       &(struct response_websocket){
                           .topic = arena_printf(call->arena, "process:%s", line->process_id),
                           .protocol = "helmr.pty.v1",
                           .take = take,
                           .pull = pull,
                           .release = free,
                           .state = line,
                       });
}

bool pty_attach_get(struct call *call, struct response *res, struct error *err)
{
    struct rows process;
    bool is_refused;
    int64_t cursor;
    AUTO_TX tx = NULL;

    if (!websocket_asked(call, res, "helmr.pty.v1", err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !process_of_path(call, tx, PROCESS_PTY, &process, err) ||
        !history_cursor(call, &cursor, err) ||
        !process_check_cursor(call, tx, row_text(&process, 0, PROCESS_GET_ID), "output", cursor,
                              row_int(&process, 0, PROCESS_GET_OUT_END), &is_refused, res, err))
        return false;
    if (!is_refused)
        answer(call, &process, cursor, res);
    return true;
}
