#include "engine/net/dns_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/file.h"
#include "base/id.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/net/dns.h"
#include "engine/net/netns.h"

enum {
    SERVERS_MAX = 3,
    IN_FLIGHT_MAX = 64,
    PER_SECOND = 50,
    CLIENTS_MAX = 8,
    TRY_MS = 2000,
    TRIES_MAX = 4,
    CLIENT_IDLE_MS = 10000,
    CLIENT_IN_MAX = (DNS_QUERY_MAX + 2) * 4,
    DNS_ADDRESS = 0xc6120001, /* 198.18.0.1 */
};

struct dns_server {
    struct service *service;
    const struct policy *policy;
    struct sockaddr_in above[SERVERS_MAX];
    size_t n_above;
};

/* A TCP connection of the sandbox: one question at a time, then the next. */
struct client {
    struct dns_listener *listener;
    struct client *next;
    int fd;
    struct loop_source *source;
    struct loop_timer *idle;
    struct query *query; /* being answered */
    struct buf in;
};

struct query {
    struct dns_listener *listener;
    struct query *next;
    struct dns_question question;
    struct sockaddr_in from; /* of a UDP question */
    struct client *client;   /* of a TCP one, else NULL */
    uint16_t id;
    int tries;
    bool is_over_tcp;
    int fd; /* to the server above */
    struct loop_source *source;
    struct loop_timer *timer;
    struct buf in;
};

struct dns_listener {
    struct dns_server *server;
    int udp, tcp;
    struct loop_source *udp_source, *tcp_source;
    struct query *queries;
    struct client *clients;
    int n_queries, n_clients;
    int64_t second; /* that `asked` counts */
    int asked;
    bool failed;
    struct error err;
};

static void query_try(struct query *query);
static void client_read(void *arg, unsigned events);

static struct loop *loop_of(const struct dns_listener *listener)
{
    return service_loop(listener->server->service);
}

static bool blocks(const void *arg, uint32_t address)
{
    return policy_blocks(arg, address);
}

static void query_unwatch(struct query *query)
{
    loop_remove(TAKE(query->source));
    loop_cancel(TAKE(query->timer));
    auto_close(&query->fd);
    query->fd = -1;
    query->in.len = 0;
}

static void query_free(struct query *query)
{
    query->listener->n_queries--;
    if (query->client)
        query->client->query = NULL;
    query_unwatch(query);
    buf_finish(&query->in);
    free(query);
}

static void query_destroy(struct query *query)
{
    struct query **at = &query->listener->queries;

    while (*at != query)
        at = &(*at)->next;
    *at = query->next;
    query_free(query);
}

static void client_free(struct client *client)
{
    client->listener->n_clients--;
    if (client->query)
        query_destroy(client->query);
    loop_remove(client->source);
    loop_cancel(client->idle);
    close(client->fd);
    buf_finish(&client->in);
    free(client);
}

static void client_destroy(struct client *client)
{
    struct client **at = &client->listener->clients;

    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    client_free(client);
}

static void client_expire(void *arg)
{
    struct client *client = arg;

    client->idle = NULL;
    client_destroy(client);
}

static void client_rest(struct client *client)
{
    loop_cancel(client->idle);
    client->idle = loop_after(loop_of(client->listener), CLIENT_IDLE_MS, client_expire, client);
}

/* One short answer fits the socket's buffer, or its reader is not worth waiting for. */
static void client_answer(struct client *client, struct str answer)
{
    AUTO(buf_finish) struct buf out = {.max = DNS_MESSAGE_MAX + 2};
    const char len[2] = {(char)(answer.len >> 8), (char)answer.len};
    struct error ignored;

    if (!buf_append(&out, (struct str){len, 2}, &ignored) || !buf_append(&out, answer, &ignored) ||
        send(client->fd, out.bytes, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out.len) {
        client_destroy(client);
        return;
    }
    client_rest(client);
    client_read(client, 0);
}

/* Ends the query: its memory is gone when this returns. */
static void query_answer(struct query *query, struct str answer)
{
    struct client *client = query->client;
    int udp = query->listener->udp;
    struct sockaddr_in from = query->from;

    query_destroy(query);
    if (client)
        client_answer(client, answer);
    else
        (void)sendto(udp, answer.ptr, answer.len, MSG_DONTWAIT | MSG_NOSIGNAL,
                     (const struct sockaddr *)&from, sizeof(from));
}

static void query_answer_empty(struct query *query, enum dns_code code)
{
    AUTO(buf_finish) struct buf out = {.max = DNS_MESSAGE_MAX};
    struct error ignored;

    if (dns_answer_empty(&query->question, code, &out, &ignored))
        query_answer(query, buf_str(&out));
    else
        query_destroy(query);
}

static void query_expire(void *arg)
{
    struct query *query = arg;

    query->timer = NULL;
    query_try(query);
}

/* Feeds one whole message from above; false when it was not the answer. */
static bool query_hear(struct query *query, struct str message)
{
    AUTO(buf_finish) struct buf out = {.max = DNS_MESSAGE_MAX};
    struct dns_filter filter = {.blocks = blocks, .arg = query->listener->server->policy};
    size_t room = query->client ? 0 : query->question.room;

    switch (dns_answer_filter(message, &query->question, query->id, &filter, room, &out)) {
    case DNS_ANSWERED: query_answer(query, buf_str(&out)); return true;
    case DNS_TRUNCATED:
        if (query->is_over_tcp)
            return false;
        query->is_over_tcp = true;
        query->tries--;
        query_try(query);
        return true;
    case DNS_NOT_OURS: return false;
    }
    return false;
}

static void query_read_udp(struct query *query)
{
    char bytes[DNS_MESSAGE_MAX];
    ssize_t got = recv(query->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (got > 0)
        (void)query_hear(query, (struct str){bytes, (size_t)got});
    else if (got < 0 && errno != EAGAIN)
        query_try(query);
}

static void query_read_tcp(struct query *query)
{
    char bytes[4096];
    struct error ignored;
    ssize_t got = recv(query->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0 || !buf_append(&query->in, (struct str){bytes, (size_t)got}, &ignored)) {
        query_try(query);
        return;
    }
    if (query->in.len < 2)
        return;

    size_t len = (size_t)(uint8_t)query->in.bytes[0] << 8 | (uint8_t)query->in.bytes[1];
    if (query->in.len >= len + 2 && !query_hear(query, (struct str){query->in.bytes + 2, len}))
        query_try(query);
}

static bool query_send(struct query *query)
{
    AUTO(buf_finish) struct buf out = {.max = DNS_QUERY_MAX};
    struct error ignored;

    if (query->is_over_tcp && !buf_append(&out, (struct str){"\0\0", 2}, &ignored))
        return false;
    if (!dns_query_write(&query->question, query->id, &out, &ignored))
        return false;
    if (query->is_over_tcp)
        out.bytes[1] = (char)(out.len - 2); /* a query is far below 256 bytes over its name */
    if (query->is_over_tcp)
        out.bytes[0] = (char)((out.len - 2) >> 8);
    return send(query->fd, out.bytes, out.len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)out.len;
}

static void query_ready(void *arg, unsigned events)
{
    struct query *query = arg;
    struct error ignored;

    if (!query->is_over_tcp) {
        query_read_udp(query);
    } else if (events & LOOP_WRITE) {
        if (!query_send(query) || !loop_change(query->source, LOOP_READ, &ignored))
            query_try(query);
    } else {
        query_read_tcp(query);
    }
}

/* A socket of its own per try: the kernel picks the port, so an answer is hard to forge. */
static bool query_connect(struct query *query)
{
    struct dns_server *server = query->listener->server;
    const struct sockaddr_in *above = &server->above[query->tries % (int)server->n_above];
    int kind = query->is_over_tcp ? SOCK_STREAM : SOCK_DGRAM;
    struct error ignored;

    random_bytes(&query->id, sizeof(query->id));
    query->fd = socket(AF_INET, kind | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (query->fd < 0)
        return false;
    if (connect(query->fd, (const struct sockaddr *)above, sizeof(*above)) < 0 &&
        errno != EINPROGRESS)
        return false;
    if (!query->is_over_tcp && !query_send(query))
        return false;
    return loop_add(loop_of(query->listener), query->fd,
                    query->is_over_tcp ? LOOP_WRITE : LOOP_READ, query_ready, query, &query->source,
                    &ignored);
}

static void query_try(struct query *query)
{
    do {
        query_unwatch(query);
        if (query->tries++ >= TRIES_MAX) {
            query_answer_empty(query, DNS_SERVER_FAILURE);
            return;
        }
    } while (!query_connect(query));
    query->timer = loop_after(loop_of(query->listener), TRY_MS, query_expire, query);
}

static bool may_ask(struct dns_listener *listener)
{
    int64_t second = time_boot_ms() / 1000;

    if (second != listener->second) {
        listener->second = second;
        listener->asked = 0;
    }
    return listener->n_queries < IN_FLIGHT_MAX && listener->asked++ < PER_SECOND;
}

static void question_hear(struct dns_listener *listener, struct str message,
                          const struct sockaddr_in *from, struct client *client)
{
    struct query *query = alloc(sizeof(*query));
    bool may = may_ask(listener);

    *query = (struct query){.listener = listener,
                            .next = listener->queries,
                            .client = client,
                            .fd = -1,
                            .in = {.max = DNS_MESSAGE_MAX + 2}};
    if (from)
        query->from = *from;
    listener->queries = query;
    listener->n_queries++;
    if (client)
        client->query = query;

    enum dns_code code = dns_question_parse(message, &query->question);
    if (code == DNS_DROP)
        query_destroy(query);
    else if (code != DNS_OK || !may)
        query_answer_empty(query, code != DNS_OK ? code : DNS_REFUSED);
    else if (query->question.type == DNS_AAAA)
        query_answer_empty(query, DNS_OK);
    else if (listener->server->n_above == 0)
        query_answer_empty(query, DNS_SERVER_FAILURE);
    else
        query_try(query);
}

static void udp_ready(void *arg, unsigned events)
{
    struct dns_listener *listener = arg;
    char bytes[DNS_QUERY_MAX + 1];
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    ssize_t got =
        recvfrom(listener->udp, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&from, &len);

    (void)events;
    if (got > 0 && len == sizeof(from))
        question_hear(listener, (struct str){bytes, (size_t)got}, &from, NULL);
}

/* Called again after each answer, for what had already arrived. May end the client. */
static void client_read(void *arg, unsigned events)
{
    struct client *client = arg;
    char bytes[DNS_QUERY_MAX];
    struct error ignored;

    if (events) {
        ssize_t got = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0 || !buf_append(&client->in, (struct str){bytes, (size_t)got}, &ignored)) {
            client_destroy(client);
            return;
        }
        client_rest(client);
    }
    if (client->query || client->in.len < 2)
        return;

    size_t len = (size_t)(uint8_t)client->in.bytes[0] << 8 | (uint8_t)client->in.bytes[1];
    if (len > DNS_QUERY_MAX) {
        client_destroy(client);
    } else if (client->in.len >= len + 2) {
        char message[DNS_QUERY_MAX];
        memcpy(message, client->in.bytes + 2, len);
        buf_consume(&client->in, len + 2);
        question_hear(client->listener, (struct str){message, len}, NULL, client);
    }
}

static void tcp_ready(void *arg, unsigned events)
{
    struct dns_listener *listener = arg;
    AUTO_FD int fd = accept4(listener->tcp, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct error ignored;

    (void)events;
    if (fd < 0 || listener->n_clients >= CLIENTS_MAX)
        return;

    struct client *client = alloc(sizeof(*client));
    *client = (struct client){.listener = listener, .fd = -1, .in = {.max = CLIENT_IN_MAX}};
    if (!loop_add(loop_of(listener), fd, LOOP_READ, client_read, client, &client->source,
                  &ignored)) {
        free(client);
        return;
    }
    client->fd = take_fd(&fd);
    client->next = listener->clients;
    listener->clients = client;
    listener->n_clients++;
    client_rest(client);
}

static bool sockets_open(void *arg, struct error *err)
{
    struct dns_listener *listener = arg;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};

    address.sin_addr.s_addr = htonl(DNS_ADDRESS);
    listener->udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    listener->tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->udp < 0 || listener->tcp < 0)
        return error_errno(err, "open the DNS sockets");
    if (bind(listener->udp, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        bind(listener->tcp, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(listener->tcp, CLIENTS_MAX) < 0)
        return error_errno(err, "bind the DNS sockets");
    return true;
}

static void listener_attach(void *arg)
{
    struct dns_listener *listener = arg;

    listener->failed = !loop_add(loop_of(listener), listener->udp, LOOP_READ, udp_ready, listener,
                                 &listener->udp_source, &listener->err) ||
                       !loop_add(loop_of(listener), listener->tcp, LOOP_READ, tcp_ready, listener,
                                 &listener->tcp_source, &listener->err);
}

static void listener_detach(void *arg)
{
    struct dns_listener *listener = arg;

    while (listener->clients) {
        struct client *client = listener->clients;
        listener->clients = client->next;
        client_free(client);
    }
    while (listener->queries) {
        struct query *query = listener->queries;
        listener->queries = query->next;
        query_free(query);
    }
    loop_remove(listener->udp_source);
    loop_remove(listener->tcp_source);
}

bool dns_listener_open(struct dns_server *server, int edge_fd, struct dns_listener **listener,
                       struct error *err)
{
    struct dns_listener *made = alloc(sizeof(*made));

    *made = (struct dns_listener){.server = server, .udp = -1, .tcp = -1};
    made->failed = !netns_run(edge_fd, sockets_open, made, &made->err);
    if (!made->failed)
        service_call(server->service, listener_attach, made);
    if (made->failed) {
        *err = made->err;
        dns_listener_close(made);
        return false;
    }
    *listener = made;
    return true;
}

void dns_listener_close(struct dns_listener *listener)
{
    if (!listener)
        return;
    service_call(listener->server->service, listener_detach, listener);
    auto_close(&listener->udp);
    auto_close(&listener->tcp);
    free(listener);
}

static void above_add(struct dns_server *server, struct str text)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};
    struct str host = text;
    char copy[INET_ADDRSTRLEN];

    if (server->n_above == SERVERS_MAX || !str_split(&text, ':', &host) ||
        host.len >= sizeof(copy) || host.len == 0)
        return;
    snprintf(copy, sizeof(copy), "%.*s", (int)host.len, host.ptr);
    if (text.ptr)
        address.sin_port = htons((uint16_t)strtoul(text.ptr, NULL, 10));
    if (inet_pton(AF_INET, copy, &address.sin_addr) == 1)
        server->above[server->n_above++] = address;
}

static void above_from_host(struct dns_server *server)
{
    AUTO_FREE char *text = NULL;
    struct error ignored;

    if (!file_read("/etc/resolv.conf", 65536, &text, &ignored))
        return;

    struct str rest = str_of(text), line, word;
    while (str_split(&rest, '\n', &line)) {
        if (str_split(&line, ' ', &word) && str_equal(word, STR("nameserver")) && line.ptr &&
            str_split(&line, ' ', &word))
            above_add(server, word);
    }
}

bool dns_server_create(struct service *service, const char *servers, const struct policy *policy,
                       struct dns_server **server, struct error *err)
{
    struct dns_server *made = alloc(sizeof(*made));
    struct str rest = servers ? str_of(servers) : (struct str){0}, word;

    *made = (struct dns_server){.service = service, .policy = policy};
    while (str_split(&rest, ',', &word))
        above_add(made, word);
    if (!servers)
        above_from_host(made);
    else if (made->n_above == 0) {
        free(made);
        return error_set(err, ERR_INVALID, "\"%s\" names no DNS server", servers);
    }
    *server = made;
    return true;
}

void dns_server_destroy(struct dns_server *server)
{
    free(server);
}
