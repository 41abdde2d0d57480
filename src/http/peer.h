/* Who is at the other end: addresses, and the proxies whose word about their clients is believed.
 *
 * An address is 16 bytes, IPv4 mapped into IPv6, so that one comparison serves both. All zero is
 * nobody's: the other end of a Unix socket.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

enum { ADDRESS_TEXT = 46, PROXIES_MAX = 64 };

struct address {
    unsigned char bytes[16];
};

struct proxies {
    struct {
        struct address base;
        unsigned prefix; /* bits, of 128 */
    } items[PROXIES_MAX];
    size_t n;
};

struct request;
struct sockaddr_storage;

struct address address_of(const struct sockaddr_storage *name);
/* 192.0.2.1 or 2001:db8::1, also with a port: 192.0.2.1:80, [2001:db8::1]:80. */
bool address_parse(struct str text, struct address *address);
bool address_is_loopback(const struct address *address);
void address_format(const struct address *address, char text[ADDRESS_TEXT]); /* "unix" for none */
/* What one client has to itself: an IPv4 address, or the /64 of an IPv6 one. */
struct address address_network(const struct address *address);

/* Addresses and CIDR blocks, separated by commas; at least one. */
bool proxies_parse(const char *list, struct proxies *proxies, struct error *err) MUST_USE;
bool proxies_have(const struct proxies *proxies, const struct address *address);

/* What the proxies said of the client; the request must have come from one of them. Nothing that
 * the client itself may have written is believed: X-Forwarded-For is read from the end, up to the
 * first address that is no proxy of ours. */
struct forwarded {
    struct address client;
    bool has_proto, is_https;
    struct str host; /* empty: not said */
};
struct forwarded peer_forwarded(const struct proxies *proxies, const struct address *proxy,
                                const struct request *request);
