#include "http/stream.h"

#include <stdio.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "http/connection.h"
#include "http/server_state.h"

enum { PIECE_MAX = 4 * 1024 * 1024 };

struct stream {
    struct response_source source;
    struct output output;
    struct buf next;   /* the piece that was pulled last, until it is its turn */
    uint64_t left;     /* of a download with a known length */
    int64_t end_ms;    /* boot time; 0: none */
    int64_t quiet_ms;  /* boot time of the last byte sent */
    size_t blocked;    /* what was left to send when the socket last took no more */
    struct buf taking; /* what the client said, for a source that takes it */
    bool is_chunked, keep_alive;
    bool is_woken, is_over;
    bool may_pull;    /* the job that is out pulls; else it only takes */
    bool is_held;     /* the source takes nothing before it is woken */
    bool is_download; /* waits for no topic: it is pulled ahead */
    bool has_next;
    bool has_more, has_ended, has_failed; /* what the last pull said */
};

static const struct str after_chunk = {"\r\n", 2};
static const struct str last_after_chunk = {"\r\n0\r\n\r\n", 7};
static const struct str last = {"0\r\n\r\n", 5};

void stream_destroy(struct stream *stream)
{
    if (!stream)
        return;
    if (stream->source.release)
        stream->source.release(stream->source.state);
    output_reset(&stream->output, 0);
    buf_finish(&stream->next);
    buf_finish(&stream->taking);
    free(stream);
}

/* Works also while a piece is under way: its tail only grows. */
static void end(struct stream *stream)
{
    if (stream->is_chunked && !stream->is_over)
        stream->output.tail = stream->output.tail.len > 0 ? last_after_chunk : last;
    stream->is_over = true;
}

static void frame_chunk(struct stream *stream)
{
    size_t len = stream->output.body.len;
    char line[24];
    struct error err;

    stream->output.tail = (struct str){0};
    if (len > 0) {
        int line_len = snprintf(line, sizeof line, "%zx\r\n", len);

        stream->output.head.max = sizeof line;
        if (!buf_append(&stream->output.head, (struct str){line, (size_t)line_len}, &err))
            abort();
        stream->output.tail = after_chunk;
    }
}

/* A source that gives more or less than it said breaks the connection: that is how a client
 * sees it. */
static void keep_to_length(struct stream *stream)
{
    if (stream->output.body.len > stream->left) {
        stream->output.body.len = stream->left;
        stream->has_failed = true;
    }
    stream->left -= stream->output.body.len;
    if (stream->has_ended && stream->left > 0)
        stream->has_failed = true;
}

static void frame(struct stream *stream)
{
    if (stream->is_chunked)
        frame_chunk(stream);
    if (stream->source.length > 0)
        keep_to_length(stream);
    if (stream->has_ended || stream->is_over) {
        stream->is_over = false;
        end(stream);
    }
}

static void on_pulled(void *arg)
{
    struct connection *connection = arg;
    struct stream *stream = connection->stream;

    connection->is_on_pool = false;
    if (connection->state != CONNECTION_CLOSED) {
        /* A wake-up that came meanwhile is for what was held, too. */
        stream->is_held = stream->taking.len > 0 && !stream->is_woken;
        stream->has_next = stream->has_next || stream->may_pull;
        stream_pump(connection);
        connection_resume(connection);
    }
    connection_reap(connection);
}

static bool pull_now(struct stream *stream, struct error *err)
{
    stream->has_more = stream->has_ended = false;
    stream->next.max = PIECE_MAX;
    return stream->source.pull(stream->source.state, &stream->next, &stream->has_more,
                               &stream->has_ended, err);
}

static bool take_now(struct stream *stream, struct error *err)
{
    size_t taken = 0;

    if (stream->taking.len == 0)
        return true;
    if (!stream->source.take(stream->source.state, buf_str(&stream->taking), &taken, err))
        return false;
    buf_consume(&stream->taking, taken);
    return true;
}

static void pull_job(void *arg)
{
    struct connection *connection = arg;
    struct stream *stream = connection->stream;
    struct error err;

    bool ok = (!stream->may_pull || pull_now(stream, &err)) && take_now(stream, &err);
    if (!ok)
        log_debug("stream broken off", LOG_ERR(&err));
    /* One that only took says nothing of what was pulled before. */
    stream->has_failed = !ok || (!stream->may_pull && stream->has_failed);
    loop_post(connection->server->config.loop, on_pulled, connection);
}

static bool has_heard(const struct connection *connection)
{
    const struct stream *stream = connection->stream;

    return stream->source.take && !stream->is_held &&
           (stream->taking.len > 0 || connection->input.len > 0);
}

static void give_job(struct connection *connection, bool may_pull)
{
    struct stream *stream = connection->stream;

    if (stream->source.take && stream->taking.len == 0) {
        struct buf empty = stream->taking;

        stream->taking = connection->input;
        connection->input = empty;
    }
    stream->may_pull = may_pull;
    stream->blocked = may_pull ? 0 : stream->blocked;
    stream->is_woken = false;
    connection->is_on_pool = true;
    pool_give(connection->server->config.pool, pull_job, connection);
}

static void pull(struct connection *connection)
{
    give_job(connection, true);
    connection_watch_ahead(connection, 0);
    connection_deadline(connection, 0);
}

static void finish(struct connection *connection)
{
    bool keep_alive = connection->stream->keep_alive;

    topics_leave(&connection->server->topics, &connection->waiter);
    stream_destroy(TAKE(connection->stream));
    connection_next(connection, keep_alive, true);
}

static void wait_for_topic(struct connection *connection)
{
    const struct http_config *config = &connection->server->config;
    const struct stream *stream = connection->stream;
    int64_t at = stream->quiet_ms + config->stream_quiet_ms;

    if (!connection->waiter.topic) {
        connection_close(connection);
        return;
    }
    connection_watch_ahead(connection, 0);
    connection_deadline(connection, !stream->source.is_sse ? 0
                                    : at < stream->end_ms  ? at
                                                           : stream->end_ms);
}

/* Of a download the next piece is made while this one is sent; two buffers serve for all. */
static void place_next(struct connection *connection)
{
    struct stream *stream = connection->stream;
    struct buf empty = stream->output.body;

    stream->output.body = stream->next;
    stream->next = empty;
    stream->has_next = false;
    frame(stream);
    if (stream->is_download && stream->has_more && !stream->has_failed && !stream->is_over)
        give_job(connection, true);
    stream_pump(connection);
}

static void drained(struct connection *connection)
{
    struct stream *stream = connection->stream;

    if (stream->output.sent > 0)
        stream->quiet_ms = time_boot_ms();
    output_reset(&stream->output, stream->is_download ? PIECE_MAX : 0);
    if (connection->is_on_pool) {
        connection_watch_ahead(connection, 0);
        connection_deadline(connection, 0);
        return;
    }
    if (stream->has_next && !stream->is_over)
        place_next(connection);
    else if (stream->has_failed)
        connection_close(connection);
    else if (stream->is_over)
        finish(connection);
    else if (stream->has_more || stream->is_woken || has_heard(connection))
        pull(connection);
    else
        wait_for_topic(connection);
}

void stream_pump(struct connection *connection)
{
    const struct http_config *config = &connection->server->config;
    struct stream *stream = connection->stream;

    switch (output_send(&stream->output, &connection->transport)) {
    case OUTPUT_BROKEN: connection_close(connection); break;
    case OUTPUT_BLOCKED:
        /* One that only talks has no more time to read than others. */
        if (stream->blocked != output_left(&stream->output))
            connection_deadline(connection, time_boot_ms() + config->write_timeout_ms);
        stream->blocked = output_left(&stream->output);
        if (!connection->is_on_pool && has_heard(connection))
            give_job(connection, false);
        connection_watch_ahead(connection, LOOP_WRITE);
        break;
    case OUTPUT_DRAINED: drained(connection); break;
    }
}

void stream_heard(struct connection *connection)
{
    if (!connection->is_on_pool && has_heard(connection))
        stream_pump(connection);
}

/* The source moves here; everything that belonged to the request goes. */
void stream_begin(struct connection *connection)
{
    struct http_server *server = connection->server;
    struct exchange *exchange = connection->exchange;
    struct response *res = &exchange->response;
    struct stream *stream = alloc(sizeof *stream);
    int64_t now = time_boot_ms();

    *stream = (struct stream){
        .source = res->source,
        .output.head = res->output.head,
        .left = res->source.length,
        .end_ms = now + server->config.stream_end_ms,
        .quiet_ms = now,
        .is_chunked = response_is_chunked(res, exchange->call.request->is_old),
        .keep_alive = exchange->keep_alive && !res->source.writes_head,
        .is_download = !res->topic && !res->source.take,
        .has_more = true,
    };
    res->output.head = (struct buf){0};
    res->kind = RESPONSE_UNSET;
    if (res->topic)
        topics_join(&server->topics, &connection->waiter, res->topic);
    stream->source.topic = stream->source.content_type = NULL;
    exchange_release(TAKE(connection->exchange));

    connection->stream = stream;
    connection->state = CONNECTION_STREAMING;
    if (stream->source.take)
        transport_keep_alive(&connection->transport);
    if (server->is_stopping)
        end(stream);
    stream_pump(connection);
}

void stream_wake(struct connection *connection)
{
    connection->stream->is_woken = true;
    connection->stream->is_held = false;
    if (!connection->is_on_pool &&
        (output_left(&connection->stream->output) == 0 || has_heard(connection)))
        stream_pump(connection);
}

/* Either nothing was read from us for too long, or nothing was there to send. */
void stream_time_over(struct connection *connection)
{
    static const struct str comment = {": keep-alive\n\n", 14};
    struct stream *stream = connection->stream;
    struct error err;

    if (output_left(&stream->output) > 0) {
        connection_close(connection);
        return;
    }
    if (time_boot_ms() >= stream->end_ms) {
        end(stream);
    } else {
        stream->output.body.max = comment.len;
        if (!buf_append(&stream->output.body, comment, &err))
            abort();
        frame(stream);
    }
    stream_pump(connection);
}

void stream_stop(struct connection *connection)
{
    connection->stream->keep_alive = false;
    end(connection->stream);
    stream_pump(connection);
}
