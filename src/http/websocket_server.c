#include "http/websocket_server.h"

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "http/connection.h"
#include "http/server_state.h"

enum {
    INCOMING_PAUSE = 128 * 1024, /* waits to be taken: nothing more is read */
    INCOMING_MAX = 4 * 1024 * 1024,
    OUTPUT_MAX = 4 * 1024 * 1024,
};

struct websocket_line {
    struct response_websocket source;
    struct websocket *frames;
    struct output output; /* head: of the answer, then nothing; body: frames on their way */
    struct websocket_queue incoming;
    int64_t pinged_ms, heard_ms; /* boot time; heard: the last pong, or the end of our own pause */
    bool wants_pull, is_woken, is_held, is_paused;
    bool is_deserted; /* the client has gone; what it said before is still taken */
    /* Held by the pool thread while a job is out. */
    struct websocket_queue taking;
    struct websocket_out out;
    bool may_pull, has_more, has_held, has_failed;
};

static void on_message(void *arg, enum websocket_kind kind, struct str bytes)
{
    struct websocket_line *line = arg;
    struct error err;

    /* One read completes at most one long message on top of what pauses the reading. */
    if (!websocket_queue_put(&line->incoming, kind, bytes, &err))
        abort();
}

static void on_pong(void *arg)
{
    ((struct websocket_line *)arg)->heard_ms = time_boot_ms();
}

void websocket_line_destroy(struct websocket_line *line)
{
    if (!line)
        return;
    if (line->source.release)
        line->source.release(line->source.state);
    websocket_destroy(line->frames);
    output_reset(&line->output, 0);
    buf_finish(&line->incoming.bytes);
    buf_finish(&line->taking.bytes);
    buf_finish(&line->out.messages.bytes);
    free(line);
}

static bool take_all(struct websocket_line *line, struct error *err)
{
    enum websocket_kind kind;
    struct str bytes;

    line->has_held = false;
    while (line->out.close_code == 0 && websocket_queue_peek(&line->taking, &kind, &bytes)) {
        if (!line->source.take(line->source.state, kind, bytes, &line->has_held, &line->out, err))
            return false;
        if (line->has_held)
            return true;
        websocket_queue_skip(&line->taking);
    }
    return true;
}

static void on_job_done(void *arg);

static void job(void *arg)
{
    struct connection *connection = arg;
    struct websocket_line *line = connection->websocket;
    struct error err;

    line->has_more = false;
    line->has_failed = !take_all(line, &err) ||
                       (line->may_pull && line->out.close_code == 0 &&
                        !line->source.pull(line->source.state, &line->out, &line->has_more, &err));
    if (line->has_failed)
        log_debug("websocket broken off", LOG_ERR(&err));
    loop_post(connection->server->config.loop, on_job_done, connection);
}

static bool has_taking(const struct websocket_line *line)
{
    return !websocket_queue_is_empty(&line->taking) || !websocket_queue_is_empty(&line->incoming);
}

/* Gives the pool what there is to do, when there is something. */
static void give_job(struct connection *connection)
{
    struct websocket_line *line = connection->websocket;
    bool may_take = has_taking(line) && !line->is_held;

    line->may_pull = line->wants_pull && output_left(&line->output) == 0;
    if (!may_take && !line->may_pull)
        return;
    if (websocket_queue_is_empty(&line->taking)) {
        struct websocket_queue empty = line->taking;

        websocket_queue_reset(&empty);
        line->taking = line->incoming;
        line->incoming = empty;
        line->incoming.bytes.max = INCOMING_MAX;
    }
    if (line->may_pull)
        line->wants_pull = false;
    line->is_woken = false;
    connection->is_on_pool = true;
    pool_give(connection->server->config.pool, job, connection);
}

/* The frames that were made, behind those that are on their way. */
static bool collect_frames(struct websocket_line *line)
{
    struct buf *made = websocket_output(line->frames);
    struct error err;

    if (output_left(&line->output) == 0)
        output_reset(&line->output, WEBSOCKET_FRAME_MAX);
    line->output.body.max = OUTPUT_MAX;
    bool fits = buf_append(&line->output.body, buf_str(made), &err);
    buf_consume(made, made->len);
    return fits && !websocket_is_choked(line->frames);
}

static int64_t next_look(const struct http_config *config, const struct websocket_line *line)
{
    int64_t ping = line->pinged_ms + config->websocket_ping_ms;
    int64_t cut = line->heard_ms + config->websocket_silence_ms;

    return ping < cut || line->is_paused ? ping : cut;
}

/* Not reading is our doing: the pongs that wait unread meanwhile are not missing. */
static void watch(struct connection *connection)
{
    struct websocket_line *line = connection->websocket;
    bool is_ending = websocket_is_ending(line->frames);
    bool is_full = !is_ending && line->incoming.bytes.len >= INCOMING_PAUSE;
    bool is_reading = !is_full && !is_ending;

    if (line->is_paused && !is_full)
        line->heard_ms = time_boot_ms();
    line->is_paused = is_full;
    connection_watch(connection, (is_reading ? LOOP_READ : 0U) |
                                     (output_left(&line->output) > 0 ? LOOP_WRITE : 0U));
    connection_deadline(connection, next_look(&connection->server->config, line));
}

static bool has_last_words(const struct websocket_line *line)
{
    return has_taking(line) && !line->is_held && !line->has_failed;
}

/* What a client said before it said the end still counts. */
static bool is_over(const struct connection *connection)
{
    const struct websocket_line *line = connection->websocket;

    return websocket_is_ending(line->frames) && !connection->is_on_pool &&
           output_left(&line->output) == 0 &&
           (websocket_peer_code(line->frames) == 0 || !has_last_words(line));
}

/* Nothing is to be sent any more, and its hang-up is not to be seen again and again. */
static void desert(struct connection *connection)
{
    struct websocket_line *line = connection->websocket;

    line->is_deserted = true;
    loop_remove(TAKE(connection->source));
    connection_deadline(connection, 0);
}

static void take_last_words(struct connection *connection)
{
    struct websocket_line *line = connection->websocket;

    line->wants_pull = false;
    if (connection->is_on_pool)
        return;
    if (has_last_words(line))
        give_job(connection);
    else
        connection_close(connection);
}

/* Sends what there is, then sees to what follows. Every entry point ends here. */
static void pump(struct connection *connection)
{
    struct websocket_line *line = connection->websocket;

    if (connection->state == CONNECTION_CLOSED)
        return;
    if (line->is_deserted) {
        take_last_words(connection);
        return;
    }
    if (!collect_frames(line)) {
        connection_close(connection);
        return;
    }
    if (output_send(&line->output, &connection->transport) == OUTPUT_BROKEN) {
        desert(connection);
        take_last_words(connection);
        return;
    }
    if (is_over(connection)) {
        topics_leave(&connection->server->topics, &connection->waiter);
        websocket_line_destroy(TAKE(connection->websocket));
        connection_next(connection, false, true);
        return;
    }
    if (websocket_is_ending(line->frames))
        line->wants_pull = false;
    if (!connection->is_on_pool)
        give_job(connection);
    watch(connection);
}

static bool send_all(struct websocket_line *line)
{
    enum websocket_kind kind;
    struct str bytes;
    struct error err;

    while (websocket_queue_peek(&line->out.messages, &kind, &bytes)) {
        if (!websocket_send(line->frames, kind, bytes, &err))
            return websocket_is_ending(line->frames);
        websocket_queue_skip(&line->out.messages);
    }
    return true;
}

static void say_out(struct websocket_line *line)
{
    if (!send_all(line) || line->has_failed)
        websocket_close(line->frames, WEBSOCKET_FAILED, "internal error");
    else if (line->out.close_code != 0)
        websocket_close(line->frames, (enum websocket_close)line->out.close_code, line->out.reason);
    websocket_queue_reset(&line->out.messages);
}

static void on_job_done(void *arg)
{
    struct connection *connection = arg;
    struct websocket_line *line = connection->websocket;

    connection->is_on_pool = false;
    if (connection->state != CONNECTION_CLOSED) {
        /* A wake-up that came meanwhile is for what was held, too. */
        line->is_held = line->has_held && !line->is_woken;
        line->wants_pull = line->wants_pull || line->has_more;
        say_out(line);
        pump(connection);
    }
    connection_reap(connection);
}

static void read_some(struct connection *connection)
{
    char *scratch = connection->server->scratch;
    size_t len;

    switch (transport_read(&connection->transport, scratch, SCRATCH_SIZE, &len)) {
    case TRANSPORT_MOVED:
        websocket_feed(connection->websocket->frames, (struct str){scratch, len});
        break;
    case TRANSPORT_BLOCKED_READ:
    case TRANSPORT_BLOCKED_WRITE: break;
    case TRANSPORT_IN_CLEAR:
    case TRANSPORT_OVER: desert(connection); break;
    }
}

void websocket_line_ready(struct connection *connection, unsigned events)
{
    bool is_reading = connection->watched & LOOP_READ;

    if (is_reading && events & (LOOP_READ | LOOP_CLOSED))
        read_some(connection);
    else if (events & LOOP_CLOSED)
        desert(connection);
    pump(connection);
}

void websocket_line_wake(struct connection *connection)
{
    struct websocket_line *line = connection->websocket;

    line->wants_pull = line->is_woken = true;
    line->is_held = false;
    pump(connection);
}

void websocket_line_time_over(struct connection *connection)
{
    const struct http_config *config = &connection->server->config;
    struct websocket_line *line = connection->websocket;
    int64_t now = time_boot_ms();

    if (!line->is_paused && now >= line->heard_ms + config->websocket_silence_ms) {
        connection_close(connection);
        return;
    }
    if (now >= line->pinged_ms + config->websocket_ping_ms) {
        line->pinged_ms = now;
        websocket_ping(line->frames);
    }
    pump(connection);
}

void websocket_line_stop(struct connection *connection)
{
    websocket_close(connection->websocket->frames, WEBSOCKET_GOING_AWAY, "the server stops");
    pump(connection);
}

void websocket_line_begin(struct connection *connection)
{
    static const struct websocket_events events = {.message = on_message, .pong = on_pong};
    struct http_server *server = connection->server;
    struct response *res = &connection->exchange->response;
    struct websocket_line *line = alloc(sizeof *line);
    struct buf early = connection->input;

    *line = (struct websocket_line){
        .source = res->websocket,
        .frames = websocket_create(WEBSOCKET_SERVER, &events, line, OUTPUT_MAX),
        .output.head = res->output.head,
        .incoming.bytes.max = INCOMING_MAX,
        .pinged_ms = time_boot_ms(),
        .heard_ms = time_boot_ms(),
        .wants_pull = true,
    };
    line->source.topic = line->source.protocol = NULL;
    res->output.head = (struct buf){0};
    res->kind = RESPONSE_UNSET;
    topics_join(&server->topics, &connection->waiter, res->topic);
    exchange_release(TAKE(connection->exchange));

    connection->websocket = line;
    connection->state = CONNECTION_WEBSOCKET;
    connection->input = (struct buf){0};
    websocket_feed(line->frames, buf_str(&early));
    buf_finish(&early);
    if (server->is_stopping)
        websocket_line_stop(connection);
    else
        pump(connection);
}
