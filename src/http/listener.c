#include "http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/own.h"
#include "http/connection.h"
#include "http/server_state.h"

enum { BACKLOG = 1024, ACCEPTS_PER_TURN = 64 };

/* Without a descriptor to spare the queue would stay readable for ever: take one connection
 * with the reserve and drop it. */
static void shed_one(struct listener *listener)
{
    struct http_server *server = listener->server;

    if (server->reserve_fd < 0)
        return;
    close(server->reserve_fd);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        close(fd);
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool accept_one(struct listener *listener)
{
    struct http_server *server = listener->server;
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    int fd = accept4(listener->fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        shed_one(listener);
        return false;
    }
    if (fd < 0)
        return errno == ECONNABORTED || errno == EINTR;
    if (server->n_connections >= server->config.connections_max) {
        close(fd);
        return true;
    }

    bool is_unix = listener->path[0] != '\0';
    int on = 1;

    if (!is_unix)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection_open(server, &(struct arrival){.fd = fd,
                                              .address = address_of(&peer),
                                              .tls = listener->tls,
                                              .over_unix = is_unix});
    return true;
}

static void on_ready(void *arg, unsigned events UNUSED)
{
    for (int i = 0; i < ACCEPTS_PER_TURN && accept_one(arg); i++)
        continue;
}

/* A socket file nobody listens on is left over from a process that died. */
static bool clear_stale(const struct sockaddr_un *name, struct error *err)
{
    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return error_errno(err, "socket");
    if (connect(fd, (const struct sockaddr *)name, sizeof *name) == 0 || errno == EAGAIN)
        return error_set(err, ERR_CONFLICT, "somebody else listens on %s", name->sun_path);
    if (errno == ECONNREFUSED && unlink(name->sun_path) < 0)
        return error_errno(err, "unlink %s", name->sun_path);
    return true;
}

static bool open_unix(struct listener *listener, const char *path, struct error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof name.sun_path)
        return error_set(err, ERR_INVALID, "the socket's path is over %zu bytes",
                         sizeof name.sun_path - 1);
    memcpy(name.sun_path, path, strlen(path));
    if (!clear_stale(&name, err))
        return false;

    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* The mode before bind becomes the file's: there is no moment when others may connect. */
    if (fd < 0 || fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) < 0 ||
        listen(fd, BACKLOG) < 0)
        return error_errno(err, "listen on %s", path);
    memcpy(listener->path, name.sun_path, sizeof listener->path);
    listener->fd = take_fd(&fd);
    return true;
}

static bool bind_one(const struct addrinfo *info, int *fd)
{
    AUTO_FD int opened = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;

    if (opened < 0 || setsockopt(opened, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(opened, info->ai_addr, info->ai_addrlen) < 0 || listen(opened, BACKLOG) < 0)
        return false;
    *fd = take_fd(&opened);
    return true;
}

static bool split_address(const char *address, char host[256], const char **port, struct error *err)
{
    const char *colon = strrchr(address, ':');

    if (!colon || colon - address >= 256)
        return error_set(err, ERR_INVALID, "%s is not host:port", address);

    struct str name = {address, (size_t)(colon - address)};

    if (name.len > 1 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']')
        name = (struct str){name.ptr + 1, name.len - 2};
    memcpy(host, name.ptr, name.len);
    host[name.len] = '\0';
    *port = colon + 1;
    return true;
}

static int port_of(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof name;

    if (getsockname(fd, (struct sockaddr *)&name, &len) < 0)
        return 0;
    if (name.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&name)->sin6_port);
    return ntohs(((struct sockaddr_in *)&name)->sin_port);
}

static bool open_tcp(struct listener *listener, const char *address, struct error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[256] = "";
    const char *port = "";

    if (!split_address(address, host, &port, err))
        return false;
    int result = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    if (result != 0)
        return error_set(err, ERR_INVALID, "%s: %s", address, gai_strerror(result));
    for (const struct addrinfo *info = found; info && listener->fd < 0; info = info->ai_next)
        if (!bind_one(info, &listener->fd))
            error_errno(err, "listen on %s", address);
    freeaddrinfo(found);
    if (listener->fd < 0)
        return false;
    listener->port = port_of(listener->fd);
    return true;
}

bool listener_open(struct listener *listener, struct http_server *server, const char *address,
                   struct error *err)
{
    bool is_unix = strncmp(address, "unix:", 5) == 0;

    *listener = (struct listener){.server = server, .fd = -1};
    if (is_unix ? !open_unix(listener, address + 5, err) : !open_tcp(listener, address, err))
        return false;
    if (!loop_add(server->config.loop, listener->fd, LOOP_READ, on_ready, listener,
                  &listener->source, err)) {
        listener_close(listener);
        return false;
    }
    return true;
}

void listener_close(struct listener *listener)
{
    loop_remove(TAKE(listener->source));
    if (listener->fd >= 0)
        close(take_fd(&listener->fd));
    if (listener->path[0])
        unlink(listener->path);
    listener->path[0] = '\0';
}
