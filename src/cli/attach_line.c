#include "cli/attach_state.h"

#include <poll.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"

enum {
    OPEN_MS = 10000,
    SILENCE_MS = 45000,
    PAUSE_FIRST_MS = 100,
    PAUSE_MAX_MS = 5000,
    GOODBYE_MS = 1000,
    REFUSAL_MAX = 64 * 1024,
    PIECE = 16 * 1024,
};

static void fail(struct attached *attached, const struct error *err)
{
    attached->is_over = attached->has_failed = true;
    attached->err = *err;
}

static void print(struct attached *attached, struct str bytes)
{
    struct error err;

    if (!fd_write_all(STDOUT_FILENO, bytes, &err))
        fail(attached, &err);
    screen_modes_read(&attached->modes, bytes);
}

static void show(struct attached *attached, struct str bytes)
{
    int64_t left = attached->attach->old_end - attached->output_cursor;
    size_t old = left <= 0 ? 0 : (size_t)left < bytes.len ? (size_t)left : bytes.len;

    if (old > 0) {
        AUTO_FREE char *fit = alloc(old + REPLAY_SEQUENCE_MAX);

        print(attached,
              (struct str){fit, replay_pass(&attached->replay, (struct str){bytes.ptr, old}, fit)});
    }
    print(attached, (struct str){bytes.ptr + old, bytes.len - old});
    attached->output_cursor += (int64_t)bytes.len;
}

/* {"type":"closed","exit_code","signal"}: a program that a signal ended has its number here. */
static void take_closed(struct attached *attached, struct str text, struct arena *arena)
{
    struct str code = {0}, signal = {0};

    attached->is_over = true;
    if (json_find_raw(text, "exit_code", arena, &code) && !str_equal(code, STR("null")))
        attached->exit_code = (int)strtol(arena_text(arena, code), NULL, 10) & 0xff;
    else if (json_find_text(text, "signal", arena, &signal))
        attached->exit_code = 128 + (str_equal(signal, STR("KILL")) ? SIGKILL : SIGHUP);
}

static void take_error(struct attached *attached, struct str text, struct arena *arena)
{
    struct str code = STR("unknown");
    struct error err;

    json_find_text(text, "code", arena, &code);
    error_set(&err, ERR_CONFLICT, "the terminal is gone (%.*s)", (int)code.len, code.ptr);
    fail(attached, &err);
}

static void take_text(struct attached *attached, struct str text)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str type = {0};

    if (!json_find_text(text, "type", &arena, &type))
        return;
    if (str_equal(type, STR("closed")))
        take_closed(attached, text, &arena);
    else if (str_equal(type, STR("error")))
        take_error(attached, text, &arena);
}

static void on_message(void *arg, enum websocket_kind kind, struct str bytes)
{
    struct attached *attached = arg;

    if (attached->is_over)
        return;
    if (kind == WEBSOCKET_BINARY)
        show(attached, bytes);
    else
        take_text(attached, bytes);
}

void attach_line_drop(struct attached *attached)
{
    websocket_client_destroy(TAKE(attached->line));
    attached->lost_ms = time_boot_ms();
    attached->pause_ms = PAUSE_FIRST_MS;
    attached->try_ms = attached->lost_ms;
}

static void send_keys(struct attached *attached, struct str keys)
{
    struct error err;

    while (attached->line && keys.len > 0) {
        struct str piece = {keys.ptr, keys.len < PIECE ? keys.len : PIECE};

        if (!websocket_client_send(attached->line, WEBSOCKET_BINARY, piece, &err))
            attach_line_drop(attached);
        keys = (struct str){keys.ptr + piece.len, keys.len - piece.len};
    }
}

void attach_line_type(struct attached *attached, struct str keys)
{
    struct buf *kept = &attached->kept;
    struct error err;

    attached->typed += (int64_t)keys.len;
    kept->max = ATTACH_KEPT_MAX;
    if (kept->len + keys.len > kept->max)
        buf_consume(kept, kept->len + keys.len - kept->max);
    if (!buf_append(kept, keys, &err))
        abort();
    send_keys(attached, keys);
}

static void send_size(struct attached *attached, int cols, int rows)
{
    char text[96];
    struct error err;
    int len =
        snprintf(text, sizeof text, "{\"type\":\"resize\",\"cols\":%d,\"rows\":%d}", cols, rows);

    if (attached->line && !websocket_client_send(attached->line, WEBSOCKET_TEXT,
                                                 (struct str){text, (size_t)len}, &err))
        attach_line_drop(attached);
}

void attach_line_resize(struct attached *attached)
{
    int cols, rows;

    terminal_size(&cols, &rows);
    send_size(attached, cols, rows);
}

/* Only a size that changes makes a program draw again. */
static void repaint(struct attached *attached)
{
    int cols, rows;

    terminal_size(&cols, &rows);
    if (rows > 1)
        send_size(attached, cols, rows - 1);
    send_size(attached, cols, rows);
}

static const char *path_of(struct attached *attached)
{
    struct api *api = attached->attach->api;

    return api_path(api, "/workspaces/%s/pty/%s", api_part(api, attached->attach->workspace),
                    api_part(api, attached->attach->pty));
}

/* What was typed and not taken; the server counts what it took. Others may type, too: then less
 * is missing than it seems, and nothing is sent twice. */
static bool send_missing(struct attached *attached, struct error *err)
{
    struct api *api = attached->attach->api;
    struct str pty = {0}, cursor = {0};

    if (attached->typed == 0)
        return true;
    if (!api_send(api, "GET", path_of(attached), (struct str){0}, &pty, err))
        return false;
    if (!json_find_raw(pty, "input_cursor", &api->arena, &cursor))
        return error_set(err, ERR_INTERNAL, "the server described a terminal without its input");

    int64_t taken = strtoll(arena_text(&api->arena, cursor), NULL, 10);
    int64_t missing = attached->typed - (taken - attached->attach->input_cursor);
    size_t len = attached->kept.len;

    if (missing > 0 && (size_t)missing <= len)
        send_keys(attached,
                  (struct str){attached->kept.bytes + len - (size_t)missing, (size_t)missing});
    return true;
}

/* The newest output is all that is left of it; the screen is drawn anew from there. */
static bool go_on_from_earliest(struct attached *attached, struct str body)
{
    struct arena *arena = &attached->attach->api->arena;
    struct str earliest = {0};

    if (!json_find_raw(body, "details.earliest_cursor", arena, &earliest))
        return false;
    attached->output_cursor = strtoll(arena_text(arena, earliest), NULL, 10);
    attached->attach->is_repainted = true;
    return true;
}

static bool is_passing(int status)
{
    return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

static bool try_again_later(struct attached *attached)
{
    attached->try_ms = time_boot_ms() + attached->pause_ms;
    attached->pause_ms *= 2;
    if (attached->pause_ms > PAUSE_MAX_MS)
        attached->pause_ms = PAUSE_MAX_MS;
    return true;
}

static bool refused(struct attached *attached, const struct http_answer *answer, struct error *err)
{
    bool is_first = attached->lost_ms == 0;

    if (answer->status == 410 && go_on_from_earliest(attached, buf_str(&answer->body)))
        return try_again_later(attached);
    if (is_passing(answer->status) && !is_first)
        return try_again_later(attached);
    if (answer->status == 0)
        return api_explain(attached->attach->api, err);
    return api_refused(attached->attach->api, answer->status, buf_str(&answer->body), err);
}

static void greet(struct attached *attached)
{
    struct error err;
    bool is_first = attached->lost_ms == 0;

    if (attached->attach->is_repainted || attached->was_told)
        repaint(attached);
    else
        attach_line_resize(attached);
    attached->attach->is_repainted = attached->was_told = false;
    if (!is_first && !send_missing(attached, &err))
        attach_line_drop(attached);
}

static void answer_finish(struct http_answer *answer)
{
    buf_finish(&answer->body);
}

bool attach_line_open(struct attached *attached, struct error *err)
{
    static const struct websocket_events events = {.message = on_message};
    static const char *const headers[] = {API_VERSION_HEADER, CLI_VERSION_HEADER, NULL};
    AUTO(answer_finish) struct http_answer answer = {.body.max = REFUSAL_MAX};
    struct api *api = attached->attach->api;
    struct websocket_dial dial = {
        .path = arena_printf(&api->arena, "%s/attach?cursor=%lld", path_of(attached),
                             (long long)attached->output_cursor),
        .protocol = "helmr.pty.v1",
        .headers = headers,
        .timeout_ms = OPEN_MS,
    };
    bool ok =
        websocket_client_open(api->client, &dial, &events, attached, &attached->line, &answer, err);

    if (!ok)
        return refused(attached, &answer, err);
    greet(attached);
    return true;
}

void attach_line_turn(struct attached *attached)
{
    struct error err;

    if (!websocket_client_turn(attached->line, &err) ||
        time_boot_ms() - websocket_client_heard_ms(attached->line) > SILENCE_MS)
        attach_line_drop(attached);
}

void attach_line_finish(struct attached *attached)
{
    int64_t until = time_boot_ms() + GOODBYE_MS;
    struct error err;

    if (!attached->line)
        return;
    websocket_client_close(attached->line, WEBSOCKET_NORMAL, "");
    while (websocket_client_turn(attached->line, &err) && time_boot_ms() < until) {
        struct pollfd one = {.fd = websocket_client_fd(attached->line),
                             .events = websocket_client_wants(attached->line)};

        (void)poll(&one, 1, (int)(until - time_boot_ms()));
    }
    websocket_client_destroy(TAKE(attached->line));
}
