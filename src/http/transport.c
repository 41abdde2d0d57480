#include "http/transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/own.h"

/* The first byte of a TLS client is a record's type, which no method begins with. */
static enum transport_result greet(struct transport *transport)
{
    char first;
    ssize_t got = recv(transport->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return TRANSPORT_BLOCKED_READ;
    if (got <= 0)
        return TRANSPORT_OVER;
    if (first >= 'A' && first <= 'Z')
        return TRANSPORT_IN_CLEAR;
    tls_refresh(transport->tls, false);
    transport->session = tls_session_create(transport->tls, transport->fd);
    return TRANSPORT_MOVED;
}

static enum transport_result result_of(enum tls_result result)
{
    switch (result) {
    case TLS_DONE: return TRANSPORT_MOVED;
    case TLS_WANTS_READ: return TRANSPORT_BLOCKED_READ;
    case TLS_WANTS_WRITE: return TRANSPORT_BLOCKED_WRITE;
    case TLS_ENDED:
    case TLS_BROKEN: break;
    }
    return TRANSPORT_OVER;
}

enum transport_result transport_handshake(struct transport *transport)
{
    enum transport_result greeted = transport->session ? TRANSPORT_MOVED : greet(transport);

    return greeted == TRANSPORT_MOVED ? result_of(tls_handshake(transport->session)) : greeted;
}

/* Whole records, as many as there is sure to be room for. */
static enum transport_result read_records(struct transport *transport, char *bytes, size_t room,
                                          size_t *len)
{
    enum transport_result result;

    do {
        size_t got = 0;

        result = result_of(tls_read(transport->session, bytes + *len, room - *len, &got));
        *len += got;
    } while (result == TRANSPORT_MOVED && room - *len >= TLS_RECORD_MAX);
    return *len > 0 ? TRANSPORT_MOVED : result;
}

enum transport_result transport_read(struct transport *transport, char *bytes, size_t room,
                                     size_t *len)
{
    *len = 0;
    if (transport->session)
        return read_records(transport, bytes, room, len);

    ssize_t got = recv(transport->fd, bytes, room, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return TRANSPORT_BLOCKED_READ;
    if (got <= 0)
        return TRANSPORT_OVER;
    *len = (size_t)got;
    return TRANSPORT_MOVED;
}

/* Head and body of a small answer go out as one record. */
static enum transport_result write_record(struct transport *transport, const struct iovec *parts,
                                          size_t n, size_t *len)
{
    char record[TLS_RECORD_MAX];
    size_t filled = 0;

    for (size_t i = 0; i < n && filled < sizeof record; i++) {
        size_t room = sizeof record - filled;
        size_t taken = parts[i].iov_len < room ? parts[i].iov_len : room;

        memcpy(record + filled, parts[i].iov_base, taken);
        filled += taken;
    }

    enum transport_result result =
        result_of(tls_write(transport->session, (struct str){record, filled}, len));

    /* There is no renegotiation, so a write never waits for the peer. */
    return result == TRANSPORT_BLOCKED_READ ? TRANSPORT_OVER : result;
}

enum transport_result transport_write(struct transport *transport, struct iovec *parts, size_t n,
                                      size_t *len)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = n};

    *len = 0;
    if (transport->session)
        return write_record(transport, parts, n, len);

    ssize_t sent = sendmsg(transport->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? TRANSPORT_BLOCKED_WRITE : TRANSPORT_OVER;
    *len = (size_t)sent;
    return TRANSPORT_MOVED;
}

bool transport_shut(struct transport *transport)
{
    transport_end(transport);
    return shutdown(transport->fd, SHUT_WR) == 0;
}

enum transport_result transport_drop(struct transport *transport, char *scratch, size_t room)
{
    ssize_t got = recv(transport->fd, scratch, room, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return TRANSPORT_BLOCKED_READ;
    return got > 0 ? TRANSPORT_MOVED : TRANSPORT_OVER;
}

/* A Unix socket has none of these, and no need of them. */
void transport_keep_alive(struct transport *transport)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET,  SO_KEEPALIVE,  1 },
        {IPPROTO_TCP, TCP_KEEPIDLE,  30},
        {IPPROTO_TCP, TCP_KEEPINTVL, 10},
        {IPPROTO_TCP, TCP_KEEPCNT,   3 },
    };

    for (size_t i = 0; i < COUNT_OF(options); i++)
        (void)setsockopt(transport->fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
}

void transport_end(struct transport *transport)
{
    if (transport->session)
        tls_end(transport->session);
}

void transport_close(struct transport *transport)
{
    tls_session_destroy(TAKE(transport->session));
    if (transport->fd >= 0)
        close(take_fd(&transport->fd));
}
