#include "server/process_store.h"

#include "base/encode.h"
#include "base/time.h"
#include "server/outbox.h"
#include "store/queries.h"

enum { BODY_MAX = 512 * 1024, ENV_ROOM = 512 * 1024 };

const char *process_kind_name(enum process_kind kind)
{
    return kind == PROCESS_EXEC ? "exec" : "pty";
}

bool process_load(struct tx *tx, const char *id, struct arena *arena, struct process_row *process,
                  struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &process_lock, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_EXEC_NOT_FOUND, "there is no program %s", id);
    struct str state = row_str(&rows, 0, PROCESS_LOCK_STATE);
    *process = (struct process_row){
        .kind = str_equal(row_str(&rows, 0, PROCESS_LOCK_KIND), STR("exec")) ? PROCESS_EXEC
                                                                             : PROCESS_PTY,
        .state = state,
        .is_live = row_int(&rows, 0, PROCESS_LOCK_LIVE) == 1,
        .has_begun = !str_equal(state, STR("queued")) && !str_equal(state, STR("starting")),
        .is_input_closed = !row_is_null(&rows, 0, PROCESS_LOCK_INPUT_CLOSED_MS),
        .timeout_ms = row_int(&rows, 0, PROCESS_LOCK_TIMEOUT_MS),
        .out_end = row_int(&rows, 0, PROCESS_LOCK_OUT_END),
        .err_end = row_int(&rows, 0, PROCESS_LOCK_ERR_END),
        .input_end = row_int(&rows, 0, PROCESS_LOCK_INPUT_END),
        .input_taken = row_int(&rows, 0, PROCESS_LOCK_INPUT_TAKEN),
        .due_ms = row_int(&rows, 0, PROCESS_LOCK_DUE_MS),
        .due_signal = row_str(&rows, 0, PROCESS_LOCK_DUE_SIGNAL),
    };
    row_id(&rows, 0, PROCESS_LOCK_ID, process->id);
    row_id(&rows, 0, PROCESS_LOCK_ENVIRONMENT_ID, process->environment_id);
    row_id(&rows, 0, PROCESS_LOCK_WORKSPACE_ID, process->workspace_id);
    row_id(&rows, 0, PROCESS_LOCK_MOUNT_ID, process->mount_id);
    return true;
}

/* The state after the event, by the machine of its kind; NULL when the move is not legal. */
static const char *state_after(const struct process_row *process, enum exec_event on, bool *is_live)
{
    enum exec_state exec;
    enum pty_state pty;

    if (process->kind == PROCESS_EXEC) {
        if (!exec_state_parse(process->state, &exec) || !exec_state_apply(&exec, on))
            return NULL;
        *is_live = !exec_state_is_final(exec);
        return exec_state_name(exec);
    }
    if (!pty_state_parse(process->state, &pty) || !pty_state_apply(&pty, (enum pty_event)on))
        return NULL;
    *is_live = !pty_state_is_final(pty);
    return pty_state_name(pty);
}

static bool write_move(struct tx *tx, const struct process_row *process,
                       const struct process_change *change, const char *after, bool is_live,
                       struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    int64_t now = time_now_ms();
    bool is_timed = change->on == EXEC_START && process->timeout_ms > 0;
    struct rows rows;

    if (!STORE(tx, &process_move, &arena, &rows, err, V_TEXT(process->id), V_STR(process->state),
               V_TEXT(after), V_INT(is_live), change->pid ? V_INT(change->pid) : V_NULL,
               change->has_exit_code ? V_INT(change->exit_code) : V_NULL,
               V_STR_OR_NULL(change->signal), V_STR_OR_NULL(change->error),
               is_timed ? V_INT(now + process->timeout_ms) : V_NULL,
               is_timed ? V_TEXT("TERM") : V_NULL, V_INT(now)))
        return false;
    return rows.n_changed == 1 || store_lost_race(err, "the program moved meanwhile");
}

bool process_apply(struct tx *tx, struct process_row *process, const struct process_change *change,
                   bool *moved, struct wakes *wakes, struct error *err)
{
    bool is_live = false;
    const char *after = state_after(process, change->on, &is_live);

    *moved = after;
    if (!after)
        return true;
    /* What it was sent before it began is with it now; what it was not sent, it will never need. */
    if (!write_move(tx, process, change, after, is_live, err) ||
        (!process->has_begun &&
         !STORE(tx, &process_input_forget, NULL, NULL, err, V_TEXT(process->id))))
        return false;
    process->state = str_of(after);
    process->is_live = is_live;
    process->has_begun = true;
    wakes_add(wakes, "process:", process->id);
    return true;
}

bool process_send(struct tx *tx, const struct process_row *process, const char *type,
                  const struct wire_message *message, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct json_writer json = json_begin(&body);
    struct wire_message sent = *message;
    struct str data = message->data;
    struct rows rows;

    if (!STORE(tx, &mount_holder, &arena, &rows, err, V_TEXT(process->mount_id)))
        return false;
    if (rows.n_rows == 0 || row_is_null(&rows, 0, MOUNT_HOLDER_LEASE_ID))
        return true;
    sent.process_id = str_of(process->id);
    sent.data = (struct str){0};
    wire_write(&json, NULL, wire_message_body_fields, &sent);
    /* Input may be large: it stands behind the object, where nobody has to parse it. */
    return json_end(&json, err) &&
           (!data.ptr || (buf_append(&body, STR("\n"), err) && buf_append(&body, data, err))) &&
           outbox_send(tx, row_text(&rows, 0, MOUNT_HOLDER_WORKER_ID),
                       row_text(&rows, 0, MOUNT_HOLDER_LEASE_ID), type, buf_str(&body), wakes, err);
}

static bool send_input(struct tx *tx, const struct process_row *process, int64_t offset,
                       struct str bytes, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    size_t len = base64_encoded_len(bytes.len);
    char *text = arena_alloc(&arena, len + 1);
    const struct wire_message message = {
        .offset = offset, .data = {text, len}
    };

    base64_encode(bytes, text);
    return process_send(tx, process, "process_input", &message, wakes, err);
}

bool process_send_all(struct tx *tx, const struct process_row *process, struct wakes *wakes,
                      struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    static const struct wire_message nothing = {0};
    struct rows rows;

    if (!process_send(tx, process, "process_start", &nothing, wakes, err) ||
        !STORE(tx, &process_chunks_between, &arena, &rows, err, V_TEXT(process->id),
               V_TEXT("input"), V_INT(-1), V_INT(INT64_MAX)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++)
        if (!send_input(tx, process, row_int(&rows, i, PROCESS_CHUNKS_BETWEEN_OFFSET_START),
                        row_str(&rows, i, PROCESS_CHUNKS_BETWEEN_BYTES), wakes, err))
            return false;
    return !process->is_input_closed ||
           process_send(tx, process, "process_input_close", &nothing, wakes, err);
}

struct start_parts {
    struct json_list command;
    struct json_map env;
};

static const struct json_field command_fields[] = {
    {"command", JSON_LIST, offsetof(struct start_parts, command), REQUIRED, .max = WIRE_ARGS_MAX},
    {0},
};
static const struct json_field env_fields[] = {
    {"env", JSON_MAP, offsetof(struct start_parts, env), REQUIRED, .max = WIRE_ENV_MAX},
    {0},
};

static bool read_command(struct str text, struct arena *arena, struct json_list *command,
                         struct error *err)
{
    const char *wrapped = arena_printf(arena, "{\"command\":%.*s}", (int)text.len, text.ptr);
    struct start_parts parts;

    if (!json_read(str_of(wrapped), command_fields, &parts, sizeof parts, arena, err))
        return false;
    *command = parts.command;
    return true;
}

static bool open_env(struct server *server, struct str id, struct str sealed, struct arena *arena,
                     struct json_map *env, struct error *err)
{
    AUTO(buf_finish) struct buf plain = {.max = ENV_ROOM};
    struct start_parts parts;

    if (!sealed.ptr)
        return true;
    if (!keys_open(&server->keys, KEY_SECRET, id, sealed, &plain, err) ||
        !json_read(buf_str(&plain), env_fields, &parts, sizeof parts, arena, err))
        return false;
    *env = parts.env;
    return true;
}

bool process_fill_start(struct server *server, struct tx *tx, struct wire_message *message,
                        struct arena *arena, bool *is_wanted, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &process_to_start, arena, &rows, err, V_STR(message->process_id)))
        return false;
    *is_wanted = rows.n_rows == 1;
    if (!*is_wanted)
        return true;
    message->process_kind = row_str(&rows, 0, PROCESS_TO_START_KIND);
    message->cwd = row_str(&rows, 0, PROCESS_TO_START_CWD);
    message->cols = row_int(&rows, 0, PROCESS_TO_START_COLS);
    message->rows = row_int(&rows, 0, PROCESS_TO_START_ROWS);
    message->timeout_ms = row_int(&rows, 0, PROCESS_TO_START_TIMEOUT_MS);
    return read_command(row_str(&rows, 0, PROCESS_TO_START_COMMAND), arena, &message->command,
                        err) &&
           open_env(server, message->process_id, row_str(&rows, 0, PROCESS_TO_START_ENV_SEALED),
                    arena, &message->env, err);
}

static bool may_take_input(const struct process_row *process, int64_t offset, struct error *err)
{
    bool is_exec = process->kind == PROCESS_EXEC;

    if (!process->is_live)
        return error_set(err, is_exec ? ERR_EXEC_TERMINAL : ERR_PTY_NOT_OPEN, "the %s is %.*s",
                         is_exec ? "command" : "terminal", (int)process->state.len,
                         process->state.ptr);
    if (process->is_input_closed)
        return error_set(err, ERR_EXEC_STDIN_CLOSED, "the input of the command is closed");
    if (offset != process->input_end)
        return error_set(err, ERR_STREAM_OFFSET, "the input ends at offset %lld",
                         (long long)process->input_end);
    return true;
}

bool process_input(struct tx *tx, struct process_row *process, int64_t offset, struct str bytes,
                   const char chunk_id[ID_TEXT], bool *has_room, struct wakes *wakes,
                   struct error *err)
{
    int64_t now = time_now_ms(), end = offset + (int64_t)bytes.len;

    if (!may_take_input(process, offset, err))
        return false;
    *has_room = process->input_end - process->input_taken < PROCESS_WINDOW;
    if (!*has_room || bytes.len == 0)
        return true;
    /* Until it began the row is what a worker gets its input from. */
    if (!process->has_begun &&
        !STORE(tx, &process_chunk_insert, NULL, NULL, err, V_TEXT(process->id), V_TEXT("input"),
               V_INT(offset), V_INT(end), V_TEXT(chunk_id), V_BYTES(bytes), V_INT(now), V_INT(now)))
        return false;
    process->input_end = end;
    return STORE(tx, &process_set_input, NULL, NULL, err, V_TEXT(process->id), V_INT(end),
                 V_INT(now)) &&
           send_input(tx, process, offset, bytes, wakes, err);
}

/* Before it began there is nothing to signal: it ends here, and the worker drops what it has. */
static bool drop(struct tx *tx, struct process_row *process, struct wakes *wakes, struct error *err)
{
    static const struct wire_message nothing = {0};
    const struct process_change change = {.on = EXEC_FAIL, .error = STR("ended before it began")};
    bool moved;

    return process_apply(tx, process, &change, &moved, wakes, err) &&
           process_send(tx, process, "process_close", &nothing, wakes, err);
}

bool process_send_signal(struct tx *tx, struct process_row *process, const char *signal,
                         struct wakes *wakes, struct error *err)
{
    const struct wire_message message = {.signal = str_of(signal)};

    if (!process->has_begun)
        return drop(tx, process, wakes, err);
    return process_send(tx, process, "process_signal", &message, wakes, err);
}

bool process_resize(struct tx *tx, const struct process_row *process, int64_t cols, int64_t rows,
                    struct wakes *wakes, struct error *err)
{
    const struct wire_message message = {.cols = cols, .rows = rows};

    return STORE(tx, &process_set_size, NULL, NULL, err, V_TEXT(process->id), V_INT(cols),
                 V_INT(rows), V_INT(time_now_ms())) &&
           process_send(tx, process, "process_resize", &message, wakes, err);
}

bool process_hang_up(struct tx *tx, struct process_row *process, struct wakes *wakes,
                     struct error *err)
{
    static const struct wire_message nothing = {0};

    if (!process->has_begun)
        return drop(tx, process, wakes, err);
    return process_send(tx, process, "process_close", &nothing, wakes, err);
}
