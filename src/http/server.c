#include "http/server.h"

#include <fcntl.h>

#include "base/own.h"
#include "http/connection.h"
#include "http/server_state.h"

enum { KIB = 1024, MIB = 1024 * KIB, MINUTE_MS = 60 * 1000 };

static int64_t or_default(int64_t value, int64_t fallback)
{
    return value > 0 ? value : fallback;
}

static void fill_defaults(struct http_config *config)
{
    config->head_timeout_ms = or_default(config->head_timeout_ms, 10000);
    config->body_timeout_ms = or_default(config->body_timeout_ms, 30000);
    config->idle_timeout_ms = or_default(config->idle_timeout_ms, 75000);
    config->write_timeout_ms = or_default(config->write_timeout_ms, 30000);
    config->stream_quiet_ms = or_default(config->stream_quiet_ms, 15000);
    config->stream_end_ms = or_default(config->stream_end_ms, (int64_t)30 * MINUTE_MS);
    config->websocket_ping_ms = or_default(config->websocket_ping_ms, 15000);
    config->websocket_silence_ms = or_default(config->websocket_silence_ms, 45000);
    if (config->json_max == 0)
        config->json_max = MIB;
    if (config->connections_max == 0)
        config->connections_max = 16384;
    if (config->body_budget == 0)
        config->body_budget = (size_t)256 * MIB;
}

bool http_server_create(const struct http_config *config, struct http_server **server,
                        struct error *err)
{
    AUTO_FD int reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (reserve < 0)
        return error_errno(err, "open /dev/null");

    struct http_server *made = alloc(sizeof *made);

    memset(made, 0, sizeof *made);
    made->config = *config;
    fill_defaults(&made->config);
    made->reserve_fd = take_fd(&reserve);
    topics_init(&made->topics, config->loop);
    *server = made;
    return true;
}

bool http_server_listen_tls(struct http_server *server, const char *address, struct tls *tls,
                            struct error *err)
{
    if (server->n_listeners == LISTENERS_MAX)
        return error_set(err, ERR_INVALID, "at most %d addresses", LISTENERS_MAX);
    if (!listener_open(&server->listeners[server->n_listeners], server, address, err))
        return false;
    server->listeners[server->n_listeners++].tls = tls;
    return true;
}

bool http_server_listen(struct http_server *server, const char *address, struct error *err)
{
    return http_server_listen_tls(server, address, NULL, err);
}

int http_server_port(const struct http_server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        if (server->listeners[i].port > 0)
            return server->listeners[i].port;
    return 0;
}

void http_server_wake_all(struct http_server *server)
{
    topics_wake_all(&server->topics);
}

void http_server_wake(struct http_server *server, const char *topic)
{
    topics_wake(&server->topics, topic);
}

static void close_listeners(struct http_server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        listener_close(&server->listeners[i]);
    server->n_listeners = 0;
}

static void tell_stopped(struct http_server *server)
{
    loop_fire *stopped = TAKE(server->stopped);

    loop_cancel(TAKE(server->grace));
    if (stopped)
        stopped(server->stopped_arg);
}

void server_connection_gone(struct http_server *server)
{
    if (server->is_stopping && server->n_connections == 0)
        tell_stopped(server);
}

/* What a pool thread still holds stays until http_server_destroy. */
static void on_grace_over(void *arg)
{
    struct http_server *server = arg;
    struct connection *next;

    server->grace = NULL;
    for (struct connection *connection = server->connections; connection; connection = next) {
        next = connection->next;
        connection_close(connection);
        connection_reap(connection);
    }
    tell_stopped(server);
}

static void check_stopped(void *arg)
{
    server_connection_gone(arg);
}

void http_server_shutdown(struct http_server *server, int64_t grace_ms, loop_fire *done, void *arg)
{
    struct connection *next;

    close_listeners(server);
    server->grace = loop_after(server->config.loop, grace_ms, on_grace_over, server);
    server->is_stopping = true;
    for (struct connection *connection = server->connections; connection; connection = next) {
        next = connection->next;
        connection_stop(connection);
    }

    /* Only from here on, and by a post: `done` is never called before this returns. */
    server->stopped = done;
    server->stopped_arg = arg;
    loop_post(server->config.loop, check_stopped, server);
}

void http_server_destroy(struct http_server *server)
{
    if (!server)
        return;
    close_listeners(server);
    loop_cancel(server->grace);
    while (server->connections)
        connection_destroy(server->connections);
    while (server->spare) {
        struct exchange *exchange = server->spare;

        server->spare = exchange->next_spare;
        exchange_destroy(exchange);
    }
    topics_finish(&server->topics);
    if (server->reserve_fd >= 0)
        close(server->reserve_fd);
    free(server);
}
