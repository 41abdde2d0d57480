#include "http/connection.h"

#include <stddef.h>
#include <stdio.h>

#include "base/own.h"
#include "base/time.h"
#include "http/server_state.h"
#include "http/stream.h"
#include "http/websocket_server.h"

enum {
    LINGER_MS = 2000,
    READ_AHEAD_MAX = 16 * 1024, /* of the next request, while this one waits */
    UPLOAD_PIECE = 256 * 1024,
};

static void job(void *arg);

static bool is_reading(const struct connection *connection)
{
    return connection->state == CONNECTION_IDLE || connection->state == CONNECTION_HEAD ||
           connection->state == CONNECTION_BODY;
}

static size_t room_for_input(const struct connection *connection)
{
    if (is_reading(connection) || connection->state == CONNECTION_LINGERING)
        return SCRATCH_SIZE;
    if (connection->input.len >= READ_AHEAD_MAX)
        return 0;

    size_t room = READ_AHEAD_MAX - connection->input.len;

    return connection->transport.tls && room < TLS_RECORD_MAX ? TLS_RECORD_MAX : room;
}

static void submit(struct connection *connection, enum exchange_step step)
{
    connection->exchange->step = step;
    connection->state = CONNECTION_BUSY;
    connection->is_on_pool = true;
    connection_deadline(connection, 0);
    pool_give(connection->server->config.pool, job, connection);
}

static void flush(struct connection *connection)
{
    struct exchange *exchange = connection->exchange;
    const struct http_config *config = &connection->server->config;

    switch (output_send(&exchange->response.output, &connection->transport)) {
    case OUTPUT_BROKEN: connection_close(connection); break;
    case OUTPUT_BLOCKED:
        connection_watch(connection, LOOP_WRITE);
        connection_deadline(connection, time_boot_ms() + config->write_timeout_ms);
        break;
    case OUTPUT_DRAINED: {
        bool is_whole = request_parser_stage(exchange->parser) == REQUEST_DONE;
        bool keep_alive = exchange->keep_alive;

        exchange_release(TAKE(connection->exchange));
        connection_next(connection, keep_alive, !is_whole || connection->input.len > 0);
        break;
    }
    }
}

static void respond(struct connection *connection)
{
    struct exchange *exchange = connection->exchange;

    if (connection->server->is_stopping)
        exchange->keep_alive = false;
    exchange_compose(exchange);
    if (exchange->response.kind == RESPONSE_STREAM &&
        (exchange->call.request->method != METHOD_HEAD || exchange->response.source.writes_head)) {
        stream_begin(connection);
        return;
    }
    if (exchange->response.kind == RESPONSE_WEBSOCKET) {
        websocket_line_begin(connection);
        return;
    }
    connection->state = CONNECTION_WRITING;
    flush(connection);
}

/* Where the next message would begin is not known any more, or the body is unwelcome. */
static void refuse(struct connection *connection, const struct error *err)
{
    exchange_fail(connection->exchange, err);
    connection->exchange->keep_alive = false;
    respond(connection);
}

/* Whoever waits in turn has it while it looks again. */
static void run_again(struct connection *connection, bool is_last_try, bool is_last_turn)
{
    struct exchange *exchange = connection->exchange;

    topics_leave(&connection->server->topics, &connection->waiter);
    exchange->call.is_last_try = is_last_try;
    exchange->call.is_last_turn = is_last_turn;
    if (exchange->response.in_turn)
        snprintf(exchange->turn_of, sizeof exchange->turn_of, "%s", exchange->response.topic);
    submit(connection, STEP_HANDLE);
}

/* One that lets the others go first passes a turn that it never had. */
static bool pass_turn(struct connection *connection)
{
    struct exchange *exchange = connection->exchange;
    const struct response *res = &exchange->response;
    bool is_due = *exchange->turn_of && !res->ends_turn;

    if (exchange->step != STEP_HANDLE || (!is_due && !res->comes_last))
        return false;
    return topics_pass(&connection->server->topics, is_due ? exchange->turn_of : res->topic,
                       is_due ? exchange->line : res->line);
}

static void join_line(struct connection *connection)
{
    struct http_server *server = connection->server;
    struct exchange *exchange = connection->exchange;
    const struct response *res = &exchange->response;

    if (res->in_turn && exchange->place == 0)
        exchange->place = ++server->topics.n_places;
    exchange->line = res->line;
    connection->waiter.turn = (struct turn){
        .place = res->in_turn ? exchange->place : 0,
        .looked_at = exchange->looked_at,
        .line = res->line,
        .comes_last = res->comes_last,
    };
    topics_join(&server->topics, &connection->waiter, res->topic);
}

/* `has_passed`: somebody else of its line looks now. */
static void park(struct connection *connection, bool has_passed)
{
    struct http_server *server = connection->server;
    struct exchange *exchange = connection->exchange;
    const struct response *res = &exchange->response;
    int64_t now = time_boot_ms();

    if (exchange->give_up_ms == 0)
        exchange->give_up_ms = now + res->wait_ms;
    if (now >= exchange->give_up_ms || server->is_stopping) {
        run_again(connection, true, false);
        return;
    }
    join_line(connection);
    bool is_woken = topics_woken_since(&server->topics, res->topic, exchange->looked_at);
    if (is_woken || (res->comes_last && !has_passed)) {
        run_again(connection, false, !is_woken);
        return;
    }
    connection->state = CONNECTION_PARKED;
    connection_watch_ahead(connection, 0);
    connection_deadline(connection, exchange->give_up_ms);
}

static void handled(struct connection *connection, bool has_passed)
{
    if (connection->exchange->response.kind == RESPONSE_PARK)
        park(connection, has_passed);
    else
        respond(connection);
}

static void handle(struct connection *connection)
{
    struct exchange *exchange = connection->exchange;
    const struct route *route = exchange->match.route;

    if (route->upload)
        request_parser_take_body(exchange->parser, &exchange->piece);
    if (!route->instant) {
        submit(connection, STEP_HANDLE);
        return;
    }
    exchange->step = STEP_HANDLE;
    exchange_run(exchange);
    handled(connection, false);
}

/* A socket that is too full for this line has a client that reads nothing anyway; it may go
 * on without, as every client must be able to. Inside TLS a record that was begun must be ended. */
static bool send_continue(struct connection *connection)
{
    char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec part = {line, sizeof line - 1};
    size_t sent;

    switch (transport_write(&connection->transport, &part, 1, &sent)) {
    case TRANSPORT_MOVED: return sent == sizeof line - 1;
    case TRANSPORT_BLOCKED_WRITE: return !connection->transport.tls;
    case TRANSPORT_BLOCKED_READ:
    case TRANSPORT_IN_CLEAR:
    case TRANSPORT_OVER: break;
    }
    return false;
}

static void begin_body(struct connection *connection)
{
    const struct request *request = connection->exchange->call.request;
    struct str expected = request_header(request, STR("expect"));

    if (request_parser_stage(connection->exchange->parser) == REQUEST_DONE) {
        handle(connection);
        return;
    }
    connection->state = CONNECTION_BODY;
    if (!request->is_old && str_equal_nocase(expected, STR("100-continue")) &&
        !send_continue(connection))
        connection_close(connection);
}

/* Who calls: the other end of the socket, or whom a trusted proxy names. */
static void introduce(const struct connection *connection, struct call *call)
{
    const struct proxies *proxies = connection->server->config.proxies;

    call->client = connection->address;
    call->host = request_header(call->request, STR("host"));
    call->over_unix_socket = connection->over_unix;
    call->is_secure = connection->transport.tls;
    if (proxies && !connection->over_unix && proxies_have(proxies, &connection->address)) {
        struct forwarded said = peer_forwarded(proxies, &connection->address, call->request);

        call->client = said.client;
        call->is_secure = said.has_proto ? said.is_https : call->is_secure;
        if (said.host.len > 0)
            call->host = said.host;
    }
    call->peer_is_local = connection->over_unix || address_is_loopback(&call->client);
}

static void head_complete(struct connection *connection)
{
    struct exchange *exchange = connection->exchange;
    struct error err;

    introduce(connection, &exchange->call);
    if (!exchange_open(exchange, &err)) {
        if (request_parser_stage(exchange->parser) != REQUEST_DONE)
            exchange->keep_alive = false;
        exchange_fail(exchange, &err);
        respond(connection);
        return;
    }
    if (exchange->call.request->upgrade)
        exchange->keep_alive = false;
    if (exchange_asks_first(exchange))
        submit(connection, STEP_AUTHORIZE);
    else
        begin_body(connection);
}

static void body_progress(struct connection *connection)
{
    struct exchange *exchange = connection->exchange;
    struct error err;

    if (!exchange_count_body(exchange, &err)) {
        refuse(connection, &err);
    } else if (request_parser_stage(exchange->parser) == REQUEST_DONE) {
        handle(connection);
    } else if (exchange->match.route->upload &&
               request_parser_buffered(exchange->parser) >= UPLOAD_PIECE) {
        request_parser_take_body(exchange->parser, &exchange->piece);
        submit(connection, STEP_SPOOL);
    }
}

/* Feeds one message's worth; returns how many bytes were used. */
static size_t feed(struct connection *connection, struct str bytes)
{
    struct error err;
    size_t used;

    if (connection->state == CONNECTION_IDLE) {
        connection->exchange = exchange_acquire(connection->server);
        connection->exchange->call.client = connection->address;
        connection->state = CONNECTION_HEAD;
    }

    struct request_parser *parser = connection->exchange->parser;
    bool in_head = request_parser_stage(parser) == REQUEST_HEAD;

    if (!request_parser_feed(parser, bytes, &used, &err)) {
        refuse(connection, &err);
        return bytes.len;
    }
    if (!in_head)
        body_progress(connection);
    else if (request_parser_stage(parser) != REQUEST_HEAD)
        head_complete(connection);
    return used;
}

/* What the client is given time for. */
static void expect_bytes(struct connection *connection)
{
    const struct http_config *config = &connection->server->config;

    connection_watch(connection, LOOP_READ);
    if (connection->state == CONNECTION_HEAD)
        connection_deadline(connection, connection->exchange->started_ms + config->head_timeout_ms);
    else
        connection_deadline(connection, time_boot_ms() + (connection->state == CONNECTION_IDLE
                                                              ? config->idle_timeout_ms
                                                              : config->body_timeout_ms));
}

static void stash(struct connection *connection, struct str bytes)
{
    struct error err;

    connection->input.max = SCRATCH_SIZE + READ_AHEAD_MAX;
    if (!buf_append(&connection->input, bytes, &err))
        connection_close(connection);
}

static void take(struct connection *connection, struct str bytes)
{
    while (bytes.len > 0 && is_reading(connection)) {
        size_t used = feed(connection, bytes);

        bytes = (struct str){bytes.ptr + used, bytes.len - used};
    }
    if (is_reading(connection))
        expect_bytes(connection);
    else if (bytes.len > 0 && connection->state != CONNECTION_CLOSED &&
             connection->state != CONNECTION_LINGERING)
        stash(connection, bytes);
}

/* Goes on with what was read before, now that there is somebody to read it. */
void connection_resume(struct connection *connection)
{
    struct buf pending = connection->input;

    if (!is_reading(connection))
        return;
    connection->input = (struct buf){0};
    take(connection, buf_str(&pending));
    buf_finish(&pending);
}

void connection_next(struct connection *connection, bool keep_alive, bool may_send_more)
{
    if (keep_alive && !connection->server->is_stopping) {
        connection->state = CONNECTION_IDLE;
        return;
    }
    if (!transport_shut(&connection->transport) || !may_send_more) {
        connection_close(connection);
        return;
    }
    buf_finish(&connection->input);
    connection->state = CONNECTION_LINGERING;
    connection_watch(connection, LOOP_READ);
    connection_deadline(connection, time_boot_ms() + LINGER_MS);
}

static void step_done(struct connection *connection, bool has_passed)
{
    struct exchange *exchange = connection->exchange;
    struct error err;

    if (exchange->step == STEP_HANDLE) {
        handled(connection, has_passed);
    } else if (exchange->has_failed) {
        exchange->keep_alive = false;
        respond(connection);
    } else if (exchange->step == STEP_AUTHORIZE) {
        begin_body(connection);
    } else {
        connection->state = CONNECTION_BODY;
        if (!exchange_count_body(exchange, &err))
            refuse(connection, &err);
    }
    connection_resume(connection);
}

static void on_job_done(void *arg)
{
    struct connection *connection = arg;

    connection->is_on_pool = false;
    /* Also when its client has left: what it had the turn for may still be there. */
    bool has_passed = pass_turn(connection);

    connection->exchange->turn_of[0] = '\0';
    if (connection->state != CONNECTION_CLOSED)
        step_done(connection, has_passed);
    connection_reap(connection);
}

static void job(void *arg)
{
    struct connection *connection = arg;

    exchange_run(connection->exchange);
    loop_post(connection->server->config.loop, on_job_done, connection);
}

/* The client has nothing to say while it waits; what it says is kept, and its leaving seen. */
static void read_ahead(struct connection *connection, struct str bytes)
{
    stash(connection, bytes);
    connection_watch_ahead(connection, connection->watched & LOOP_WRITE);
    if (connection->state == CONNECTION_STREAMING)
        stream_heard(connection);
}

static void drop_late(struct connection *connection)
{
    struct http_server *server = connection->server;

    if (transport_drop(&connection->transport, server->scratch, SCRATCH_SIZE) == TRANSPORT_OVER)
        connection_close(connection);
}

static void take_in(struct connection *connection, struct str bytes)
{
    if (is_reading(connection)) {
        connection_watch(connection, LOOP_READ);
        take(connection, bytes);
    } else {
        read_ahead(connection, bytes);
    }
}

static void read_some(struct connection *connection)
{
    char *scratch = connection->server->scratch;
    size_t len;

    switch (transport_read(&connection->transport, scratch, room_for_input(connection), &len)) {
    case TRANSPORT_MOVED: take_in(connection, (struct str){scratch, len}); break;
    case TRANSPORT_BLOCKED_READ: break;
    case TRANSPORT_BLOCKED_WRITE:
        /* TLS has to answer something of its own before it reads on. */
        connection_watch(connection, connection->watched | LOOP_WRITE);
        break;
    case TRANSPORT_IN_CLEAR:
    case TRANSPORT_OVER: connection_close(connection); break;
    }
}

/* Somebody typed http:// where https:// belongs. */
static void answer_in_clear(struct connection *connection)
{
    static char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
                           "Content-Length: 54\r\nConnection: close\r\n\r\n"
                           "This port speaks TLS: use https:// instead of http://\n";
    struct iovec part = {answer, sizeof answer - 1};
    size_t sent;

    if (transport_write(&connection->transport, &part, 1, &sent) == TRANSPORT_MOVED)
        connection_next(connection, false, true);
    else
        connection_close(connection);
}

static void shake(struct connection *connection)
{
    switch (transport_handshake(&connection->transport)) {
    case TRANSPORT_MOVED:
        connection->state = CONNECTION_IDLE;
        expect_bytes(connection);
        break;
    case TRANSPORT_BLOCKED_READ: connection_watch(connection, LOOP_READ); break;
    case TRANSPORT_BLOCKED_WRITE: connection_watch(connection, LOOP_WRITE); break;
    case TRANSPORT_IN_CLEAR: answer_in_clear(connection); break;
    case TRANSPORT_OVER: connection_close(connection); break;
    }
}

static void on_ready(void *arg, unsigned events)
{
    struct connection *connection = arg;
    enum connection_state state = connection->state;

    if (state == CONNECTION_SHAKING) {
        shake(connection);
    } else if (state == CONNECTION_LINGERING) {
        drop_late(connection);
    } else if (state == CONNECTION_WRITING && events & (LOOP_WRITE | LOOP_CLOSED)) {
        flush(connection);
        connection_resume(connection);
    } else if (state == CONNECTION_STREAMING && events & LOOP_WRITE) {
        stream_pump(connection);
        connection_resume(connection);
    } else if (state == CONNECTION_WEBSOCKET) {
        websocket_line_ready(connection, events);
    } else if (state == CONNECTION_BUSY || state == CONNECTION_WRITING) {
        connection_watch(connection, connection->watched & ~(unsigned)LOOP_READ);
        if (events & LOOP_CLOSED)
            connection_close(connection);
    } else {
        read_some(connection);
    }
    connection_reap(connection);
}

static void on_wake(struct waiter *waiter)
{
    struct connection *connection =
        (struct connection *)((char *)waiter - offsetof(struct connection, waiter));

    if (connection->state == CONNECTION_PARKED)
        run_again(connection, false, waiter->turn.comes_last);
    else if (connection->state == CONNECTION_STREAMING)
        stream_wake(connection);
    else if (connection->state == CONNECTION_WEBSOCKET)
        websocket_line_wake(connection);
    connection_resume(connection);
    connection_reap(connection);
}

static void on_timer(void *arg);

static void arm(struct connection *connection)
{
    int64_t delay = connection->deadline_ms - time_boot_ms();

    connection->armed_ms = connection->deadline_ms;
    connection->timer =
        loop_after(connection->server->config.loop, delay > 1 ? delay : 1, on_timer, connection);
}

static void time_over(struct connection *connection)
{
    if (connection->state == CONNECTION_PARKED)
        run_again(connection, true, false);
    else if (connection->state == CONNECTION_STREAMING)
        stream_time_over(connection);
    else if (connection->state == CONNECTION_WEBSOCKET)
        websocket_line_time_over(connection);
    else
        connection_close(connection);
    connection_resume(connection);
}

static void on_timer(void *arg)
{
    struct connection *connection = arg;

    connection->timer = NULL;
    if (connection->deadline_ms == 0)
        return;
    if (connection->deadline_ms > time_boot_ms())
        arm(connection);
    else
        time_over(connection);
    connection_reap(connection);
}

/* Moving a deadline back is the common case and costs nothing: the timer looks again. */
void connection_deadline(struct connection *connection, int64_t at_ms)
{
    if (connection->state == CONNECTION_CLOSED)
        return;
    connection->deadline_ms = at_ms;
    if (at_ms == 0 || (connection->timer && connection->armed_ms <= at_ms))
        return;
    loop_cancel(TAKE(connection->timer));
    arm(connection);
}

void connection_watch(struct connection *connection, unsigned events)
{
    struct error err;

    if (connection->state == CONNECTION_CLOSED || connection->watched == events)
        return;
    connection->watched = events;
    if (!loop_change(connection->source, events, &err))
        connection_close(connection);
}

void connection_watch_ahead(struct connection *connection, unsigned events)
{
    connection_watch(connection, events | (room_for_input(connection) > 0 ? LOOP_READ : 0U));
}

void connection_open(struct http_server *server, const struct arrival *arrival)
{
    struct connection *connection = alloc(sizeof *connection);
    struct error err;

    *connection = (struct connection){
        .server = server,
        .next = server->connections,
        .waiter.wake = on_wake,
        .transport = {.fd = arrival->fd, .tls = arrival->tls},
        .address = arrival->address,
        .state = arrival->tls ? CONNECTION_SHAKING : CONNECTION_IDLE,
        .watched = LOOP_READ,
        .over_unix = arrival->over_unix,
    };
    if (!loop_add(server->config.loop, arrival->fd, LOOP_READ, on_ready, connection,
                  &connection->source, &err)) {
        close(arrival->fd);
        free(connection);
        return;
    }
    if (server->connections)
        server->connections->previous = connection;
    server->connections = connection;
    server->n_connections++;
    if (arrival->tls)
        connection_deadline(connection, time_boot_ms() + server->config.head_timeout_ms);
    else
        expect_bytes(connection);
}

void connection_close(struct connection *connection)
{
    enum connection_state state = connection->state;

    if (state == CONNECTION_CLOSED)
        return;
    if (state == CONNECTION_IDLE)
        transport_end(&connection->transport);
    connection->is_unanswered = state == CONNECTION_BUSY || state == CONNECTION_PARKED;
    connection->state = CONNECTION_CLOSED;
    connection->deadline_ms = 0;
    topics_leave(&connection->server->topics, &connection->waiter);
    loop_cancel(TAKE(connection->timer));
    loop_remove(TAKE(connection->source));
    transport_close(&connection->transport);
}

void connection_destroy(struct connection *connection)
{
    struct http_server *server = connection->server;

    connection_close(connection);
    if (connection->exchange && connection->is_unanswered)
        exchange_report(connection->exchange, error_http_status(ERR_CANCELLED));
    if (connection->exchange)
        exchange_release(connection->exchange);
    stream_destroy(connection->stream);
    websocket_line_destroy(connection->websocket);
    buf_finish(&connection->input);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        server->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    server->n_connections--;
    free(connection);
}

void connection_reap(struct connection *connection)
{
    struct http_server *server = connection->server;

    if (connection->state != CONNECTION_CLOSED || connection->is_on_pool)
        return;
    connection_destroy(connection);
    server_connection_gone(server);
}

void connection_stop(struct connection *connection)
{
    switch (connection->state) {
    case CONNECTION_SHAKING:
    case CONNECTION_IDLE:
    case CONNECTION_HEAD:
    case CONNECTION_LINGERING: connection_close(connection); break;
    case CONNECTION_PARKED: run_again(connection, true, false); break;
    case CONNECTION_STREAMING: stream_stop(connection); break;
    case CONNECTION_WEBSOCKET: websocket_line_stop(connection); break;
    case CONNECTION_BODY:
    case CONNECTION_BUSY:
    case CONNECTION_WRITING:
    case CONNECTION_CLOSED: break;
    }
    connection_reap(connection);
}
