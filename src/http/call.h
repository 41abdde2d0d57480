/* One request on its way through the product: what a handler sees and how it answers.
 *
 * A handler answers in one of five ways: a body (response_json, response_bytes), a
 * redirect or empty status, a stream that is pulled as the client reads, a WebSocket, or by
 * parking: it returns and is called again when its topic is woken or its time is over.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/id.h"
#include "http/peer.h"
#include "http/request.h"
#include "http/route.h"
#include "http/websocket_queue.h"

struct call {
    const struct request *request;
    struct route_match match;
    struct str path, query; /* the target, cut at '?' and not decoded */
    struct arena *arena;    /* freed after the answer was sent, or a parked call runs again */
    void *app;              /* the product's state, as given to http_server_create */
    void *caller;           /* what authorize found out; lives in the arena */
    char id[ID_TEXT];       /* X-Request-ID */
    int upload_fd;          /* of an upload route: the whole body, at offset 0; else -1 */
    uint64_t upload_len;
    struct address
        client;         /* as a trusted proxy says, where there is one; see call_client_address */
    struct str host;    /* the name the client used for us; empty: none */
    bool is_secure;     /* the client's own connection is HTTPS */
    bool peer_is_local; /* the client is on loopback or at the unix socket */
    bool over_unix_socket;
    bool is_last_try;    /* a parked call whose time is over: answer now */
    bool is_last_turn;   /* a call that came last: everybody else who waits has looked */
    const char *failure; /* why the answer is a 500, for the log; NULL: it is none */
};

/* The client's address as text, for logs, and the part of it that a rate limit should count by: an
 * IPv6 client has a whole /64. In the arena; "unix" for a Unix socket. */
const char *call_client_address(const struct call *call);
const char *call_client_network(const struct call *call);

/* Percent-decoded, as match.params, match.project and match.environment are. */
struct str call_param(const struct call *call, size_t index);
struct str call_header(const struct call *call, struct str name);

/* A decoded query parameter; false when absent. ERR_INVALID when it is malformed or twice there. */
bool call_query(struct call *call, const char *name, struct str *value, bool *found,
                struct error *err) MUST_USE;

/* An integer query parameter between min and max, or the fallback. */
bool call_query_int(struct call *call, const char *name, int64_t min, int64_t max, int64_t fallback,
                    int64_t *value, struct error *err) MUST_USE;

/* A stream the server pulls from: never more than the client has read. It outlives the call:
 * `state` must point neither into the arena nor into the request. */
struct response_source {
    const char *topic; /* a wake-up of it means: pull again. NULL for a finite download */
    const char *content_type;
    int status;      /* 0: 200 */
    bool is_sse;     /* keep-alive comments, 30 minute limit, no buffering headers */
    uint64_t length; /* of a download when it is known, else 0: chunked */
    /* It writes the whole answer itself, status and headers, and the connection ends with it. */
    bool writes_head;
    /* On a pool thread: appends up to about 256 KiB to out. *more: pull again as soon as that was
     * sent. *over: the stream ends after it. Neither: wait for the topic. */
    bool (*pull)(void *state, struct buf *out, bool *more, bool *over, struct error *err);
    /* Of one that writes its head, or NULL: what the client says meanwhile, on a pool thread after
     * a pull. *taken: how much of it; the rest is held, and the client with it, until the topic is
     * woken. Taking goes on while the client does not read. */
    bool (*take)(void *state, struct str bytes, size_t *taken, struct error *err);
    void (*release)(void *state);
    void *state; /* owned by the stream from here on */
};

/* What a handler or source of a WebSocket wants to say next. */
struct websocket_out {
    struct websocket_queue messages;
    int close_code; /* 0: stays open; else the end follows the messages */
    char reason[WEBSOCKET_REASON_MAX + 1];
};

/* Messages of at most WEBSOCKET_FRAME_MAX bytes, about 256 KiB of them in one call. */
bool websocket_say(struct websocket_out *out, enum websocket_kind kind, struct str bytes,
                   struct error *err) MUST_USE;
void websocket_say_end(struct websocket_out *out, enum websocket_close code, const char *reason);

/* Both ways of a connection that becomes a WebSocket. All of it is called on the pool, one call at
 * a time; a failure ends the connection with 1011. `state` outlives the call as a stream's does. */
struct response_websocket {
    const char *topic;    /* a wake-up of it means: pull, and offer again what was held */
    const char *protocol; /* the one that was chosen */
    /* A message of the client. *held: it cannot be taken before the topic is woken; the client is
     * read no further than some messages beyond it. */
    bool (*take)(void *state, enum websocket_kind kind, struct str bytes, bool *held,
                 struct websocket_out *out, struct error *err);
    /* First at once, then when the topic was woken or *more was said, and everything that was said
     * before is with the client. */
    bool (*pull)(void *state, struct websocket_out *out, bool *more, struct error *err);
    void (*release)(void *state);
    void *state; /* owned by the connection from here on */
};

/* Whether the request is the beginning of a WebSocket; 400 otherwise. */
bool websocket_asked_any(const struct call *call, struct response *res, struct error *err) MUST_USE;

/* The same of one that speaks the protocol. */
bool websocket_asked(const struct call *call, struct response *res, const char *protocol,
                     struct error *err) MUST_USE;

/* 101; only after websocket_asked. */
void response_websocket(struct response *res, const struct call *call,
                        const struct response_websocket *websocket);

/* The body is written by the caller into this buffer, then response_json sets the status. */
struct buf *response_body(struct response *res);
void response_json(struct response *res, int status);
void response_bytes(struct response *res, int status, const char *content_type);
void response_empty(struct response *res, int status);
bool response_header(struct response *res, const char *name, struct str value,
                     struct error *err) MUST_USE;
void response_stream(struct response *res, const struct response_source *source);

/* Answer later: the caller is authorized and the handler runs again when `topic` is woken, and
 * for the last time (call->is_last_try) wait_ms after it first parked. */
void response_park(struct response *res, const char *topic, int64_t wait_ms);

/* The same for what only one can have: a wake-up goes to the call of each line that waits longest,
 * and from it to the next when it is done, unless it says that nothing is left. One that comes
 * last lets the others look first. Not for instant routes. */
struct response_turn {
    const char *topic;
    int64_t wait_ms;
    int line; /* 0 to 3 */
    bool comes_last;
};
void response_park_in_turn(struct response *res, const struct response_turn *turn);
void response_end_turn(struct response *res);

/* The error body of the API: {"error", "code", "details"?}. `details` is JSON or empty. */
void response_error(struct response *res, const struct error *err, struct str details);
