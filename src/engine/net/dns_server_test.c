#include "engine/net/dns_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "engine/fixture.h"
#include "engine/net/dns.h"
#include "engine/net/link.h"
#include "engine/net/netns.h"

enum { ANSWER_MS = 10000, QUESTIONS = 150 };

/* A server above on loopback. Over UDP it cuts answers for names that begin with "t", and is silent
 * for names that begin with "s"; over TCP it answers everything. */
struct above {
    int udp, tcp;
    char address[32];
    pthread_t thread;
    int n_udp, n_tcp;
};

/* The edge of one sandbox, with nothing but the gateway's address in it. */
struct edge {
    struct fixture fixture;
    struct above above;
    struct service *service;
    struct policy policy;
    struct dns_server *server;
    struct dns_listener *listener;
    int netns;
    char path[PATH_MAX];
};

static size_t answer_for(char *message, size_t len, bool is_cut)
{
    static const char record[] = "\xc0\x0c\0\1\0\1\0\0\0\x10\0\4\x08\x08\x08\x08";

    /* Options of the question go; what is left is its head and the one question. */
    len -= 11;
    message[2] = (char)(is_cut ? 0x83 : 0x81);
    message[3] = (char)0x80;
    message[7] = is_cut ? 0 : 1;
    message[11] = 0;
    if (is_cut)
        return len;
    memcpy(message + len, record, sizeof(record) - 1);
    return len + sizeof(record) - 1;
}

static void above_udp(struct above *above)
{
    char message[1024];
    struct sockaddr_in from;
    socklen_t from_len = sizeof(from);
    ssize_t got = recvfrom(above->udp, message, 512, 0, (struct sockaddr *)&from, &from_len);

    above->n_udp++;
    if (got < 30 || message[13] == 's')
        return;
    size_t len = answer_for(message, (size_t)got, message[13] == 't');
    (void)!sendto(above->udp, message, len, 0, (struct sockaddr *)&from, from_len);
}

static void above_tcp(struct above *above)
{
    char message[1024];
    AUTO_FD int fd = accept(above->tcp, NULL, NULL);
    ssize_t got = fd >= 0 ? recv(fd, message, 512, 0) : -1;

    above->n_tcp++;
    if (got < 32)
        return;
    size_t len = answer_for(message + 2, (size_t)got - 2, false);
    message[0] = (char)(len >> 8);
    message[1] = (char)len;
    (void)!send(fd, message, len + 2, MSG_NOSIGNAL);
}

static void *above_main(void *arg)
{
    struct above *above = arg;

    for (;;) {
        struct pollfd ready[] = {
            {.fd = above->udp, .events = POLLIN},
            {.fd = above->tcp, .events = POLLIN}
        };
        if (poll(ready, 2, -1) < 0 || (ready[0].revents | ready[1].revents) & (POLLHUP | POLLNVAL))
            return NULL;
        if (ready[0].revents)
            above_udp(above);
        if (ready[1].revents)
            above_tcp(above);
    }
}

static bool above_bind(struct above *above, struct sockaddr_in *address)
{
    socklen_t len = sizeof(*address);

    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    above->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    above->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return above->udp >= 0 && above->tcp >= 0 &&
           bind(above->udp, (struct sockaddr *)address, len) == 0 &&
           getsockname(above->udp, (struct sockaddr *)address, &len) == 0 &&
           bind(above->tcp, (struct sockaddr *)address, len) == 0 && listen(above->tcp, 8) == 0;
}

/* A port that is free for one protocol may be taken for the other: then another one. */
static bool above_open(struct above *above)
{
    struct sockaddr_in address;
    int tries = 0;

    while (!above_bind(above, &address)) {
        auto_close(&above->udp);
        auto_close(&above->tcp);
        if (++tries == 50)
            return false;
    }
    snprintf(above->address, sizeof(above->address), "127.0.0.1:%d", ntohs(address.sin_port));
    return pthread_create(&above->thread, NULL, above_main, above) == 0;
}

static bool edge_addresses(void *arg, struct error *err)
{
    AUTO(link_close) struct mnl_socket *socket = NULL;

    (void)arg;
    return link_open(&socket, err) && link_up(socket, "lo", true, err) &&
           link_address(socket, "lo", 0xc6120001, 32, err);
}

static bool edge_open(struct edge *edge, struct error *err)
{
    char identity[NETNS_IDENTITY_TEXT];

    *edge = (struct edge){.netns = -1};
    if (!fixture_open(&edge->fixture) || !above_open(&edge->above))
        return error_errno(err, "server above");
    snprintf(edge->path, PATH_MAX, "%s/edge", edge->fixture.folder);
    return netns_make(edge->path, &edge->netns, identity, err) &&
           netns_run(edge->netns, edge_addresses, NULL, err) &&
           service_create(&edge->service, err) && policy_init(&edge->policy, NULL, NULL, err) &&
           dns_server_create(edge->service, edge->above.address, &edge->policy, &edge->server,
                             err) &&
           dns_listener_open(edge->server, edge->netns, &edge->listener, err);
}

static void edge_close(struct edge *edge)
{
    struct error err = {0};

    if (!edge->path[0])
        return;
    dns_listener_close(edge->listener);
    dns_server_destroy(edge->server);
    service_destroy(edge->service);
    if (edge->above.thread) {
        (void)shutdown(edge->above.tcp, SHUT_RDWR);
        pthread_join(edge->above.thread, NULL);
    }
    auto_close(&edge->above.udp);
    auto_close(&edge->above.tcp);
    auto_close(&edge->netns);
    if (!netns_remove(edge->path, &err))
        printf("# %s\n", err.text);
    fixture_close(&edge->fixture);
}

struct asking {
    char label;
    bool is_tcp, is_impatient; /* impatient: leaves without the answers */
    int n;                     /* questions sent at once */
    int n_answers[6];
    unsigned n_records;
};

static void answer_count(struct asking *asking, const char *message)
{
    asking->n_answers[message[3] & 15 & 7]++;
    asking->n_records += (uint8_t)message[7];
}

static bool ask(void *arg, struct error *err)
{
    struct asking *asking = arg;
    char question[] = "\0\x20\x12\x34\x01\0\0\1\0\0\0\0\0\0\3xyz\7example\3com\0\0\1\0\1";
    struct sockaddr_in gateway = {.sin_family = AF_INET, .sin_port = htons(53)};
    AUTO_FD int fd = socket(AF_INET, (asking->is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
    size_t skip = asking->is_tcp ? 0 : 2, len = sizeof(question) - 1;

    question[1] = (char)(len - 2);
    question[15] = asking->label;
    gateway.sin_addr.s_addr = htonl(0xc6120001);
    if (fd < 0 || connect(fd, (struct sockaddr *)&gateway, sizeof(gateway)) < 0)
        return error_errno(err, "connect");
    for (int i = 0; i < asking->n; i++) {
        if (send(fd, question + skip, len - skip, 0) < 0)
            return error_errno(err, "send");
    }
    for (int i = 0; !asking->is_impatient && i < asking->n; i++) {
        char answer[2048];
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, ANSWER_MS) != 1)
            return error_set(err, ERR_TIMEOUT, "no answer %d", i);
        ssize_t got = recv(fd, answer, sizeof(answer), 0);
        if (got < DNS_HEADER_LEN)
            return error_set(err, ERR_INTERNAL, "a short answer");
        answer_count(asking, answer + (asking->is_tcp ? 2 : 0));
    }
    return true;
}

static bool ask_edge(struct edge *edge, struct asking *asking)
{
    struct error err = {0};
    bool ok = netns_run(edge->netns, ask, asking, &err);

    if (!ok)
        printf("# %s\n", err.text);
    return ok;
}

TEST(questions_are_answered_over_udp_and_tcp)
{
    AUTO(edge_close) struct edge edge = {.netns = -1};
    struct asking udp = {.label = 'a', .n = 1}, tcp = {.label = 'a', .is_tcp = true, .n = 1};
    struct error err = {0};

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(edge_open(&edge, &err));
    CHECK(ask_edge(&edge, &udp) && udp.n_records == 1 && udp.n_answers[DNS_OK] == 1);
    CHECK(ask_edge(&edge, &tcp) && tcp.n_records == 1 && tcp.n_answers[DNS_OK] == 1);
    CHECK(edge.above.n_udp == 2 && edge.above.n_tcp == 0);
}

TEST(a_cut_answer_is_fetched_over_tcp)
{
    AUTO(edge_close) struct edge edge = {.netns = -1};
    struct asking asking = {.label = 't', .n = 1};
    struct error err = {0};

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(edge_open(&edge, &err));
    CHECK(ask_edge(&edge, &asking) && asking.n_records == 1 && asking.n_answers[DNS_OK] == 1);
    CHECK(edge.above.n_tcp == 1);
}

TEST(a_flood_of_questions_is_refused_beyond_its_share)
{
    AUTO(edge_close) struct edge edge = {.netns = -1};
    struct asking asking = {.label = 'a', .n = QUESTIONS};
    struct error err = {0};

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(edge_open(&edge, &err));
    CHECK(ask_edge(&edge, &asking));
    CHECK(asking.n_answers[DNS_OK] > 0 && asking.n_answers[DNS_REFUSED] > 0);
    /* On a busy machine datagrams are lost on the way; none is answered twice or otherwise. */
    CHECK(asking.n_answers[DNS_OK] + asking.n_answers[DNS_REFUSED] <= QUESTIONS);
}

TEST(a_sandbox_may_go_while_its_questions_are_open)
{
    AUTO(edge_close) struct edge edge = {.netns = -1};
    struct asking asking = {.label = 'a', .n = 1};
    struct error err = {0};

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(edge_open(&edge, &err));

    /* Silence above: the question stays open; the next answer proves that it was heard. */
    struct asking silent = {.label = 's', .is_impatient = true, .n = 1};
    CHECK(ask_edge(&edge, &silent));
    CHECK(ask_edge(&edge, &asking));
    CHECK(edge.above.n_udp == 2);
}

ENGINE_TEST_MAIN()
