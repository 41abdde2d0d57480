/* Heads of HTTP messages on their way between a browser and a program in a sandbox, which trust
 * neither each other nor, with what is ours, us.
 */
#pragma once

#include "http/call.h"

enum { PREVIEW_HEAD_MAX = 32 * 1024, PREVIEW_PREFIX_TEXT = 64 };

#define PREVIEW_COOKIE "helmr_preview"

/* "/w/<workspace>/<port>", below which everything is. */
struct preview_side {
    char prefix[PREVIEW_PREFIX_TEXT];
    uint16_t port;
    bool is_secure;                     /* the origin of previews is https */
    char accept[WEBSOCKET_ACCEPT_TEXT]; /* what is to answer a request for a WebSocket, or "" */
};

/* The request as the program gets it: the path below the prefix, without what is for this
 * connection only, our cookies and Authorization. The body follows with body_len bytes. One for a
 * WebSocket comes from the program's own origin: that it comes from ours was looked at before. */
bool preview_request_head(const struct call *call, const struct preview_side *side,
                          uint64_t body_len, struct buf *out, struct error *err) MUST_USE;

/* What the rest of the answer is. */
struct preview_answer {
    int status;
    bool has_length; /* else it goes on to the end of the connection, as after 101 both ways do */
    uint64_t length;
};

/* The answer's head, up to its empty line, as the browser gets it. ERR_INVALID when it is none.
 * One of an answer that is not the last (1xx) leaves `out` alone. */
bool preview_answer_head(struct str head, const struct preview_side *side, struct buf *out,
                         struct preview_answer *answer, struct error *err) MUST_USE;
