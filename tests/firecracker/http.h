/* One connection of the API, as strict as Firecracker's own server is. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

enum { HTTP_BODY_MAX = 51200 };

struct http {
    int fd; /* -1: none */
    struct buf in;
};

struct http_request {
    char method[16], path[256];
    struct str body;
    size_t len; /* of all of it, in the buffer */
};

/* More bytes; false: the other end is gone. */
bool http_fill(struct http *http);

/* A whole request; *is_whole false: not yet there. False: it is none, and why. */
bool http_take(struct http *http, struct http_request *request, bool *is_whole, struct error *err);

void http_drop(struct http *http, const struct http_request *request);

void http_say_done(struct http *http);
void http_say_fault(struct http *http, const char *message);
void http_close(struct http *http);
