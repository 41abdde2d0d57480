/* `helmr workspace forward`: a port of this machine's loopback that leads into a sandbox. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/tunnel.h"

enum { BACKLOG = 64, CONNECTIONS_MAX = 64, REFUSAL_MAX = 64 * 1024 };

struct forward {
    struct api *api;
    const char *path;
    _Atomic int n_connections;
};

struct visitor {
    struct forward *forward;
    int fd;
};

static bool read_number(struct str text, unsigned min, uint16_t *port)
{
    unsigned value = 0;

    for (size_t i = 0; i < text.len && value <= UINT16_MAX; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    *port = (uint16_t)value;
    return text.len > 0 && value >= min && value <= UINT16_MAX;
}

/* "8080:3000", or "3000" for the same number on both sides. */
static bool read_ports(const char *text, uint16_t *local, uint16_t *port, struct error *err)
{
    struct str rest = str_of(text), first;

    str_split(&rest, ':', &first);
    if (read_number(first, 0, local) && read_number(rest.ptr ? rest : first, 1, port))
        return true;
    return error_set(err, ERR_INVALID, "%s is not LOCAL:PORT, such as 8080:3000", text);
}

/* Loopback only: whoever may reach this machine's network may not reach the sandbox by it. */
static bool listen_on(uint16_t *port, int *fd, struct error *err)
{
    struct sockaddr_in name = {
        .sin_family = AF_INET,
        .sin_port = htons(*port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    AUTO_FD int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof name;
    int on = 1;

    if (made < 0 || setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(made, (struct sockaddr *)&name, sizeof name) < 0 || listen(made, BACKLOG) < 0 ||
        getsockname(made, (struct sockaddr *)&name, &len) < 0)
        return error_errno(err, "listening on 127.0.0.1:%u", *port);
    *port = ntohs(name.sin_port);
    *fd = take_fd(&made);
    return true;
}

static void *serve(void *arg)
{
    AUTO_FREE struct visitor *visitor = arg;
    struct forward *forward = visitor->forward;
    struct http_answer refusal = {.body.max = REFUSAL_MAX};
    struct error err;

    if (!tunnel_run(forward->api->client, forward->path, visitor->fd, &refusal, &err)) {
        if (refusal.status != 0)
            api_refused(forward->api, refusal.status, buf_str(&refusal.body), &err);
        fprintf(stderr, "helmr: a connection was refused: %s\n", err.text);
    }
    buf_finish(&refusal.body);
    atomic_fetch_sub(&forward->n_connections, 1);
    return NULL;
}

static void welcome(struct forward *forward, int fd)
{
    struct visitor *visitor = alloc(sizeof *visitor);
    pthread_t thread;

    *visitor = (struct visitor){forward, fd};
    if (atomic_fetch_add(&forward->n_connections, 1) < CONNECTIONS_MAX &&
        pthread_create(&thread, NULL, serve, visitor) == 0) {
        pthread_detach(thread);
        return;
    }
    atomic_fetch_sub(&forward->n_connections, 1);
    fprintf(stderr, "helmr: more than %d connections at a time\n", CONNECTIONS_MAX);
    close(fd);
    free(visitor);
}

static bool accept_all(struct forward *forward, int listener, struct error *err)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
            welcome(forward, fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            return error_errno(err, "accepting connections");
    }
}

bool workspace_forward_command(const struct invocation *invocation, int *exit_code UNUSED,
                               struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct forward forward = {.api = &api};
    AUTO_FD int listener = -1;
    uint16_t local = 0, port = 0;

    if (!read_ports(invocation->args[1], &local, &port, err) ||
        !api_open(invocation, API_ANY, NULL, &api, err) || !listen_on(&local, &listener, err))
        return false;
    forward.path =
        api_path(&api, "/workspaces/%s/ports/%u", api_part(&api, invocation->args[0]), port);
    fprintf(stderr, "forwarding 127.0.0.1:%u to port %u of %s; Ctrl-C ends it\n", local, port,
            invocation->args[0]);
    return accept_all(&forward, listener, err);
}
