/* The answer to one request while a handler makes it, and the head it is sent with.
 *
 * Exactly one kind holds at the end; a source that was set is released by whoever
 * replaces it, so a handler that fails after response_stream leaks nothing.
 */
#pragma once

#include "http/call.h"
#include "http/output.h"

enum { RESPONSE_BODY_MAX = 64 * 1024 * 1024, RESPONSE_HEAD_MAX = 16 * 1024 };

enum response_kind {
    RESPONSE_UNSET,
    RESPONSE_WHOLE,
    RESPONSE_STREAM,
    RESPONSE_WEBSOCKET,
    RESPONSE_PARK,
};

struct response {
    enum response_kind kind;
    int status;
    const char *content_type; /* NULL: no body */
    struct arena *arena;
    struct buf headers; /* lines the handler added */
    struct output output;
    struct response_source source;
    struct response_websocket websocket;
    const char *topic;   /* of a stream, a WebSocket or a parked call; in the arena */
    const char *upgrade; /* of a WebSocket: header lines, in the arena */
    int64_t wait_ms;
    int line;
    bool in_turn, comes_last, ends_turn;
    const char *failure; /* the text of an ERR_INTERNAL, which the client does not get */
};

/* Empty and unset; the source, when there is one, is released. */
void response_reset(struct response *res);
void response_finish(struct response *res);

struct response_frame {
    const char *request_id;
    const char *extra[2]; /* further header lines, or NULL */
    bool is_old, is_head, keep_alive;
};

/* Writes status line and headers into the output; the body stays out for HEAD. */
bool response_compose(struct response *res, const struct response_frame *frame,
                      struct error *err) MUST_USE;

/* A stream without a known length to a client that knows chunks. */
bool response_is_chunked(const struct response *res, bool is_old);
