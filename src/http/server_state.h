/* What one server holds between its parts. Private to http/; all of it but the topics
 * belongs to the loop's thread.
 */
#pragma once

#include "http/exchange.h"
#include "http/listener.h"
#include "http/server.h"
#include "http/topic.h"

enum { SCRATCH_SIZE = 64 * 1024, LISTENERS_MAX = 8 };

struct connection;

struct http_server {
    struct http_config config; /* with every default filled in */
    struct listener listeners[LISTENERS_MAX];
    size_t n_listeners;
    int reserve_fd; /* given up for a moment when descriptors run out */
    struct connection *connections;
    size_t n_connections;
    struct exchange *spare; /* finished ones, kept with their buffers */
    size_t n_spare;
    uint64_t body_bytes;
    struct topics topics;
    bool is_stopping;
    struct loop_timer *grace;
    loop_fire *stopped;
    void *stopped_arg;
    char scratch[SCRATCH_SIZE]; /* what is read goes here first; never held across callbacks */
};

/* Told by the last connection that goes away. */
void server_connection_gone(struct http_server *server);
