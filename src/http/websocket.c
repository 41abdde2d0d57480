#include "http/websocket.h"

#include <openssl/evp.h>
#include <wslay/wslay.h>

#include "base/encode.h"
#include "base/id.h"
#include "base/own.h"

struct websocket {
    wslay_event_context_ptr context;
    enum websocket_role role;
    struct websocket_events events;
    void *arg;
    struct str input; /* of the feed under way */
    struct buf output;
    size_t n_frames; /* of the message that is coming */
    int peer_code;
    char peer_reason[WEBSOCKET_REASON_MAX + 1];
    bool is_ending, is_choked;
};

static ssize_t on_want_bytes(wslay_event_context_ptr context, uint8_t *bytes, size_t room,
                             int flags UNUSED, void *arg)
{
    struct websocket *ws = arg;
    size_t len = ws->input.len < room ? ws->input.len : room;

    if (len == 0) {
        wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(bytes, ws->input.ptr, len);
    ws->input = (struct str){ws->input.ptr + len, ws->input.len - len};
    return (ssize_t)len;
}

static ssize_t on_have_bytes(wslay_event_context_ptr context, const uint8_t *bytes, size_t len,
                             int flags UNUSED, void *arg)
{
    struct websocket *ws = arg;
    struct error err;

    if (!buf_append(&ws->output, (struct str){(const char *)bytes, len}, &err)) {
        ws->is_choked = true;
        wslay_event_set_error(context, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    return (ssize_t)len;
}

static int on_want_mask(wslay_event_context_ptr context UNUSED, uint8_t *bytes, size_t len,
                        void *arg UNUSED)
{
    random_bytes(bytes, len);
    return 0;
}

/* From inside a feed, whose end moves the answer to the output. */
static void refuse(struct websocket *ws, const char *reason)
{
    struct str text = str_of(reason);

    if (ws->is_ending)
        return;
    ws->is_ending = true;
    wslay_event_shutdown_read(ws->context);
    if (wslay_event_queue_close(ws->context, WEBSOCKET_TOO_LARGE, (const uint8_t *)text.ptr,
                                text.len) != 0)
        ws->is_choked = true;
}

/* wslay bounds messages; how they are cut up is ours to bound. */
static void on_frame(wslay_event_context_ptr context UNUSED,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *arg)
{
    struct websocket *ws = arg;
    bool is_control = wslay_is_ctrl_frame(frame->opcode);

    if (frame->payload_length > WEBSOCKET_FRAME_MAX)
        refuse(ws, "a frame is over 64 KiB");
    if (!is_control && ++ws->n_frames > WEBSOCKET_FRAMES_MAX)
        refuse(ws, "a message has too many frames");
    if (!is_control && frame->fin)
        ws->n_frames = 0;
}

static void keep_reason(struct websocket *ws, struct str text)
{
    size_t len = text.len < WEBSOCKET_REASON_MAX ? text.len : WEBSOCKET_REASON_MAX;

    for (size_t i = 0; i < len; i++)
        ws->peer_reason[i] = (char)((unsigned char)text.ptr[i] < ' ' ? ' ' : text.ptr[i]);
    ws->peer_reason[len] = '\0';
}

static void on_message(wslay_event_context_ptr context UNUSED,
                       const struct wslay_event_on_msg_recv_arg *message, void *arg)
{
    struct websocket *ws = arg;
    struct str bytes = {(const char *)message->msg, message->msg_length};

    if (message->opcode == WSLAY_CONNECTION_CLOSE) {
        ws->peer_code = message->status_code ? message->status_code : WEBSOCKET_NO_CODE;
        keep_reason(ws, bytes.len > 2 ? (struct str){bytes.ptr + 2, bytes.len - 2} : STR(""));
        ws->is_ending = true;
    } else if (message->opcode == WSLAY_PONG) {
        if (ws->events.pong)
            ws->events.pong(ws->arg);
    } else if (!ws->is_ending && message->opcode != WSLAY_PING) {
        ws->events.message(ws->arg,
                           message->opcode == WSLAY_TEXT_FRAME ? WEBSOCKET_TEXT : WEBSOCKET_BINARY,
                           bytes);
    }
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = on_want_bytes,
    .send_callback = on_have_bytes,
    .genmask_callback = on_want_mask,
    .on_frame_recv_start_callback = on_frame,
    .on_msg_recv_callback = on_message,
};

struct websocket *websocket_create(enum websocket_role role, const struct websocket_events *events,
                                   void *arg, size_t output_max)
{
    struct websocket *ws = alloc(sizeof *ws);

    *ws = (struct websocket){.role = role, .events = *events, .arg = arg, .output.max = output_max};
    int result = role == WEBSOCKET_SERVER
                     ? wslay_event_context_server_init(&ws->context, &callbacks, ws)
                     : wslay_event_context_client_init(&ws->context, &callbacks, ws);
    if (result != 0)
        abort();
    wslay_event_config_set_max_recv_msg_length(ws->context, WEBSOCKET_MESSAGE_MAX);
    return ws;
}

void websocket_destroy(struct websocket *ws)
{
    if (!ws)
        return;
    wslay_event_context_free(ws->context);
    buf_finish(&ws->output);
    free(ws);
}

/* wslay answers a frame that cannot be one with a close that names no code. It is the last thing
 * that was said. */
static void name_code(struct websocket *ws)
{
    static const char code[] = {WEBSOCKET_BROKEN_RULE >> 8, (char)(WEBSOCKET_BROKEN_RULE & 0xff)};
    size_t bare = ws->role == WEBSOCKET_SERVER ? 2 : 6;
    struct buf *out = &ws->output;
    char tail[sizeof code];
    struct error err;

    if (ws->peer_code != 0 || out->len < bare ||
        wslay_event_get_status_code_sent(ws->context) != WEBSOCKET_NO_CODE)
        return;
    for (size_t i = 0; i < sizeof code; i++)
        tail[i] = (char)(code[i] ^ (bare > 2 ? out->bytes[out->len - 4 + i] : 0));
    if (buf_append(out, (struct str){tail, sizeof tail}, &err))
        out->bytes[out->len - sizeof tail - bare + 1] |= sizeof code;
}

/* Moves what wslay holds into the buffer at once, so that only one place counts bytes. */
static void collect(struct websocket *ws)
{
    bool was_closing = wslay_event_get_close_sent(ws->context);

    if (!ws->is_choked && wslay_event_want_write(ws->context) && wslay_event_send(ws->context) != 0)
        ws->is_choked = true;
    if (!was_closing && wslay_event_get_close_sent(ws->context))
        name_code(ws);
    if (!wslay_event_get_read_enabled(ws->context) || wslay_event_get_close_sent(ws->context))
        ws->is_ending = true;
}

void websocket_feed(struct websocket *ws, struct str bytes)
{
    if (ws->is_ending || ws->is_choked)
        return;
    ws->input = bytes;
    if (wslay_event_recv(ws->context) != 0)
        websocket_close(ws, WEBSOCKET_BROKEN_RULE, "");
    ws->input = (struct str){0};
    collect(ws);
}

bool websocket_send(struct websocket *ws, enum websocket_kind kind, struct str bytes,
                    struct error *err)
{
    struct wslay_event_msg message = {
        .opcode = kind == WEBSOCKET_TEXT ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
        .msg = (const uint8_t *)bytes.ptr,
        .msg_length = bytes.len,
    };

    if (bytes.len > WEBSOCKET_FRAME_MAX)
        return error_set(err, ERR_TOO_LARGE, "a message is over %d bytes", WEBSOCKET_FRAME_MAX);
    if (ws->is_ending || wslay_event_queue_msg(ws->context, &message) != 0)
        return error_set(err, ERR_CONFLICT, "the connection is ending");
    collect(ws);
    if (ws->is_choked)
        return error_set(err, ERR_TOO_LARGE, "the other side does not read");
    return true;
}

void websocket_ping(struct websocket *ws)
{
    static const struct wslay_event_msg ping = {.opcode = WSLAY_PING};

    if (!ws->is_ending && wslay_event_queue_msg(ws->context, &ping) == 0)
        collect(ws);
}

void websocket_close(struct websocket *ws, enum websocket_close code, const char *reason)
{
    size_t len = strnlen(reason, WEBSOCKET_REASON_MAX);

    if (ws->is_ending)
        return;
    if (wslay_event_queue_close(ws->context, (uint16_t)code, (const uint8_t *)reason, len) == 0)
        collect(ws);
    ws->is_ending = true;
}

struct buf *websocket_output(struct websocket *ws)
{
    return &ws->output;
}

bool websocket_is_ending(const struct websocket *ws)
{
    return ws->is_ending;
}

bool websocket_is_choked(const struct websocket *ws)
{
    return ws->is_choked;
}

int websocket_peer_code(const struct websocket *ws)
{
    return ws->peer_code;
}

const char *websocket_peer_reason(const struct websocket *ws)
{
    return ws->peer_reason;
}

void websocket_make_key(char key[WEBSOCKET_KEY_TEXT])
{
    char bytes[16];

    random_bytes(bytes, sizeof bytes);
    base64_encode((struct str){bytes, sizeof bytes}, key);
    key[WEBSOCKET_KEY_TEXT - 1] = '\0';
}

void websocket_accept_of(struct str key, char accept[WEBSOCKET_ACCEPT_TEXT])
{
    static const struct str magic = STR("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    unsigned char digest[20];
    char text[128];
    size_t len = key.len < sizeof text - magic.len ? key.len : sizeof text - magic.len;

    memcpy(text, key.ptr, len);
    memcpy(text + len, magic.ptr, magic.len);
    if (EVP_Digest(text, len + magic.len, digest, NULL, EVP_sha1(), NULL) != 1)
        abort();
    base64_encode((struct str){(char *)digest, sizeof digest}, accept);
    accept[WEBSOCKET_ACCEPT_TEXT - 1] = '\0';
}
