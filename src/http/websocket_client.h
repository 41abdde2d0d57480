/* A WebSocket to a server, over libcurl's connection and TLS; it belongs to one thread.
 *
 * Opening it blocks; from then on nothing does: the owner polls the descriptor for what it wants
 * and gives it turns. Bytes that TLS has read ahead are not seen by a poll: ask for more first.
 */
#pragma once

#include "http/client.h"
#include "http/websocket.h"

struct websocket_client;

struct websocket_dial {
    const char *path, *protocol;
    const char *const *headers; /* further "Name: value" lines, NULL-terminated, or NULL */
    int64_t timeout_ms;         /* until it is open */
};

/* The client's address and bearer are used; it may serve others at the same time. When the server
 * refuses, *refusal has its status and body; the status is 0 when nobody answered. */
bool websocket_client_open(const struct http_client *client, const struct websocket_dial *dial,
                           const struct websocket_events *events, void *arg,
                           struct websocket_client **made, struct http_answer *refusal,
                           struct error *err) MUST_USE;
void websocket_client_destroy(struct websocket_client *client); /* accepts NULL */

int websocket_client_fd(const struct websocket_client *client);
short websocket_client_wants(const struct websocket_client *client); /* POLLIN, POLLOUT */
bool websocket_client_has_more(const struct websocket_client *client);

/* Reads a part of what there is, telling the events, and writes what can be written. False: it is
 * over; ERR_UNAVAILABLE when nobody said the end. */
bool websocket_client_turn(struct websocket_client *client, struct error *err) MUST_USE;

/* Reads nothing while it is held. */
void websocket_client_hold(struct websocket_client *client, bool is_held);

/* Messages of at most WEBSOCKET_FRAME_MAX bytes; what is not sent yet is for the owner to watch. */
bool websocket_client_send(struct websocket_client *client, enum websocket_kind kind,
                           struct str bytes, struct error *err) MUST_USE;
size_t websocket_client_unsent(const struct websocket_client *client);

/* Says the end; the turns after it bring it out. */
void websocket_client_close(struct websocket_client *client, enum websocket_close code,
                            const char *reason);
/* What the other side ended with, or 0, and its reason. */
int websocket_client_code(const struct websocket_client *client);
const char *websocket_client_reason(const struct websocket_client *client);
/* Boot time of the last byte heard: a server that is there pings. */
int64_t websocket_client_heard_ms(const struct websocket_client *client);
