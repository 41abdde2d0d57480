#include "guest/relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/own.h"
#include "guest/agent.h"

enum { RELAYS_MAX = 64, PIECE = 32768, PIECES_PER_TURN = 8 };

struct relay {
    struct relay *next;
    struct agent *agent;
    uint64_t id;
    char name[65];
    uint16_t stream, port;
    int fd;
    bool tries_six; /* the second try, on ::1 */
    bool is_connected;
    bool has_all;  /* the host has said the end */
    bool is_shut;  /* and so has the socket been told */
    bool has_sent; /* the socket's end is with the channel */
    bool is_over;
    struct loop_source *source;
    unsigned watched;
    struct buf pending; /* for the socket */
};

static void destroy(struct relay *relay)
{
    loop_remove(relay->source);
    auto_close(&relay->fd);
    buf_finish(&relay->pending);
    free(relay);
}

/* Ends what is still open of it; the next settling takes it away. */
static void end(struct relay *relay)
{
    struct agent *agent = relay->agent;
    struct error err;

    if (relay->is_over)
        return;
    relay->is_over = true;
    if (!relay->has_sent && !channel_send_data(&agent->channel, relay->stream, STR(""), true, &err))
        agent_die(agent, &err);
    if (!relay->has_all && !channel_reset(&agent->channel, relay->stream, 0, &err))
        agent_die(agent, &err);
}

static void refuse(struct relay *relay, const char *code, const struct error *err)
{
    agent_refuse(relay->agent, relay->id, "relay", code, err);
    end(relay);
}

static bool dial(struct relay *relay, struct error *err)
{
    struct sockaddr_in four = {
        .sin_family = AF_INET,
        .sin_port = htons(relay->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6,
        .sin6_port = htons(relay->port),
        .sin6_addr = IN6ADDR_LOOPBACK_INIT,
    };
    const struct sockaddr *to = relay->tries_six ? (void *)&six : (void *)&four;
    socklen_t len = relay->tries_six ? sizeof six : sizeof four;

    loop_remove(TAKE(relay->source));
    relay->watched = 0;
    auto_close(&relay->fd);
    relay->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (relay->fd < 0 || (connect(relay->fd, to, len) < 0 && errno != EINPROGRESS))
        return error_errno(err, "connecting to port %u", relay->port);
    return true;
}

/* Some servers listen on "localhost", and mean ::1 only. */
static void dial_again(struct relay *relay, const struct error *why)
{
    struct error err;

    if (!relay->tries_six) {
        relay->tries_six = true;
        if (dial(relay, &err))
            return;
    }
    refuse(relay, "connection_refused", why);
}

static void connected(struct relay *relay)
{
    struct error err;
    int fault = 0;
    socklen_t len = sizeof fault;

    if (getsockopt(relay->fd, SOL_SOCKET, SO_ERROR, &fault, &len) < 0 || fault != 0) {
        errno = fault;
        error_errno(&err, "nobody listens on port %u", relay->port);
        dial_again(relay, &err);
        return;
    }
    relay->is_connected = true;
    agent_send(relay->agent, MESSAGE_RELAY,
               &(struct message_relay){
                   .id = relay->id,
                   .name = str_of(relay->name),
                   .stream = relay->stream,
               });
}

static bool has_room(const struct relay *relay)
{
    return channel_send_room(&relay->agent->channel, relay->stream) >= PIECE;
}

static void read_some(struct relay *relay)
{
    struct agent *agent = relay->agent;
    char bytes[PIECE];
    struct error err;

    for (int i = 0; i < PIECES_PER_TURN && has_room(relay); i++) {
        ssize_t got = read(relay->fd, bytes, sizeof bytes);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got < 0) {
            end(relay);
            return;
        }
        if (!channel_send_data(&agent->channel, relay->stream, (struct str){bytes, (size_t)got},
                               got == 0, &err)) {
            agent_die(agent, &err);
            return;
        }
        relay->has_sent = got == 0;
        if (got == 0)
            return;
    }
}

static void ready(void *arg, unsigned events)
{
    struct relay *relay = arg;

    if (relay->is_over)
        return;
    if (!relay->is_connected)
        connected(relay);
    else if (events & (LOOP_READ | LOOP_CLOSED) && !relay->has_sent)
        read_some(relay);
    else if (events & LOOP_CLOSED)
        end(relay);
}

static bool write_some(struct relay *relay, struct error *err)
{
    while (relay->pending.len > 0) {
        ssize_t put = send(relay->fd, relay->pending.bytes, relay->pending.len, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno == EAGAIN || error_errno(err, "writing to port %u", relay->port);
        buf_consume(&relay->pending, (size_t)put);
        if (!channel_consumed(&relay->agent->channel, relay->stream, (size_t)put, err))
            return false;
    }
    if (relay->has_all && !relay->is_shut) {
        relay->is_shut = true;
        shutdown(relay->fd, SHUT_WR);
    }
    return true;
}

static unsigned wanted(const struct relay *relay)
{
    if (!relay->is_connected)
        return LOOP_WRITE;
    return (!relay->has_sent && has_room(relay) ? LOOP_READ : 0U) |
           (relay->pending.len > 0 ? LOOP_WRITE : 0U);
}

/* One that wants nothing is not watched at all: its hang-up would wake the loop again and again. */
static void watch(struct relay *relay)
{
    unsigned events = wanted(relay);
    struct error err;
    bool ok = true;

    if (events == relay->watched)
        return;
    if (events == 0)
        loop_remove(TAKE(relay->source));
    else if (relay->source)
        ok = loop_change(relay->source, events, &err);
    else
        ok = loop_add(relay->agent->loop, relay->fd, events, ready, relay, &relay->source, &err);
    relay->watched = events;
    if (!ok)
        agent_die(relay->agent, &err);
}

static void settle(struct relay *relay)
{
    struct error err;

    if (relay->is_over)
        return;
    if (relay->is_connected && !write_some(relay, &err))
        end(relay);
    else if (relay->is_shut && relay->has_sent)
        relay->is_over = true;
    else
        watch(relay);
}

void relay_settle(struct agent *agent)
{
    struct relay **link = &agent->relays;

    while (*link) {
        struct relay *relay = *link;

        settle(relay);
        if (relay->is_over) {
            *link = relay->next;
            destroy(relay);
        } else {
            link = &relay->next;
        }
    }
}

static struct relay *find(const struct agent *agent, uint16_t stream)
{
    struct relay *relay = agent->relays;

    while (relay && (relay->stream != stream || relay->is_over))
        relay = relay->next;
    return relay;
}

/* "port-<number>-<which connection>"; the number must be one of the list, as it stands there. */
static bool read_port(const struct agent *agent, struct str name, uint16_t *port)
{
    struct str rest = name, word, number;
    uint32_t value = 0;

    if (!str_split(&rest, '-', &word) || !str_equal(word, STR("port")) ||
        !str_split(&rest, '-', &number) || number.len == 0 || number.len > 5)
        return false;
    for (size_t i = 0; i < number.len; i++) {
        if (number.ptr[i] < '0' || number.ptr[i] > '9')
            return false;
        value = value * 10 + (uint32_t)(number.ptr[i] - '0');
    }
    *port = (uint16_t)value;
    for (size_t i = 0; i < agent->sandbox.ports.n && value <= UINT16_MAX; i++)
        if (str_equal(agent->sandbox.ports.items[i], number))
            return true;
    return false;
}

static size_t count(const struct agent *agent)
{
    size_t n = 0;

    for (const struct relay *relay = agent->relays; relay; relay = relay->next)
        n++;
    return n;
}

static bool is_allowed(struct relay *relay, const char **code, struct error *err)
{
    const struct agent *agent = relay->agent;

    *code = "invalid_request";
    if (!agent->sandbox.is_ready || agent->is_stopping)
        return error_set(err, ERR_CONFLICT, "the sandbox is not ready");
    if (count(agent) > RELAYS_MAX)
        return error_set(err, ERR_LIMIT, "there are %d connections already", RELAYS_MAX);
    *code = "port_not_allowed";
    if (!read_port(agent, str_of(relay->name), &relay->port))
        return error_set(err, ERR_FORBIDDEN, "the sandbox does not list this port");
    return true;
}

/* The stream is opened in any case: a refusal ends it, so that the host can use it again. */
static bool open_stream(struct agent *agent, const struct message_relay *message, struct error *err)
{
    if (message->stream > UINT16_MAX || message->stream % 2 == 0)
        return error_set(err, ERR_INVALID, "stream %u is not the host's", message->stream);
    return channel_open_stream(&agent->channel, (uint16_t)message->stream,
                               CHANNEL_SENDS | CHANNEL_RECEIVES, err);
}

void relay_begin(struct agent *agent, const struct message_relay *message)
{
    struct error err = {0};
    const char *code;

    if (!open_stream(agent, message, &err)) {
        agent_refuse(agent, message->id, "relay", "invalid_request", &err);
        return;
    }
    struct relay *relay = alloc(sizeof *relay);
    *relay = (struct relay){
        .next = agent->relays,
        .agent = agent,
        .id = message->id,
        .stream = (uint16_t)message->stream,
        .fd = -1,
        .pending = {.max = CHANNEL_WINDOW},
    };
    memcpy(relay->name, message->name.ptr, message->name.len);
    agent->relays = relay;
    if (!is_allowed(relay, &code, &err))
        refuse(relay, code, &err);
    else if (!dial(relay, &err))
        dial_again(relay, &err);
}

bool relay_reads(const struct agent *agent, uint16_t stream)
{
    return find(agent, stream);
}

bool relay_data(struct agent *agent, uint16_t stream, struct str bytes, bool is_end,
                struct error *err)
{
    struct relay *relay = find(agent, stream);

    relay->has_all = is_end;
    return buf_append(&relay->pending, bytes, err);
}

void relay_reset(struct agent *agent, uint16_t stream)
{
    struct relay *relay = find(agent, stream);

    if (!relay)
        return;
    relay->has_sent = true;
    end(relay);
}

void relay_drop(struct agent *agent)
{
    while (agent->relays) {
        struct relay *relay = agent->relays;

        agent->relays = relay->next;
        destroy(relay);
    }
}
