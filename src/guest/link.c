#include "guest/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"

enum {
    GATEWAY = 0xc6120001, /* 198.18.0.1 */
    GUEST = 0xc6120002,   /* 198.18.0.2 */
    PREFIX = 30,
    REQUEST_MAX = 512,
    MAC_LEN = 6,
};

static const uint8_t gateway_mac[MAC_LEN] = {0x02, 0x68, 0x6c, 0x6d, 0x72, 0x01};

struct request {
    union {
        struct nlmsghdr head;
        char bytes[REQUEST_MAX];
    };
};

/* Returns the body that belongs to the type. */
static void *begin(struct request *request, uint16_t type, uint16_t flags, size_t body)
{
    *request = (struct request){
        .head = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(body),
                 .nlmsg_type = type,
                 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags),
                 .nlmsg_seq = 1}
    };
    return NLMSG_DATA(&request->head);
}

static void put(struct request *request, uint16_t type, const void *value, size_t len)
{
    struct rtattr *attribute =
        (struct rtattr *)(request->bytes + NLMSG_ALIGN(request->head.nlmsg_len));

    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(len);
    memcpy(RTA_DATA(attribute), value, len);
    request->head.nlmsg_len =
        (uint32_t)(NLMSG_ALIGN(request->head.nlmsg_len) + RTA_ALIGN(attribute->rta_len));
}

static void put_address(struct request *request, uint16_t type, uint32_t address)
{
    uint32_t wire = htonl(address);

    put(request, type, &wire, sizeof wire);
}

/* What is there already is no error. */
static bool send_request(int fd, const struct request *request, const char *what, struct error *err)
{
    union {
        struct nlmsghdr head;
        char bytes[8192];
    } answer;

    ssize_t got = send(fd, request->bytes, request->head.nlmsg_len, 0);
    if (got >= 0)
        got = recv(fd, answer.bytes, sizeof answer.bytes, 0);
    if (got < 0)
        return error_errno(err, "%s", what);
    if ((size_t)got < NLMSG_LENGTH(sizeof(struct nlmsgerr)) ||
        answer.head.nlmsg_type != NLMSG_ERROR)
        return error_set(err, ERR_INTERNAL, "%s: the kernel's answer is not understood", what);
    const struct nlmsgerr *verdict = NLMSG_DATA(&answer.head);
    errno = -verdict->error;
    return verdict->error == 0 || errno == EEXIST || error_errno(err, "%s", what);
}

static bool set_up(int fd, unsigned index, struct error *err)
{
    struct request request;
    struct ifinfomsg *link = begin(&request, RTM_NEWLINK, 0, sizeof *link);

    link->ifi_index = (int)index;
    link->ifi_flags = IFF_UP;
    link->ifi_change = IFF_UP;
    return send_request(fd, &request, "setting a link up", err);
}

static bool add_address(int fd, unsigned index, struct error *err)
{
    struct request request;
    struct ifaddrmsg *address =
        begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof *address);

    address->ifa_family = AF_INET;
    address->ifa_prefixlen = PREFIX;
    address->ifa_index = index;
    put_address(&request, IFA_LOCAL, GUEST);
    put_address(&request, IFA_ADDRESS, GUEST);
    return send_request(fd, &request, "giving eth0 its address", err);
}

static bool add_neighbour(int fd, unsigned index, struct error *err)
{
    struct request request;
    struct ndmsg *neighbour =
        begin(&request, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof *neighbour);

    neighbour->ndm_family = AF_INET;
    neighbour->ndm_ifindex = (int)index;
    neighbour->ndm_state = NUD_PERMANENT;
    put_address(&request, NDA_DST, GATEWAY);
    put(&request, NDA_LLADDR, gateway_mac, sizeof gateway_mac);
    return send_request(fd, &request, "naming the gateway", err);
}

static bool add_route(int fd, unsigned index, struct error *err)
{
    struct request request;
    struct rtmsg *route = begin(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof *route);
    uint32_t device = index;

    route->rtm_family = AF_INET;
    route->rtm_table = RT_TABLE_MAIN;
    route->rtm_protocol = RTPROT_STATIC;
    route->rtm_scope = RT_SCOPE_UNIVERSE;
    route->rtm_type = RTN_UNICAST;
    put_address(&request, RTA_GATEWAY, GATEWAY);
    put(&request, RTA_OIF, &device, sizeof device);
    return send_request(fd, &request, "setting the default route", err);
}

/* Nothing outside speaks IPv6; loopback keeps its ::1. */
static void leave_ipv6(void)
{
    AUTO_FD int fd = open("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", O_WRONLY | O_CLOEXEC);
    struct error ignored;

    if (fd >= 0)
        (void)!fd_write_all(fd, STR("1"), &ignored);
}

bool link_setup(struct error *err)
{
    unsigned loopback = if_nametoindex("lo"), device = if_nametoindex("eth0");
    AUTO_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd < 0 || !loopback)
        return error_errno(err, "the network");
    if (!set_up(fd, loopback, err))
        return false;
    if (!device)
        return true;
    leave_ipv6();
    return set_up(fd, device, err) && add_address(fd, device, err) &&
           add_neighbour(fd, device, err) && add_route(fd, device, err);
}
