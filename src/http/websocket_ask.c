#include <stdio.h>

#include "base/encode.h"
#include "http/call.h"

enum { OUT_MAX = 1024 * 1024 };

/* The lists of all headers of that name count as one, as RFC 9110 has it. */
static bool lists(const struct request *request, struct str name, struct str wanted, bool any_case)
{
    for (size_t i = 0; i < request->n_headers; i++) {
        struct str rest = request->headers[i].value, piece;

        if (!str_equal_nocase(request->headers[i].name, name))
            continue;
        while (str_split(&rest, ',', &piece)) {
            piece = str_trim(piece, STR(" \t"));
            if (any_case ? str_equal_nocase(piece, wanted) : str_equal(piece, wanted))
                return true;
        }
    }
    return false;
}

static bool key_fits(struct str key)
{
    char bytes[16];
    size_t len = sizeof bytes;

    return key.len == WEBSOCKET_KEY_TEXT - 1 && base64_decode(key, bytes, &len) &&
           len == sizeof bytes;
}

bool websocket_asked_any(const struct call *call, struct response *res, struct error *err)
{
    const struct request *request = call->request;

    if (!request->upgrade || !lists(request, STR("connection"), STR("upgrade"), true))
        return error_set(err, ERR_INVALID, "this route speaks WebSocket: send Upgrade: websocket");
    if (!str_equal(call_header(call, STR("sec-websocket-version")), STR("13"))) {
        if (!response_header(res, "Sec-WebSocket-Version", STR("13"), err))
            return false;
        return error_set(err, ERR_INVALID, "only version 13 of WebSocket is spoken");
    }
    return key_fits(call_header(call, STR("sec-websocket-key"))) ||
           error_set(err, ERR_INVALID, "Sec-WebSocket-Key is not base64 of 16 bytes");
}

bool websocket_asked(const struct call *call, struct response *res, const char *protocol,
                     struct error *err)
{
    if (!websocket_asked_any(call, res, err))
        return false;
    if (!lists(call->request, STR("sec-websocket-protocol"), str_of(protocol), false))
        return error_set(err, ERR_INVALID, "this route speaks the WebSocket protocol %s", protocol);
    return true;
}

bool websocket_say(struct websocket_out *out, enum websocket_kind kind, struct str bytes,
                   struct error *err)
{
    if (bytes.len > WEBSOCKET_FRAME_MAX)
        return error_set(err, ERR_INTERNAL, "a message is over %d bytes", WEBSOCKET_FRAME_MAX);
    out->messages.bytes.max = OUT_MAX;
    return websocket_queue_put(&out->messages, kind, bytes, err);
}

void websocket_say_end(struct websocket_out *out, enum websocket_close code, const char *reason)
{
    out->close_code = (int)code;
    snprintf(out->reason, sizeof out->reason, "%s", reason);
}
