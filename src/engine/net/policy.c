#include "engine/net/policy.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>

#include "base/file.h"
#include "base/own.h"
#include "base/process.h"

enum { SCRIPT_MAX = 64 * 1024, LISTING_MAX = 1 << 20, NFT_MS = 10000 };

static const char default_blocked[] = "0/8,10/8,100.64/10,127/8,169.254/16,172.16/12,192.168/16,"
                                      "224/4,240/4";
static const char always_blocked[] = "192.0.0.0/24,198.18.0.0/15";
static const char metadata[] = "169.254.0.0/16,100.100.100.200,192.0.0.192";

static bool host_addresses_add(struct cidr_list *list, struct error *err)
{
    struct ifaddrs *all;
    bool ok = true;

    if (getifaddrs(&all) < 0)
        return error_errno(err, "list this host's addresses");
    for (const struct ifaddrs *at = all; ok && at; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET)
            continue;
        struct sockaddr_in address;
        memcpy(&address, at->ifa_addr, sizeof(address));
        ok = cidr_list_put(list, ntohl(address.sin_addr.s_addr), 32, err);
    }
    freeifaddrs(all);
    return ok;
}

bool policy_init(struct policy *policy, const char *blocked, const char *allowed, struct error *err)
{
    *policy = (struct policy){0};
    return cidr_list_add(&policy->metadata, str_of(metadata), err) &&
           cidr_list_add(&policy->denied, str_of(blocked ? blocked : default_blocked), err) &&
           cidr_list_add(&policy->denied, str_of(always_blocked), err) &&
           (!allowed || cidr_list_add(&policy->allowed, str_of(allowed), err)) &&
           host_addresses_add(&policy->denied, err);
}

bool policy_blocks(const struct policy *policy, uint32_t address)
{
    if (cidr_list_has(&policy->metadata, address))
        return true;
    return !cidr_list_has(&policy->allowed, address) && cidr_list_has(&policy->denied, address);
}

static bool enter(void *arg, struct error *err)
{
    return setns(*(int *)arg, CLONE_NEWNET) == 0 || error_errno(err, "enter the edge namespace");
}

/* nft in the namespace of the descriptor; -1: here. */
static bool nft(int netns_fd, const char *const *argv, struct str input, struct buf *out,
                struct error *err)
{
    AUTO(buf_finish) struct buf errors = {.max = 16384};
    struct process_spec spec = {.argv = argv};
    int status;

    if (netns_fd >= 0) {
        spec.prepare = enter;
        spec.prepare_arg = &netns_fd;
    }
    if (!process_run(&spec, input, NFT_MS, out, &errors, &status, err))
        return error_wrap(err, "nft");
    if (status == 0)
        return true;

    struct str rest = buf_str(&errors), line = {0};
    (void)str_split(&rest, '\n', &line);
    return error_set(err, ERR_INTERNAL, "nft: %.*s", (int)(line.len < 200 ? line.len : 200),
                     line.ptr ? line.ptr : "");
}

static bool put(struct buf *out, const char *text, struct error *err)
{
    return buf_append(out, str_of(text), err);
}

static bool put_ranges(struct buf *out, const struct cidr_list *list, struct error *err)
{
    for (size_t i = 0; i < list->n; i++) {
        char range[CIDR_TEXT];
        cidr_format(&list->items[i], range);
        if (!put(out, i ? ", " : "", err) || !put(out, range, err))
            return false;
    }
    return true;
}

static bool put_set(struct buf *out, const char *name, const struct cidr_list *list,
                    struct error *err)
{
    if (!put(out, "set ", err) || !put(out, name, err) ||
        !put(out, " { type ipv4_addr; flags interval; auto-merge;", err))
        return false;
    if (list->n > 0 &&
        (!put(out, " elements = { ", err) || !put_ranges(out, list, err) || !put(out, " }", err)))
        return false;
    return put(out, " }\n", err);
}

static const char edge_chains[] =
    "chain forward { type filter hook forward priority 0; policy drop;\n"
    " iifname \"in0\" meta l4proto tcp ct state invalid reject with tcp reset\n"
    " ct state invalid drop\n"
    " ct state established,related accept\n"
    " iifname \"in0\" ip saddr 198.18.0.2 oifname \"up0\" jump egress\n}\n"
    "chain egress {\n"
    " ip daddr { 169.254.0.0/16, 100.100.100.200, 192.0.0.192 } counter drop\n"
    " ip daddr @allowed accept\n"
    " ip daddr @denied counter drop\n"
    " ip daddr @refused counter drop\n"
    " meta l4proto { tcp, udp, icmp } accept\n}\n"
    "chain input { type filter hook input priority 0; policy drop;\n"
    " ct state established accept\n"
    " iifname \"in0\" ip saddr 198.18.0.2 ip daddr 198.18.0.1 meta l4proto { tcp, udp } th dport "
    "53 "
    "accept\n"
    " iifname \"in0\" icmp type echo-request accept\n}\n"
    "chain nat { type nat hook postrouting priority 100; oifname \"up0\" masquerade\n}\n"
    "}\n";

bool policy_load(const struct policy *policy, int edge_fd, struct error *err)
{
    AUTO(buf_finish) struct buf script = {.max = SCRIPT_MAX};
    struct cidr_list none = {0};
    const char *const argv[] = {"nft", "-f", "-", NULL};

    return put(&script, "table inet helmr {\n", err) &&
           put_set(&script, "denied", &policy->denied, err) &&
           put_set(&script, "allowed", &policy->allowed, err) &&
           put_set(&script, "refused", &none, err) && put(&script, edge_chains, err) &&
           nft(edge_fd, argv, buf_str(&script), NULL, err);
}

bool policy_deny(int edge_fd, const char *const *ranges, size_t n, struct error *err)
{
    AUTO(buf_finish) struct buf script = {.max = SCRIPT_MAX};
    struct cidr_list list = {0};
    const char *const argv[] = {"nft", "-f", "-", NULL};

    for (size_t i = 0; i < n; i++) {
        if (!cidr_list_add(&list, str_of(ranges[i]), err))
            return false;
    }
    return list.n == 0 || (put(&script, "add element inet helmr refused { ", err) &&
                           put_ranges(&script, &list, err) && put(&script, " }\n", err) &&
                           nft(edge_fd, argv, buf_str(&script), NULL, err));
}

/* What comes in is counted on the way out too, where a reset reaches the guest. */
static const char quota_rules[] =
    "add quota inet helmr received { over %lld bytes }\n"
    "add quota inet helmr sent { over %lld bytes }\n"
    "add chain inet helmr over\n"
    "add rule inet helmr over meta l4proto tcp reject with tcp reset\n"
    "add rule inet helmr over drop\n"
    "insert rule inet helmr egress ct count over %d jump over\n"
    "insert rule inet helmr forward iifname \"in0\" quota name \"sent\" jump over\n"
    "insert rule inet helmr forward iifname { \"in0\", \"up0\" } quota name \"received\" jump "
    "over\n";

bool policy_limit(int edge_fd, const struct network_quota *quota, struct error *err)
{
    const char *const argv[] = {"nft", "-f", "-", NULL};
    char script[sizeof(quota_rules) + 64];

    snprintf(script, sizeof(script), quota_rules, (long long)quota->receive_bytes,
             (long long)quota->send_bytes, quota->connections);
    return nft(edge_fd, argv, str_of(script), NULL, err);
}

/* As text: the JSON of a quota tells what is used of it, stateless or not. */
bool policy_digest(int edge_fd, uint8_t digest[BLAKE2B_LEN], struct error *err)
{
    AUTO(buf_finish) struct buf listing = {.max = LISTING_MAX};
    const char *const argv[] = {"nft", "-s", "-a", "list", "ruleset", NULL};
    struct blake2b state;

    if (!nft(edge_fd, argv, (struct str){0}, &listing, err))
        return false;
    blake2b_init(&state, (struct str){0});
    blake2b_update(&state, buf_str(&listing));
    blake2b_final(&state, digest);
    return true;
}

/* Guests believe in 1500 bytes wherever they are; segments are kept to what the uplink carries. */
bool policy_load_root(const char *tag, struct error *err)
{
    char script[1024];
    const char *const argv[] = {"nft", "-f", "-", NULL};

    snprintf(script, sizeof(script),
             "add table inet helmr_%s\ndelete table inet helmr_%s\ntable inet helmr_%s {\n"
             "chain input { type filter hook input priority 0; policy accept;\n"
             " iifname \"hx*\" drop\n}\n"
             "chain forward { type filter hook forward priority 0; policy accept;\n"
             " iifname \"hx*\" oifname \"hx*\" drop\n"
             " iifname \"hx*\" tcp flags syn tcp option maxseg size set rt mtu\n"
             " oifname \"hx*\" tcp flags syn tcp option maxseg size set rt mtu\n}\n"
             "chain nat { type nat hook postrouting priority 100; policy accept;\n"
             " ip saddr 198.19.0.0/16 oifname != \"hx*\" masquerade\n}\n}\n",
             tag, tag, tag);
    return nft(-1, argv, str_of(script), NULL, err);
}

bool policy_remove_root(const char *tag, struct error *err)
{
    char script[128];
    const char *const argv[] = {"nft", "-f", "-", NULL};

    snprintf(script, sizeof(script), "add table inet helmr_%s\ndelete table inet helmr_%s\n", tag,
             tag);
    return nft(-1, argv, str_of(script), NULL, err);
}

/* One line of /proc/net/route: interface, destination and, as the eighth word, mask. */
static bool route_overlaps(struct str line, struct str *name)
{
    struct str words[8], rest = line;
    size_t n = 0;

    while (n < 8 && str_split(&rest, '\t', &words[n]))
        n++;
    if (n < 8 || words[1].len != 8)
        return false;

    uint32_t destination = ntohl((uint32_t)strtoul(words[1].ptr, NULL, 16));
    uint32_t mask = ntohl((uint32_t)strtoul(words[7].ptr, NULL, 16));
    *name = words[0];
    if (mask == 0 || (name->len > 2 && memcmp(name->ptr, "hx", 2) == 0))
        return false;
    mask &= 0xfffe0000;
    return (destination & mask) == (0xc6120000 & mask);
}

bool policy_check_routes(struct error *err)
{
    AUTO_FREE char *text = NULL;

    if (!file_read("/proc/net/route", LISTING_MAX, &text, err))
        return false;

    struct str rest = str_of(text), line, name;
    (void)str_split(&rest, '\n', &line); /* the heading */
    while (str_split(&rest, '\n', &line)) {
        if (route_overlaps(line, &name))
            return error_set(err, ERR_CONFLICT, "this host already uses 198.18.0.0/15, on %.*s",
                             (int)name.len, name.ptr);
    }
    return true;
}
