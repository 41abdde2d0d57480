#include "cli/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/time.h"

enum {
    OPEN_MS = 30000,
    LOOK_MS = 5000,
    SILENCE_MS = 45000,
    PIECE = 32 * 1024,
    WAITING_MAX = 256 * 1024, /* beyond it a side is held back */
    PENDING_MAX = 4 * 1024 * 1024,
};

static const struct str end_text = STR("{\"type\":\"end\"}");

struct tunnel {
    int fd;
    struct websocket_client *line;
    struct buf pending;   /* for the socket */
    bool has_read_all;    /* the socket's end has been told */
    bool has_heard_all;   /* the other end's end is known, */
    bool has_written_all; /* and so it is to the socket */
    bool is_broken;
};

static void on_message(void *arg, enum websocket_kind kind, struct str bytes)
{
    struct tunnel *tunnel = arg;
    struct error err;

    if (kind == WEBSOCKET_TEXT)
        tunnel->has_heard_all = true;
    else if (!buf_append(&tunnel->pending, bytes, &err))
        tunnel->is_broken = true;
    if (tunnel->pending.len > WAITING_MAX)
        websocket_client_hold(tunnel->line, true);
}

static void write_some(struct tunnel *tunnel)
{
    while (tunnel->pending.len > 0 && !tunnel->is_broken) {
        ssize_t put = send(tunnel->fd, tunnel->pending.bytes, tunnel->pending.len,
                           MSG_DONTWAIT | MSG_NOSIGNAL);

        if (put < 0 && errno == EAGAIN)
            return;
        if (put < 0 && errno != EINTR)
            tunnel->is_broken = true;
        if (put > 0)
            buf_consume(&tunnel->pending, (size_t)put);
    }
    websocket_client_hold(tunnel->line, false);
    if (tunnel->has_heard_all && !tunnel->has_written_all) {
        tunnel->has_written_all = true;
        shutdown(tunnel->fd, SHUT_WR);
    }
}

static void read_some(struct tunnel *tunnel)
{
    char bytes[PIECE];
    struct error err;
    ssize_t got = recv(tunnel->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    bool is_end = got == 0;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    tunnel->has_read_all = is_end;
    tunnel->is_broken =
        got < 0 ||
        !websocket_client_send(tunnel->line, is_end ? WEBSOCKET_TEXT : WEBSOCKET_BINARY,
                               is_end ? end_text : (struct str){bytes, (size_t)got}, &err);
}

static bool may_read(const struct tunnel *tunnel)
{
    return !tunnel->has_read_all && websocket_client_unsent(tunnel->line) < WAITING_MAX;
}

static void wait_for_either(struct tunnel *tunnel)
{
    bool reads = may_read(tunnel), writes = tunnel->pending.len > 0;
    struct pollfd both[] = {
        {.fd = reads || writes ? tunnel->fd : -1,
         .events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0))                       },
        {.fd = websocket_client_fd(tunnel->line), .events = websocket_client_wants(tunnel->line)},
    };

    (void)poll(both, COUNT_OF(both), websocket_client_has_more(tunnel->line) ? 0 : LOOK_MS);
    if (reads && both[0].revents)
        read_some(tunnel);
}

static bool is_over(const struct tunnel *tunnel)
{
    bool is_done = tunnel->has_read_all && tunnel->has_written_all;

    return tunnel->is_broken || (is_done && websocket_client_unsent(tunnel->line) == 0) ||
           time_boot_ms() - websocket_client_heard_ms(tunnel->line) > SILENCE_MS;
}

/* The last bytes came before the end was said: they are still for the socket. */
static void drain(struct tunnel *tunnel)
{
    int flags = fcntl(tunnel->fd, F_GETFL);
    struct timeval patience = {.tv_sec = 10};

    if (flags < 0 || fcntl(tunnel->fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ||
        setsockopt(tunnel->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
        return;
    while (tunnel->pending.len > 0) {
        ssize_t put = send(tunnel->fd, tunnel->pending.bytes, tunnel->pending.len, MSG_NOSIGNAL);

        if (put <= 0)
            return;
        buf_consume(&tunnel->pending, (size_t)put);
    }
}

static void pump(struct tunnel *tunnel)
{
    struct error err;

    while (!is_over(tunnel)) {
        wait_for_either(tunnel);
        if (!websocket_client_turn(tunnel->line, &err)) {
            drain(tunnel);
            return;
        }
        write_some(tunnel);
    }
    websocket_client_close(tunnel->line, WEBSOCKET_NORMAL, "");
    (void)!websocket_client_turn(tunnel->line, &err);
}

bool tunnel_run(const struct http_client *client, const char *path, int fd,
                struct http_answer *refusal, struct error *err)
{
    static const struct websocket_events events = {.message = on_message};
    AUTO_FD int owned = fd;
    struct tunnel tunnel = {.fd = owned, .pending.max = PENDING_MAX};
    struct websocket_dial dial = {.path = path, .protocol = "helmr.port.v1", .timeout_ms = OPEN_MS};

    if (!websocket_client_open(client, &dial, &events, &tunnel, &tunnel.line, refusal, err))
        return false;
    pump(&tunnel);
    websocket_client_destroy(tunnel.line);
    buf_finish(&tunnel.pending);
    return true;
}
