#include "engine/net/frames.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

enum { ETHERNET = 14, IPV4 = 20, PORTS = 8, PATIENCE_MS = 60000 };

struct packet {
    uint32_t to;
    uint8_t protocol;
    uint16_t port, fragment;
    uint16_t type;
};

/* A frame with an IPv4 head and ports; gives its length. */
static size_t frame_make(const struct packet *packet, uint8_t frame[64])
{
    uint8_t *head = frame + ETHERNET;

    memset(frame, 0, 64);
    frame[12] = (uint8_t)(packet->type >> 8);
    frame[13] = (uint8_t)packet->type;
    head[0] = 0x45;
    head[6] = (uint8_t)(packet->fragment >> 8);
    head[7] = (uint8_t)packet->fragment;
    head[9] = packet->protocol;
    for (int i = 0; i < 4; i++)
        head[16 + i] = (uint8_t)(packet->to >> (24 - 8 * i));
    head[IPV4 + 2] = (uint8_t)(packet->port >> 8);
    head[IPV4 + 3] = (uint8_t)packet->port;
    return ETHERNET + IPV4 + PORTS;
}

#define ADDRESS(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))
#define GATEWAY             ADDRESS(198, 18, 0, 1)
#define PUBLIC              ADDRESS(203, 0, 113, 7)

static const struct {
    const char *what;
    struct packet packet;
    bool passes;
} rows[] = {
    {"a public address",      {PUBLIC, IPPROTO_TCP, 443, 0, 0x0800},                     true },
    {"its fragments",         {PUBLIC, IPPROTO_UDP, 0, 0x00b9, 0x0800},                  true },
    {"ping",                  {PUBLIC, IPPROTO_ICMP, 0, 0, 0x0800},                      false},
    {"names, of the gateway", {GATEWAY, IPPROTO_UDP, 53, 0, 0x0800},                     true },
    {"long names",            {GATEWAY, IPPROTO_TCP, 53, 0, 0x0800},                     true },
    {"names in pieces",       {GATEWAY, IPPROTO_UDP, 53, 0x2000, 0x0800},                false},
    {"another port of it",    {GATEWAY, IPPROTO_TCP, 80, 0, 0x0800},                     false},
    {"what QEMU calls host",  {ADDRESS(198, 18, 0, 254), IPPROTO_TCP, 22, 0, 0x0800},    false},
    {"QEMU's usual host",     {ADDRESS(10, 0, 2, 2), IPPROTO_TCP, 22, 0, 0x0800},        false},
    {"loopback",              {ADDRESS(127, 0, 0, 1), IPPROTO_TCP, 22, 0, 0x0800},       false},
    {"a neighbour",           {ADDRESS(192, 168, 1, 1), IPPROTO_TCP, 80, 0, 0x0800},     false},
    {"metadata",              {ADDRESS(169, 254, 169, 254), IPPROTO_TCP, 80, 0, 0x0800}, false},
    {"all of them",           {ADDRESS(255, 255, 255, 255), IPPROTO_UDP, 67, 0, 0x0800}, false},
    {"IPv6",                  {PUBLIC, IPPROTO_TCP, 443, 0, 0x86dd},                     false},
    {"a tagged frame",        {PUBLIC, IPPROTO_TCP, 443, 0, 0x8100},                     false},
    {"ARP",                   {0, 0, 0, 0, 0x0806},                                      true },
};

TEST(only_what_may_leave_passes)
{
    struct policy policy;
    struct error err = {0};
    uint8_t frame[64];

    CHECK(policy_init(&policy, NULL, NULL, &err));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t len = frame_make(&rows[i].packet, frame);
        if (frame_may_pass(&policy, frame, len) != rows[i].passes)
            printf("# %s\n", rows[i].what);
        CHECK(frame_may_pass(&policy, frame, len) == rows[i].passes);
    }

    /* However much of it there is, nothing beyond is looked at. */
    size_t whole = frame_make(&rows[3].packet, frame);
    for (size_t len = 0; len < whole; len++)
        (void)frame_may_pass(&policy, frame, len);
    CHECK(!frame_may_pass(&policy, frame, ETHERNET + IPV4 + 3));
    frame[ETHERNET] = 0x4f; /* a head longer than the frame */
    CHECK(!frame_may_pass(&policy, frame, whole));
}

static void put(uint8_t *at, uint32_t len, const uint8_t *frame)
{
    const uint32_t wire = htonl(len);

    memcpy(at, &wire, sizeof(wire));
    memcpy(at + FRAME_HEAD, frame, len);
}

TEST(frames_come_out_whole_however_they_came_in)
{
    const struct packet good = {PUBLIC, IPPROTO_TCP, 443, 0, 0x0800};
    const struct packet bad = {ADDRESS(10, 0, 2, 2), IPPROTO_TCP, 22, 0, 0x0800};
    struct service *service = NULL;
    struct frames *frames = NULL;
    struct policy policy;
    struct error err = {0};
    uint8_t frame[64], bytes[256], came[128];
    int out = -1, in = -1;
    size_t n = 0, len = frame_make(&good, frame);

    put(bytes, (uint32_t)len, frame);
    n = FRAME_HEAD + len;
    len = frame_make(&bad, frame);
    put(bytes + n, (uint32_t)len, frame);
    n += FRAME_HEAD + len;
    len = frame_make(&good, frame);
    put(bytes + n, (uint32_t)len, frame);
    n += FRAME_HEAD + len;

    CHECK(policy_init(&policy, NULL, NULL, &err) && service_create(&service, &err));
    CHECK(frames_open(service, &policy, &frames, &out, &in, &err));
    for (size_t i = 0; i < n; i++)
        CHECK(write(out, bytes + i, 1) == 1);
    size_t wanted = 2 * (FRAME_HEAD + len), got = 0;
    while (got < wanted) {
        struct pollfd ready = {.fd = in, .events = POLLIN};
        CHECK(poll(&ready, 1, PATIENCE_MS) == 1);
        ssize_t some = read(in, came + got, wanted - got);
        CHECK(some > 0);
        got += (size_t)(some > 0 ? some : 0);
        if (some <= 0)
            break;
    }
    CHECK(memcmp(came, bytes, FRAME_HEAD + len) == 0);
    CHECK(memcmp(came + FRAME_HEAD + len, bytes, FRAME_HEAD + len) == 0);

    /* A length that cannot be ends it: nothing more is taken, and nothing comes. */
    const uint32_t long_one = htonl(FRAME_MAX + 1);
    CHECK(write(out, &long_one, sizeof(long_one)) == sizeof(long_one));
    CHECK(write(out, bytes, FRAME_HEAD + len) > 0);
    frames_close(frames);
    CHECK(read(in, came, sizeof(came)) == 0);
    close(out);
    close(in);
    service_destroy(service);
}

TEST(an_address_answers_only_when_somebody_listens)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(place);
    AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&place, len) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&place, &len) == 0);
    CHECK(!address_answers(INADDR_LOOPBACK, ntohs(place.sin_port), PATIENCE_MS));
    CHECK(listen(fd, 1) == 0);
    CHECK(address_answers(INADDR_LOOPBACK, ntohs(place.sin_port), PATIENCE_MS));
}

TEST_MAIN()
