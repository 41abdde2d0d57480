/* WebSocket (RFC 6455) without a socket, for either end: bytes in, messages out, and back. The
 * frames are wslay's.
 *
 * What is to be sent collects in a buffer with a maximum. A peer that breaks a rule is answered
 * with a close (1002, 1007, 1009) and not listened to any more. Messages go out as one frame.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum {
    WEBSOCKET_FRAME_MAX = 64 * 1024,
    WEBSOCKET_MESSAGE_MAX = 1024 * 1024,
    WEBSOCKET_FRAMES_MAX = 4096, /* of one message: each costs memory beside its bytes */
    WEBSOCKET_REASON_MAX = 120,
    WEBSOCKET_KEY_TEXT = 25, /* of 16 random bytes */
    WEBSOCKET_ACCEPT_TEXT = 29,
};

enum websocket_close {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_GOING_AWAY = 1001,
    WEBSOCKET_BROKEN_RULE = 1002,
    WEBSOCKET_NO_CODE = 1005, /* the peer gave none; never sent */
    WEBSOCKET_POLICY = 1008,
    WEBSOCKET_TOO_LARGE = 1009,
    WEBSOCKET_FAILED = 1011,
};

enum websocket_kind { WEBSOCKET_TEXT, WEBSOCKET_BINARY };

enum websocket_role { WEBSOCKET_SERVER, WEBSOCKET_CLIENT };

struct websocket;

/* Called from inside websocket_feed. */
struct websocket_events {
    void (*message)(void *arg, enum websocket_kind kind, struct str bytes);
    void (*pong)(void *arg); /* may be NULL */
};

/* output_max: of the bytes that wait to be sent. */
struct websocket *websocket_create(enum websocket_role role, const struct websocket_events *events,
                                   void *arg, size_t output_max);
void websocket_destroy(struct websocket *ws); /* accepts NULL */

/* Bytes from the peer. After websocket_is_ending they are ignored. */
void websocket_feed(struct websocket *ws, struct str bytes);

/* At most WEBSOCKET_FRAME_MAX bytes. ERR_TOO_LARGE when the peer has not read enough; ERR_CONFLICT
 * when the end has been said. */
bool websocket_send(struct websocket *ws, enum websocket_kind kind, struct str bytes,
                    struct error *err) MUST_USE;
void websocket_ping(struct websocket *ws);

/* Says the end; the first one counts. The reason is cut to what fits. */
void websocket_close(struct websocket *ws, enum websocket_close code, const char *reason);

/* What is to be sent; the caller consumes it. */
struct buf *websocket_output(struct websocket *ws);

/* One side has said the end: nothing is taken and nothing but it will be sent. */
bool websocket_is_ending(const struct websocket *ws);
/* More is to be sent than there may be: the connection is of no use any more. */
bool websocket_is_choked(const struct websocket *ws);

/* The peer's close code, or 0; the reason it gave with it. */
int websocket_peer_code(const struct websocket *ws);
const char *websocket_peer_reason(const struct websocket *ws);

/* The handshake's two words: a new key, and what a server makes of one. */
void websocket_make_key(char key[WEBSOCKET_KEY_TEXT]);
void websocket_accept_of(struct str key, char accept[WEBSOCKET_ACCEPT_TEXT]);
