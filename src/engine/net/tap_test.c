/* The tests are the machine: frames are written to the tap and read from it. */
#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "base/time.h"
#include "engine/fixture.h"
#include "engine/net/netns.h"
#include "engine/net/pool.h"

enum {
    GATEWAY = 0xc6120001,
    GUEST = 0xc6120002,
    STRANGER = 0xc6120012,
    ANSWER_MS = 10000,
    SILENCE_MS = 300
};

struct echo {
    struct virtio_net_hdr head;
    struct ether_header ethernet;
    struct iphdr ip;
    struct icmphdr icmp;
} __attribute__((packed));

static uint16_t checksum(const void *bytes, size_t len)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < len; i += 2) {
        uint16_t word;
        memcpy(&word, (const char *)bytes + i, 2);
        sum += word;
    }
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static struct echo echo_from(uint32_t source)
{
    static const uint8_t gateway[ETH_ALEN] = {0x02, 0x68, 0x6c, 0x6d, 0x72, 0x01};
    static const uint8_t guest[ETH_ALEN] = {0x02, 0x68, 0x6c, 0x6d, 0x72, 0x02};
    struct iphdr ip = {.version = 4,
                       .ihl = 5,
                       .ttl = 64,
                       .protocol = IPPROTO_ICMP,
                       .tot_len = htons(sizeof(struct iphdr) + sizeof(struct icmphdr)),
                       .saddr = htonl(source),
                       .daddr = htonl(GATEWAY)};
    struct icmphdr icmp = {.type = ICMP_ECHO, .un.echo.id = htons(7)};
    struct echo echo = {.ethernet.ether_type = htons(ETHERTYPE_IP)};

    ip.check = checksum(&ip, sizeof(ip));
    icmp.checksum = checksum(&icmp, sizeof(icmp));
    memcpy(echo.ethernet.ether_dhost, gateway, ETH_ALEN);
    memcpy(echo.ethernet.ether_shost, guest, ETH_ALEN);
    echo.ip = ip;
    echo.icmp = icmp;
    return echo;
}

static bool is_answered(int tap, uint32_t source, int timeout_ms)
{
    struct echo question = echo_from(source), answer;
    int64_t deadline = time_boot_ms() + timeout_ms;
    struct pollfd ready = {.fd = tap, .events = POLLIN};

    if (write(tap, &question, sizeof(question)) != sizeof(question))
        return false;
    while (time_boot_ms() < deadline) {
        char frame[2048];
        if (poll(&ready, 1, timeout_ms) != 1)
            return false;
        ssize_t got = read(tap, frame, sizeof(frame));
        if (got < (ssize_t)sizeof(answer))
            continue;
        memcpy(&answer, frame, sizeof(answer));
        if (answer.ethernet.ether_type == htons(ETHERTYPE_IP) &&
            answer.ip.protocol == IPPROTO_ICMP && answer.icmp.type == ICMP_ECHOREPLY)
            return true;
    }
    return false;
}

static bool open_again(void *arg, struct error *err)
{
    const struct link_end *end = arg;
    AUTO(link_close) struct mnl_socket *socket = NULL;
    AUTO_FD int tap = -1;

    return link_open(&socket, err) && link_make_tap(socket, end, &tap, err);
}

TEST(a_tap_reaches_its_gateway_from_the_guests_address_only)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct link_end gateway = {"in0", NULL, -1};
    struct sandbox_spec spec = {0};
    struct network *network = NULL;
    struct error err = {0};
    char tag[16];

    if (geteuid() != 0)
        SKIP("needs root");
    if (access("/dev/net/tun", R_OK | W_OK) != 0)
        SKIP("this host has no tun device");
    CHECK(fixture_open(&fixture));
    struct engine_settings settings = fixture_settings(&fixture);
    settings.network_enabled = true;
    CHECK(engine_host_open(&settings, &host, &err));
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    id_make(spec.id);
    CHECK(network_take(host->networks, &spec, NETWORK_TAP, &network, &err));
    bool is_heard = is_answered(network_tap_fd(network), GUEST, ANSWER_MS);
    bool is_spoofed = is_answered(network_tap_fd(network), STRANGER, SILENCE_MS);
    bool holds = network_rules_hold(network);

    /* While somebody has it, nobody else can; once left for a user, it can be opened by name. */
    bool is_held = !netns_run(network->edge_fd, open_again, &gateway, &err);
    bool is_left = network_tap_leave(network, 65534, &err) && network_tap_fd(network) < 0 &&
                   netns_run(network->edge_fd, open_again, &gateway, &err);
    network_release(network);
    fixture_host_close(&host);
    CHECK(is_heard && !is_spoofed && holds);
    CHECK(is_held && is_left);
    CHECK(fixture_nothing_left(&fixture, tag));
}

ENGINE_TEST_MAIN()
