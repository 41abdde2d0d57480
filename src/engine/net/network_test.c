#include "engine/net/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/time.h"
#include "engine/fixture.h"
#include "engine/net/netns.h"
#include "engine/net/pool.h"

enum {
    PORT = 8080,
    REFUSED_MS = 400,
    REACHED_MS = 5000,
    PUBLIC_HOST = 0xc0586301, /* 192.88.99.1, this host's end */
    PUBLIC = 0xc0586302,      /* 192.88.99.2, somebody on the internet */
    METADATA = 0xa9fea9fe,
    PRIVATE = 0x0a636363, /* 10.99.99.99 */
};

/* A network outside: a namespace with a server on every address, routed to by this host. */
struct outside {
    struct fixture fixture;
    struct engine_host *host;
    struct network_pool *pool;
    char tag[16], path[PATH_MAX];
    int netns, server, host_server;
};

struct attempt {
    uint32_t address;
    int timeout_ms;
};

static bool server_open(void *arg, struct error *err)
{
    int *fd = arg;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int on = 1;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return (*fd >= 0 && setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
            bind(*fd, (struct sockaddr *)&any, sizeof(any)) == 0 && listen(*fd, 16) == 0) ||
           error_errno(err, "serve");
}

static bool outside_addresses(void *arg, struct error *err)
{
    AUTO(link_close) struct mnl_socket *socket = NULL;

    (void)arg;
    return link_open(&socket, err) && link_up(socket, "lo", true, err) &&
           link_address(socket, "hetest1", PUBLIC, 30, err) &&
           link_address(socket, "lo", METADATA, 32, err) &&
           link_address(socket, "lo", PRIVATE, 32, err) && link_up(socket, "hetest1", true, err) &&
           link_default_route(socket, PUBLIC_HOST, err);
}

static bool connects(void *arg, struct error *err)
{
    const struct attempt *attempt = arg;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int failure = 0;
    socklen_t len = sizeof(failure);

    to.sin_addr.s_addr = htonl(attempt->address);
    if (fd < 0 || (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS))
        return error_errno(err, "connect");
    if (poll(&ready, 1, attempt->timeout_ms) != 1)
        return error_set(err, ERR_TIMEOUT, "no answer");
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len);
    errno = failure;
    return failure == 0 || error_errno(err, "connect");
}

static bool reaches(const struct network *from, uint32_t address)
{
    struct attempt attempt = {address, REACHED_MS};
    struct error err = {0};

    bool ok = netns_run(from->inner_fd, connects, &attempt, &err);
    if (!ok)
        printf("# %s\n", err.text);
    return ok;
}

static bool is_kept_from(const struct network *from, uint32_t address)
{
    struct attempt attempt = {address, REFUSED_MS};
    struct error err = {0};

    return !netns_run(from->inner_fd, connects, &attempt, &err);
}

static bool host_reaches(uint32_t address)
{
    struct attempt attempt = {address, REACHED_MS};
    struct error err = {0};

    return connects(&attempt, &err);
}

static void outside_close(struct outside *outside)
{
    struct error err = {0};

    engine_host_close(outside->host);
    if (outside->netns >= 0)
        (void)fixture_run((const char *const[]){"ip", "link", "del", "hetest0", NULL});
    auto_close(&outside->netns);
    auto_close(&outside->server);
    auto_close(&outside->host_server);
    if (outside->path[0] && !netns_remove(outside->path, &err))
        printf("# %s\n", err.text);
    fixture_close(&outside->fixture);
}

static bool outside_open(struct outside *outside, struct error *err)
{
    AUTO(link_close) struct mnl_socket *socket = NULL;
    char identity[NETNS_IDENTITY_TEXT];

    *outside = (struct outside){.netns = -1, .server = -1, .host_server = -1};
    if (!fixture_open(&outside->fixture))
        return error_errno(err, "make a folder");
    snprintf(outside->path, PATH_MAX, "%s/outside", outside->fixture.folder);
    if (!netns_make(outside->path, &outside->netns, identity, err) || !link_open(&socket, err) ||
        !link_make_pair(socket, &(struct link_end){"hetest0", NULL, -1},
                        &(struct link_end){"hetest1", NULL, outside->netns}, err) ||
        !link_address(socket, "hetest0", PUBLIC_HOST, 30, err) ||
        !link_up(socket, "hetest0", true, err) ||
        !netns_run(outside->netns, outside_addresses, NULL, err) ||
        !netns_run(outside->netns, server_open, &outside->server, err) ||
        !server_open(&outside->host_server, err))
        return false;
    if (!fixture_run((const char *const[]){"ip", "route", "add", "169.254.169.254/32", "via",
                                           "192.88.99.2", NULL}) ||
        !fixture_run((const char *const[]){"ip", "route", "add", "10.99.99.99/32", "via",
                                           "192.88.99.2", NULL}))
        return error_set(err, ERR_INTERNAL, "routes");

    struct engine_settings settings = fixture_settings(&outside->fixture);
    settings.network_enabled = true;
    if (!engine_host_open(&settings, &outside->host, err))
        return false;
    outside->pool = outside->host->networks;
    snprintf(outside->tag, sizeof(outside->tag), "%s", engine_host_tag(outside->host));
    return true;
}

static const char *why_not(void)
{
    if (geteuid() != 0)
        return "needs root";
    return fixture_run((const char *const[]){"nft", "list", "tables", NULL})
               ? NULL
               : "nft does not work here";
}

static bool take(struct outside *outside, const char *deny, struct network **network,
                 struct error *err)
{
    const char *const ranges[] = {deny};
    struct sandbox_spec spec = {.deny = ranges, .n_deny = deny ? 1 : 0};

    id_make(spec.id);
    return network_take(outside->pool, &spec, NETWORK_INNER, network, err);
}

TEST(a_guest_reaches_the_public_and_no_private_address)
{
    AUTO(outside_close) struct outside outside = {.netns = -1, .server = -1, .host_server = -1};
    struct network *network, *other;
    struct error err = {0};
    struct sockaddr_in peer;
    socklen_t len = sizeof(peer);

    const char *why = why_not();
    if (why)
        SKIP(why);
    if (!outside_open(&outside, &err) || !take(&outside, NULL, &network, &err) ||
        !take(&outside, NULL, &other, &err))
        printf("# %s\n", err.text);
    CHECK(err.text[0] == '\0');

    /* Each forbidden place is really there: the host itself reaches it. */
    CHECK(host_reaches(METADATA) && host_reaches(PRIVATE) && host_reaches(PUBLIC_HOST));
    for (int fd; (fd = accept(outside.server, NULL, NULL)) >= 0;)
        close(fd);
    CHECK(is_kept_from(network, METADATA));
    CHECK(is_kept_from(network, PRIVATE));
    CHECK(is_kept_from(network, PUBLIC_HOST));
    CHECK(is_kept_from(network, 0xc6130000 + 2 * (uint32_t)network->slot.number));
    CHECK(is_kept_from(network, 0xc6130000 + 2 * (uint32_t)other->slot.number));
    CHECK(is_kept_from(network, 0xc6130001 + 2 * (uint32_t)other->slot.number));
    CHECK(accept(outside.server, NULL, NULL) < 0);

    /* The public sees the host's address, never the sandbox's. */
    CHECK(reaches(network, PUBLIC));
    AUTO_FD int got = accept(outside.server, (struct sockaddr *)&peer, &len);
    CHECK(got >= 0 && ntohl(peer.sin_addr.s_addr) == PUBLIC_HOST);
    network_release(network);
    network_release(other);
}

TEST(denied_ranges_of_one_sandbox_do_not_touch_another)
{
    AUTO(outside_close) struct outside outside = {.netns = -1, .server = -1, .host_server = -1};
    struct network *network, *other;
    struct error err = {0};

    const char *why = why_not();
    if (why)
        SKIP(why);
    CHECK(outside_open(&outside, &err));
    CHECK(take(&outside, "192.88.99.0/24", &network, &err));
    CHECK(take(&outside, NULL, &other, &err));
    CHECK(is_kept_from(network, PUBLIC));
    CHECK(reaches(other, PUBLIC));
    CHECK(network_rules_hold(network) && network_rules_hold(other));
    network_release(network);
    network_release(other);
}

/* Sends until the quota ends it; false when all of it went through. */
static bool is_cut_off(void *arg, struct error *err)
{
    static const char bytes[65536];
    const struct attempt *attempt = arg;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = 10};

    to.sin_addr.s_addr = htonl(attempt->address);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        return error_errno(err, "connect");
    for (int i = 0; i < 256; i++) {
        if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) < 0)
            return errno == ECONNRESET || error_errno(err, "not reset");
    }
    return error_set(err, ERR_INTERNAL, "16 MiB went through");
}

/* Takes what is sent in the other namespace, on a thread of its own. */
static void *swallow(void *arg)
{
    static char bytes[65536];
    struct pollfd ready = {.fd = *(int *)arg, .events = POLLIN};

    if (poll(&ready, 1, REACHED_MS) != 1)
        return NULL;
    AUTO_FD int fd = accept(ready.fd, NULL, NULL);
    for (ready.fd = fd; fd >= 0 && poll(&ready, 1, REACHED_MS) == 1;) {
        if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
            break;
    }
    return NULL;
}

TEST(a_quota_ends_what_one_sandbox_may_move)
{
    AUTO(outside_close) struct outside outside = {.netns = -1, .server = -1, .host_server = -1};
    struct sandbox_spec spec = {
        .quota = {.receive_bytes = 1 << 20, .send_bytes = 1 << 20, .connections = 8}
    };
    struct attempt attempt = {PUBLIC, REACHED_MS};
    struct network *network, *other;
    struct error err = {0};
    pthread_t thread;

    const char *why = why_not();
    if (why)
        SKIP(why);
    id_make(spec.id);
    CHECK(outside_open(&outside, &err));
    CHECK(network_take(outside.pool, &spec, NETWORK_INNER, &network, &err));
    CHECK(take(&outside, NULL, &other, &err));
    CHECK(reaches(network, PUBLIC));
    CHECK(network_rules_hold(network)); /* what is used does not count */
    close(accept(outside.server, NULL, NULL));

    CHECK(pthread_create(&thread, NULL, swallow, &outside.server) == 0);
    bool ok = netns_run(network->inner_fd, is_cut_off, &attempt, &err);
    pthread_join(thread, NULL);
    if (!ok)
        printf("# %s\n", err.text);
    CHECK(ok);
    CHECK(is_kept_from(network, PUBLIC));
    CHECK(reaches(other, PUBLIC));
    CHECK(network_rules_hold(network));
    network_release(network);
    network_release(other);
}

TEST(changed_rules_are_noticed)
{
    AUTO(outside_close) struct outside outside = {.netns = -1, .server = -1, .host_server = -1};
    struct network *network;
    struct error err = {0};
    const char *const more[] = {"192.88.99.0/24"};

    const char *why = why_not();
    if (why)
        SKIP(why);
    CHECK(outside_open(&outside, &err));
    CHECK(take(&outside, NULL, &network, &err));
    CHECK(network_rules_hold(network));
    CHECK(reaches(network, PUBLIC));
    CHECK(network_rules_hold(network)); /* counters do not count */
    CHECK(policy_deny(network->edge_fd, more, 1, &err));
    CHECK(!network_rules_hold(network));
    network_cut(network);
    CHECK(is_kept_from(network, PUBLIC));
    network_release(network);
}

TEST(preflight_passes_and_nothing_stays_after_close)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct error err = {0};
    char tag[16];
    AUTO_FREE char *before = NULL, *after = NULL;

    const char *why = why_not();
    if (why)
        SKIP(why);
    CHECK(fixture_open(&fixture));
    CHECK(file_read("/proc/sys/net/ipv4/ip_forward", 16, &before, &err));
    struct engine_settings settings = fixture_settings(&fixture);
    settings.network_enabled = true;
    CHECK(engine_host_open(&settings, &host, &err));
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    bool ok = engine_host_network_preflight(host, &err);
    if (!ok)
        printf("# %s\n", err.text);
    fixture_host_close(&host);
    CHECK(ok);
    CHECK(fixture_nothing_left(&fixture, tag));
    CHECK(file_read("/proc/sys/net/ipv4/ip_forward", 16, &after, &err));
    CHECK_STR(after, before);
}

ENGINE_TEST_MAIN()
