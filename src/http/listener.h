/* A listening socket: TCP or unix. Accepted sockets are non-blocking and close on exec. */
#pragma once

#include "base/loop.h"

struct http_server;
struct tls;

struct listener {
    struct http_server *server;
    struct loop_source *source;
    struct tls *tls; /* borrowed; NULL: in the clear */
    int fd;
    int port;       /* 0 for a unix socket */
    char path[108]; /* of a unix socket, else empty */
};

bool listener_open(struct listener *listener, struct http_server *server, const char *address,
                   struct error *err) MUST_USE;
void listener_close(struct listener *listener);
