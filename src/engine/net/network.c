#include "engine/net/network.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/host_state.h"
#include "engine/net/dns_server.h"
#include "engine/net/link.h"
#include "engine/net/netns.h"
#include "engine/net/pool.h"
#include "engine/record.h"
#include "engine/slot.h"

enum {
    GATEWAY = 0xc6120001, /* 198.18.0.1 */
    GUEST = 0xc6120002,   /* 198.18.0.2 */
    LINKS = 0xc6130000,   /* 198.19.0.0, a /31 for each slot */
};

static const uint8_t gateway_mac[MAC_LEN] = {0x02, 0x68, 0x6c, 0x6d, 0x72, 0x01};
static const uint8_t guest_mac[MAC_LEN] = {0x02, 0x68, 0x6c, 0x6d, 0x72, 0x02};
static const uint8_t up_mac[MAC_LEN] = {0x02, 0x68, 0x6c, 0x6d, 0x72, 0x03};

int network_inner_fd(const struct network *network)
{
    return network->inner_fd;
}

const char *network_inner_path(const struct network *network)
{
    return network->inner_path;
}

int network_tap_fd(const struct network *network)
{
    return network->tap_fd;
}

bool network_tap_leave(struct network *network, uint32_t user, struct error *err)
{
    return link_leave_tap(&network->tap_fd, user, err);
}

const char *network_edge_path(const struct network *network)
{
    return network->edge_path;
}

static bool no_ipv6(struct error *err)
{
    struct error absent;

    /* A kernel without IPv6 has nothing to turn off. */
    if (!sysctl_write("net/ipv6/conf/all/disable_ipv6", "1", &absent))
        return absent.sys == ENOENT || (*err = absent, false);
    return sysctl_write("net/ipv6/conf/default/disable_ipv6", "1", err);
}

/* Both kinds carry the same name, so that the rules are the same. */
static bool gateway_make(struct network *network, struct mnl_socket *socket, struct error *err)
{
    struct link_end gateway = {"in0", gateway_mac, -1};

    if (network->kind == NETWORK_TAP)
        return link_make_tap(socket, &gateway, &network->tap_fd, err);
    return link_make_pair(socket, &gateway,
                          &(struct link_end){"eth0", guest_mac, network->inner_fd}, err);
}

static bool edge_setup(void *arg, struct error *err)
{
    struct network *network = arg;
    AUTO(link_close) struct mnl_socket *socket = NULL;
    uint32_t link = LINKS + 2 * (uint32_t)network->slot.number;
    uint8_t root_mac[MAC_LEN];

    link_root_mac(network->host->tag, network->slot.number, root_mac);
    return no_ipv6(err) && link_open(&socket, err) && gateway_make(network, socket, err) &&
           link_up(socket, "lo", true, err) && link_address(socket, "in0", GATEWAY, 30, err) &&
           link_up(socket, "in0", true, err) &&
           link_neighbour(socket, "in0", GUEST, guest_mac, err) &&
           link_address(socket, "up0", link + 1, 31, err) && link_up(socket, "up0", true, err) &&
           link_neighbour(socket, "up0", link, root_mac, err) &&
           link_default_route(socket, link, err) &&
           sysctl_write("net/ipv4/conf/all/rp_filter", "1", err) &&
           sysctl_write("net/ipv4/conf/default/rp_filter", "1", err) &&
           sysctl_write("net/ipv4/ip_forward", "1", err);
}

static bool inner_setup(void *arg, struct error *err)
{
    AUTO(link_close) struct mnl_socket *socket = NULL;

    (void)arg;
    return no_ipv6(err) && link_open(&socket, err) && link_up(socket, "lo", true, err) &&
           link_address(socket, "eth0", GUEST, 30, err) && link_up(socket, "eth0", true, err) &&
           link_neighbour(socket, "eth0", GATEWAY, gateway_mac, err) &&
           link_default_route(socket, GATEWAY, err);
}

/* Packets without a connection we saw begin belong to nobody. */
static bool edge_tighten(void *arg, struct error *err)
{
    (void)arg;
    return sysctl_write("net/netfilter/nf_conntrack_tcp_loose", "0", err);
}

static bool root_link_tighten(const struct network *network, struct error *err)
{
    char path[64];
    struct error absent;

    snprintf(path, sizeof(path), "net/ipv6/conf/%s/disable_ipv6", network->link);
    if (!sysctl_write(path, "1", &absent) && absent.sys != ENOENT) {
        *err = absent;
        return false;
    }
    snprintf(path, sizeof(path), "net/ipv4/conf/%s/rp_filter", network->link);
    return sysctl_write(path, "1", err);
}

static bool root_link_make(struct network *network, struct error *err)
{
    AUTO(link_close) struct mnl_socket *socket = NULL;
    uint32_t link = LINKS + 2 * (uint32_t)network->slot.number;
    uint8_t root_mac[MAC_LEN];
    char index[16];

    link_root_mac(network->host->tag, network->slot.number, root_mac);
    if (!link_open(&socket, err) ||
        !link_make_pair(socket, &(struct link_end){network->link, root_mac, -1},
                        &(struct link_end){"up0", up_mac, network->edge_fd}, err))
        return false;
    snprintf(index, sizeof(index), "%u", if_nametoindex(network->link));
    return journal_made(&network->record.journal, RESOURCE_LINK, network->link, index, err) &&
           root_link_tighten(network, err) && link_address(socket, network->link, link, 31, err) &&
           link_up(socket, network->link, true, err) &&
           link_neighbour(socket, network->link, link + 1, up_mac, err);
}

static bool namespace_make(struct network *network, const char *path, int *fd, struct error *err)
{
    char identity[NETNS_IDENTITY_TEXT];

    return netns_make(path, fd, identity, err) &&
           journal_made(&network->record.journal, RESOURCE_NETNS, path, identity, err);
}

static bool network_announce(struct network *network, struct error *err)
{
    struct record *record = &network->record;
    struct journal *journal = &record->journal;
    const struct record_owner owner = {.kind = "pool"};
    char id[ID_TEXT], slot[16];

    id_make(id);
    snprintf(slot, sizeof(slot), "%d", network->slot.number);
    snprintf(network->link, sizeof(network->link), "hx%d", network->slot.number);
    snprintf(network->edge_path, sizeof(network->edge_path), "%s/%s", network->host->run_dir,
             id_short(id));
    snprintf(network->inner_path, sizeof(network->inner_path), "%.*s.in", RUN_DIR_ROOM + 16,
             network->edge_path);
    return record_create(network->host, id, &owner, record, err) &&
           journal_intent(journal, RESOURCE_SLOT, slot, err) &&
           journal_intent(journal, RESOURCE_DIR, record->path, err) &&
           journal_intent(journal, RESOURCE_NETNS, network->edge_path, err) &&
           (network->kind == NETWORK_TAP ||
            journal_intent(journal, RESOURCE_NETNS, network->inner_path, err)) &&
           journal_intent(journal, RESOURCE_LINK, network->link, err) &&
           record_sync(network->host, record, err);
}

static bool inner_make(struct network *network, struct error *err)
{
    return network->kind == NETWORK_TAP ||
           namespace_make(network, network->inner_path, &network->inner_fd, err);
}

static bool network_build(struct network *network, const struct policy *policy,
                          struct dns_server *dns, struct error *err)
{
    return network_announce(network, err) &&
           namespace_make(network, network->edge_path, &network->edge_fd, err) &&
           inner_make(network, err) && root_link_make(network, err) &&
           netns_run(network->edge_fd, edge_setup, network, err) &&
           (network->kind == NETWORK_TAP ||
            netns_run(network->inner_fd, inner_setup, network, err)) &&
           policy_load(policy, network->edge_fd, err) &&
           netns_run(network->edge_fd, edge_tighten, network, err) &&
           policy_digest(network->edge_fd, network->rules, err) &&
           dns_listener_open(dns, network->edge_fd, &network->dns, err);
}

/* A number whose link name is taken (a quarantined one, another program's) is passed over. */
static bool slot_with_free_link(struct slot *slot, struct error *err)
{
    char name[IFNAMSIZ];

    for (int from = 0; slot_claim(SLOT_DIR, from, slot, err); from = slot->number + 1) {
        snprintf(name, sizeof(name), "hx%d", slot->number);
        if (if_nametoindex(name) == 0)
            return true;
        slot_free(slot);
    }
    return false;
}

bool network_make(struct engine_host *host, enum network_kind kind, const struct policy *policy,
                  struct dns_server *dns, struct network **network, struct error *err)
{
    struct network *made = alloc(sizeof(*made));

    *made = (struct network){
        .host = host,
        .record = {.dir_fd = -1, .journal = {.fd = -1}},
        .slot = {.fd = -1},
        .kind = kind,
        .edge_fd = -1,
        .inner_fd = -1,
        .tap_fd = -1
    };
    if (!slot_with_free_link(&made->slot, err) || !network_build(made, policy, dns, err)) {
        network_unmake(made);
        return error_wrap(err, "make a network");
    }
    *network = made;
    return true;
}

void network_unmake(struct network *network)
{
    struct error err = {0};

    dns_listener_close(network->dns);
    auto_close(&network->edge_fd);
    auto_close(&network->inner_fd);
    auto_close(&network->tap_fd);
    if (network->record.dir_fd >= 0 && !record_release(network->host, &network->record, &err)) {
        struct reclaimed about = {0};
        snprintf(about.instance_id, sizeof(about.instance_id), "%s", network->record.id);
        snprintf(about.detail, sizeof(about.detail), "pool: %.240s", err.text);
        host_quarantine(network->host, &about);
    }
    record_finish(&network->record);
    slot_free(&network->slot);
    free(network);
}

bool network_rules_hold(const struct network *network)
{
    uint8_t now[BLAKE2B_LEN];
    struct error err = {0};

    /* Unable to look is not the same as changed; it is asked again soon. */
    if (!policy_digest(network->edge_fd, now, &err)) {
        log_warn("network rules cannot be read", LOG_ERR(&err));
        return true;
    }
    return memcmp(now, network->rules, sizeof(now)) == 0;
}

void network_cut(const struct network *network)
{
    AUTO(link_close) struct mnl_socket *socket = NULL;
    struct error err = {0};

    if (!link_open(&socket, &err) || !link_up(socket, network->link, false, &err))
        log_error("a network cannot be cut", LOG_STR("link", network->link), LOG_ERR(&err));
}
