/* The answer to the request that begins a WebSocket: 101 that keeps the rules, or a refusal with
 * its body. Bounded, in any portions.
 */
#pragma once

#include "http/websocket.h"

struct websocket_reply {
    const char *protocol; /* that was asked for */
    char key[WEBSOCKET_KEY_TEXT];
    int status; /* once the head is there */
    bool is_whole;
    struct buf bytes;
    size_t head_len, body_len;
    bool has_length;
};

void websocket_reply_finish(struct websocket_reply *reply);

/* is_over: the connection has ended, after these bytes. ERR_UNAVAILABLE: that is no answer. */
bool websocket_reply_feed(struct websocket_reply *reply, struct str bytes, bool is_over,
                          struct error *err) MUST_USE;

/* What came behind the head: frames, or the body of a refusal. */
struct str websocket_reply_rest(const struct websocket_reply *reply);
