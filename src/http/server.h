/* The HTTP/1.1 server: sockets on one loop, handlers on a pool.
 *
 * Every connection is bounded in head, body, idle time and unsent bytes; a client that
 * breaks a rule loses its connection and nothing else. http_server_wake may be called
 * from any thread; the rest belongs to the loop's.
 */
#pragma once

#include "base/loop.h"
#include "base/pool.h"
#include "http/call.h"

struct http_server;

struct tls;

struct http_config {
    struct loop *loop;
    struct pool *pool;
    const struct route *routes;
    size_t n_routes;
    void *app;
    /* On the pool before the handler: finds the caller and checks route->needs. */
    bool (*authorize)(struct call *call, struct error *err);
    /* Whether a handler that failed so may succeed when it is simply run again, which is then
     * done a few times; may be NULL. Such a handler has changed nothing yet. */
    bool (*is_passing)(const struct error *err);
    /* On the pool when authorize or a handler has refused so, for an audit log; may be NULL. What
     * they held is let go by then. */
    void (*refused)(const struct call *call, const struct error *err);
    /* On the loop when an answer is about to be sent, for the access log; may be NULL. A client
     * that left before gives 499; a refused head has no route in call->match. */
    void (*answered)(const struct call *call, int status, int64_t took_ms);
    const char *spool_dir;        /* where uploads are spooled */
    size_t json_max;              /* default body limit */
    size_t connections_max;       /* over all listeners; more are closed at once */
    int64_t head_timeout_ms;      /* first byte to end of head (slow loris); a TLS handshake, too */
    int64_t body_timeout_ms;      /* without a byte of body */
    int64_t idle_timeout_ms;      /* between requests */
    int64_t write_timeout_ms;     /* without progress while bytes wait: a slow reader is cut */
    int64_t stream_quiet_ms;      /* silence before an SSE keep-alive comment; 0: 15 s */
    int64_t stream_end_ms;        /* after which an SSE stream is ended; 0: 30 min */
    int64_t websocket_ping_ms;    /* between pings; 0: 15 s */
    int64_t websocket_silence_ms; /* without a pong before it is cut; 0: 45 s */
    size_t body_budget;           /* bytes of all bodies in memory together; 0: 256 MiB */
    const char *response_headers; /* for every answer, each line ending in CRLF, or NULL */
    const char *secure_headers;   /* the same, for answers to clients with HTTPS */
    const struct proxies *proxies; /* whose X-Forwarded-* are believed; NULL: nobody's */
};

bool http_server_create(const struct http_config *config, struct http_server **server,
                        struct error *err) MUST_USE;

/* Listens on "host:port" (port 0: any) or "unix:/path" (mode 0600). */
bool http_server_listen(struct http_server *server, const char *address,
                        struct error *err) MUST_USE;
/* The same, inside TLS. */
bool http_server_listen_tls(struct http_server *server, const char *address, struct tls *tls,
                            struct error *err) MUST_USE;
int http_server_port(const struct http_server *server); /* of the first TCP listener */

/* Wakes every parked call and stream of the topic. Any thread. */
void http_server_wake(struct http_server *server, const char *topic);

/* On the loop: wakes everything that waits, after wake-ups may have been missed. */
void http_server_wake_all(struct http_server *server);

/* Stops accepting, lets answers finish for up to grace_ms (streams are ended at once), then calls
 * done on the loop. */
void http_server_shutdown(struct http_server *server, int64_t grace_ms, loop_fire *done, void *arg);

/* After the pool has ended, when the loop runs no more. */
void http_server_destroy(struct http_server *server);
