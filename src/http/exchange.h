/* One request and its answer: the parser, the call, the response, and the steps of it that
 * run on the pool.
 *
 * It is acquired when the first byte of a head comes and released when the answer is
 * sent; an idle or streaming connection has none. While a step runs on the pool, the loop
 * touches nothing of it.
 */
#pragma once

#include "http/call.h"
#include "http/request.h"
#include "http/response.h"

struct http_server;

enum exchange_step {
    STEP_AUTHORIZE, /* before a large body is read */
    STEP_SPOOL,     /* a piece of an upload to its file */
    STEP_HANDLE,    /* authorize unless done, then the handler */
};

struct exchange {
    struct exchange *next_spare;
    struct http_server *server;
    struct request_parser *parser;
    struct route_match match; /* slices of the head; call.match is the decoded copy */
    struct call call;
    struct arena arena;
    struct response response;
    struct buf piece;    /* of an upload, on its way to the file */
    size_t body_counted; /* bytes of the server's budget it holds */
    int64_t started_ms;  /* boot time, when the head was complete */
    int64_t give_up_ms;  /* boot time when a parked call must answer; 0: never parked */
    uint64_t looked_at;  /* the topics' clock before the handler looked */
    uint64_t place;      /* among those who wait in turn; 0: never did */
    char turn_of[64];    /* the topic of the turn that it has; "": it has none */
    int line;            /* that it waits in */
    enum exchange_step step;
    bool is_authorized, has_failed, keep_alive;
    struct error err; /* when has_failed */
};

struct exchange *exchange_acquire(struct http_server *server);
void exchange_release(struct exchange *exchange);
void exchange_destroy(struct exchange *exchange);

/* The head is complete: finds the route and the limit of the body. */
bool exchange_open(struct exchange *exchange, struct error *err) MUST_USE;

/* Whether the caller must be known before the body is read. */
bool exchange_asks_first(const struct exchange *exchange);

/* Counts the body in memory against the server's budget. */
bool exchange_count_body(struct exchange *exchange, struct error *err) MUST_USE;

/* Any thread: does exchange->step; the outcome is in has_failed, err and response. */
void exchange_run(struct exchange *exchange);

/* Turns the answer into the error. */
void exchange_fail(struct exchange *exchange, const struct error *err);

/* Writes the head of the answer and tells the access log. */
void exchange_compose(struct exchange *exchange);
void exchange_report(struct exchange *exchange, int status);
