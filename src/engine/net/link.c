#include "engine/net/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/encode.h"
#include "base/log.h"
#include "base/own.h"

enum { REQUEST_ROOM = 1024, ANSWER_ROOM = 8192 };

struct request {
    char bytes[REQUEST_ROOM];
    struct nlmsghdr *header;
};

static void *request_begin(struct request *request, uint16_t type, uint16_t flags, size_t extra)
{
    memset(request->bytes, 0, sizeof(request->bytes));
    request->header = mnl_nlmsg_put_header(request->bytes);
    request->header->nlmsg_type = type;
    request->header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
    request->header->nlmsg_seq = 1;
    return mnl_nlmsg_put_extra_header(request->header, extra);
}

static bool request_send(struct mnl_socket *socket, struct request *request)
{
    char answer[ANSWER_ROOM];

    if (mnl_socket_sendto(socket, request->header, request->header->nlmsg_len) < 0)
        return false;
    for (;;) {
        ssize_t len = mnl_socket_recvfrom(socket, answer, sizeof(answer));
        if (len < 0)
            return false;
        int state = mnl_cb_run(answer, (size_t)len, 1, mnl_socket_get_portid(socket), NULL, NULL);
        if (state <= 0)
            return state == 0;
    }
}

bool link_open(struct mnl_socket **socket, struct error *err)
{
    *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    if (!*socket)
        return error_errno(err, "open netlink");
    if (mnl_socket_bind(*socket, 0, MNL_SOCKET_AUTOPID) < 0) {
        error_errno(err, "bind netlink");
        link_close(socket);
        return false;
    }
    return true;
}

void link_close(struct mnl_socket **socket)
{
    if (*socket)
        mnl_socket_close(*socket);
    *socket = NULL;
}

static void end_put(struct nlmsghdr *header, const struct link_end *end)
{
    mnl_attr_put_strz(header, IFLA_IFNAME, end->name);
    mnl_attr_put_u32(header, IFLA_MTU, 1500);
    if (end->mac)
        mnl_attr_put(header, IFLA_ADDRESS, MAC_LEN, end->mac);
    if (end->netns_fd >= 0)
        mnl_attr_put_u32(header, IFLA_NET_NS_FD, (uint32_t)end->netns_fd);
}

bool link_make_pair(struct mnl_socket *socket, const struct link_end *near,
                    const struct link_end *far, struct error *err)
{
    struct request request;

    request_begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct ifinfomsg));
    end_put(request.header, near);

    struct nlattr *info = mnl_attr_nest_start(request.header, IFLA_LINKINFO);
    mnl_attr_put_strz(request.header, IFLA_INFO_KIND, "veth");
    struct nlattr *data = mnl_attr_nest_start(request.header, IFLA_INFO_DATA);
    struct nlattr *peer = mnl_attr_nest_start(request.header, VETH_INFO_PEER);
    mnl_nlmsg_put_extra_header(request.header, sizeof(struct ifinfomsg));
    end_put(request.header, far);
    mnl_attr_nest_end(request.header, peer);
    mnl_attr_nest_end(request.header, data);
    mnl_attr_nest_end(request.header, info);
    return request_send(socket, &request) ||
           error_errno(err, "make the link %s–%s", near->name, far->name);
}

static bool index_find(const char *name, unsigned *index, struct error *err)
{
    *index = if_nametoindex(name);
    return *index != 0 || error_errno(err, "find the link %s", name);
}

/* What the device itself is asked for has a name and flags only; the rest comes by netlink. */
bool link_make_tap(struct mnl_socket *socket, const struct link_end *end, int *fd,
                   struct error *err)
{
    struct ifreq wanted = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    struct request request;
    unsigned index;
    AUTO_FD int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

    if (tap < 0)
        return error_errno(err, "open /dev/net/tun");
    snprintf(wanted.ifr_name, sizeof(wanted.ifr_name), "%s", end->name);
    if (ioctl(tap, TUNSETIFF, &wanted) < 0)
        return error_errno(err, "make the tap %s", end->name);
    if (!index_find(end->name, &index, err))
        return false;

    struct ifinfomsg *link = request_begin(&request, RTM_NEWLINK, 0, sizeof(*link));
    link->ifi_index = (int)index;
    end_put(request.header, end);
    if (!request_send(socket, &request))
        return error_errno(err, "set the address of %s", end->name);
    *fd = take_fd(&tap);
    return true;
}

bool link_leave_tap(int *fd, uint32_t user, struct error *err)
{
    if (ioctl(*fd, TUNSETOWNER, (unsigned long)user) < 0 || ioctl(*fd, TUNSETPERSIST, 1UL) < 0)
        return error_errno(err, "give the tap to user %u", user);
    close(take_fd(fd));
    return true;
}

bool link_up(struct mnl_socket *socket, const char *name, bool is_up, struct error *err)
{
    struct request request;
    unsigned index;

    if (!index_find(name, &index, err))
        return false;

    struct ifinfomsg *link = request_begin(&request, RTM_NEWLINK, 0, sizeof(*link));
    link->ifi_index = (int)index;
    link->ifi_flags = is_up ? IFF_UP : 0;
    link->ifi_change = IFF_UP;
    return request_send(socket, &request) ||
           error_errno(err, "set %s %s", name, is_up ? "up" : "down");
}

bool link_address(struct mnl_socket *socket, const char *name, uint32_t address, int prefix,
                  struct error *err)
{
    struct request request;
    unsigned index;

    if (!index_find(name, &index, err))
        return false;

    struct ifaddrmsg *message =
        request_begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(*message));
    message->ifa_family = AF_INET;
    message->ifa_prefixlen = (uint8_t)prefix;
    message->ifa_index = index;
    mnl_attr_put_u32(request.header, IFA_LOCAL, htonl(address));
    mnl_attr_put_u32(request.header, IFA_ADDRESS, htonl(address));
    return request_send(socket, &request) || error_errno(err, "give %s its address", name);
}

bool link_default_route(struct mnl_socket *socket, uint32_t gateway, struct error *err)
{
    struct request request;
    struct rtmsg *route =
        request_begin(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(*route));

    route->rtm_family = AF_INET;
    route->rtm_table = RT_TABLE_MAIN;
    route->rtm_protocol = RTPROT_STATIC;
    route->rtm_scope = RT_SCOPE_UNIVERSE;
    route->rtm_type = RTN_UNICAST;
    mnl_attr_put_u32(request.header, RTA_GATEWAY, htonl(gateway));
    return request_send(socket, &request) || error_errno(err, "set the default route");
}

bool link_neighbour(struct mnl_socket *socket, const char *name, uint32_t address,
                    const uint8_t mac[MAC_LEN], struct error *err)
{
    struct request request;
    unsigned index;

    if (!index_find(name, &index, err))
        return false;

    struct ndmsg *message =
        request_begin(&request, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof(*message));
    message->ndm_family = AF_INET;
    message->ndm_ifindex = (int)index;
    message->ndm_state = NUD_PERMANENT;
    mnl_attr_put_u32(request.header, NDA_DST, htonl(address));
    mnl_attr_put(request.header, NDA_LLADDR, MAC_LEN, mac);
    return request_send(socket, &request) || error_errno(err, "set a neighbour of %s", name);
}

void link_root_mac(const char *tag, int number, uint8_t mac[MAC_LEN])
{
    mac[0] = 0x02;
    (void)hex_decode(str_of(tag), mac + 1, 4);
    mac[5] = (uint8_t)number;
}

/* The kernel answers by name, so what is asked and what is removed are the same link only while
 * its index is the same too. */
static bool link_is_ours(const char *tag, const char *name, unsigned *index)
{
    struct ifreq query = {0};
    uint8_t mac[MAC_LEN];
    AUTO_FD int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    *index = if_nametoindex(name);
    if (*index == 0 || socket_fd < 0)
        return false;
    snprintf(query.ifr_name, sizeof(query.ifr_name), "%s", name);
    link_root_mac(tag, 0, mac);
    return ioctl(socket_fd, SIOCGIFHWADDR, &query) == 0 &&
           memcmp(query.ifr_hwaddr.sa_data, mac, 5) == 0;
}

static bool link_delete(struct mnl_socket *socket, unsigned index)
{
    struct request request;
    struct ifinfomsg *link = request_begin(&request, RTM_DELLINK, 0, sizeof(*link));

    link->ifi_index = (int)index;
    return request_send(socket, &request) || errno == ENODEV;
}

bool link_remove(const char *tag, const char *name, const char *identity, struct error *err)
{
    AUTO(link_close) struct mnl_socket *socket = NULL;
    unsigned index;

    if (!link_is_ours(tag, name, &index))
        return true;
    if (identity[0] && strtoul(identity, NULL, 10) != index)
        return true;
    if (!link_open(&socket, err))
        return false;
    if (!link_delete(socket, index))
        return error_errno(err, "remove the link %s", name);
    return !link_is_ours(tag, name, &index) ||
           error_set(err, ERR_CONFLICT, "the link %s is still there", name);
}

void link_remove_strays(const char *tag)
{
    struct if_nameindex *links = if_nameindex();
    struct error err = {0};

    for (struct if_nameindex *link = links; link && link->if_index; link++) {
        if (strncmp(link->if_name, "hx", 2) == 0 && !link_remove(tag, link->if_name, "", &err))
            log_error("a stray link stays", LOG_STR("link", link->if_name), LOG_ERR(&err));
    }
    if (links)
        if_freenameindex(links);
}
