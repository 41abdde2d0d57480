/* One accepted socket, from first byte to close: a state machine on the loop's thread.
 *
 * One request at a time: while it is worked on, further bytes wait unread. A closed
 * connection is freed by the entry point that closed it, or, when a pool thread holds its
 * exchange or stream, by the one that hears from the pool.
 */
#pragma once

#include "base/buf.h"
#include "http/peer.h"
#include "http/topic.h"
#include "http/transport.h"

struct exchange;
struct http_server;
struct stream;
struct websocket_line;

enum connection_state {
    CONNECTION_SHAKING, /* the TLS handshake */
    CONNECTION_IDLE,    /* between requests */
    CONNECTION_HEAD,    /* some bytes of a head are here */
    CONNECTION_BODY,
    CONNECTION_BUSY,    /* a step of the exchange is on the pool */
    CONNECTION_PARKED,  /* the handler waits for its topic */
    CONNECTION_WRITING, /* the answer waits for the socket */
    CONNECTION_STREAMING,
    CONNECTION_WEBSOCKET,
    CONNECTION_LINGERING, /* answered and shut: late bytes are dropped, else they would reset it */
    CONNECTION_CLOSED,
};

struct connection {
    struct http_server *server;
    struct connection *previous, *next;
    struct loop_source *source;
    struct loop_timer *timer;      /* fires at armed_ms, never after deadline_ms, and looks again */
    int64_t armed_ms, deadline_ms; /* boot time; deadline 0: none */
    struct exchange *exchange;     /* from the first byte of a head to the end of the answer */
    struct stream *stream;
    struct websocket_line *websocket;
    struct waiter waiter;
    struct buf input; /* read, but of a later request */
    struct transport transport;
    struct address address;
    enum connection_state state;
    unsigned watched;
    bool is_on_pool; /* a pool thread holds the exchange, the stream or the WebSocket's state */
    bool is_unanswered;
    bool over_unix;
};

/* What has been accepted. */
struct arrival {
    int fd;
    struct address address;
    struct tls *tls; /* NULL: in the clear */
    bool over_unix;
};

/* Takes the descriptor. */
void connection_open(struct http_server *server, const struct arrival *arrival);

/* The server stops: ends what need not be finished. */
void connection_stop(struct connection *connection);

/* For the end of a server; no pool thread may hold it. */
void connection_destroy(struct connection *connection);

/* The rest is between connection, stream and WebSocket. */
void connection_watch(struct connection *connection, unsigned events);
/* For one that waits: its leaving too, as long as there is room for what it may say. */
void connection_watch_ahead(struct connection *connection, unsigned events);
void connection_deadline(struct connection *connection, int64_t at_ms);
void connection_close(struct connection *connection);
void connection_reap(struct connection *connection);

/* Reads on, with what was read before first, when the state is one of reading. Every entry point
 * that may have ended an answer calls it. */
void connection_resume(struct connection *connection);

/* The answer is out: idle, or on the way to the end. */
void connection_next(struct connection *connection, bool keep_alive, bool may_send_more);
