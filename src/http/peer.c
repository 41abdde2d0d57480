#include "http/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "http/request.h"

enum { V4_AT = 12, V4_BITS = 96, ALL_BITS = 128, HOPS_MAX = 32, HOST_MAX = 255 };

#define BLANKS STR(" \t")

static const unsigned char v4_prefix[V4_AT] = {[10] = 0xff, [11] = 0xff};

static struct address from_v4(const void *four)
{
    struct address address;

    memcpy(address.bytes, v4_prefix, V4_AT);
    memcpy(address.bytes + V4_AT, four, 4);
    return address;
}

static bool is_v4(const struct address *address)
{
    return memcmp(address->bytes, v4_prefix, V4_AT) == 0;
}

struct address address_of(const struct sockaddr_storage *name)
{
    struct address address = {0};

    if (name->ss_family == AF_INET)
        return from_v4(&((const struct sockaddr_in *)name)->sin_addr);
    if (name->ss_family == AF_INET6)
        memcpy(address.bytes, &((const struct sockaddr_in6 *)name)->sin6_addr,
               sizeof address.bytes);
    return address;
}

static bool parse_plain(struct str text, struct address *address)
{
    char copy[ADDRESS_TEXT];
    unsigned char four[4], six[16];

    if (text.len == 0 || text.len >= sizeof copy)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (inet_pton(AF_INET, copy, four) == 1) {
        *address = from_v4(four);
        return true;
    }
    if (inet_pton(AF_INET6, copy, six) != 1)
        return false;
    memcpy(address->bytes, six, sizeof six);
    return true;
}

static bool is_port(struct str text)
{
    size_t digits = 0;

    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
        digits++;
    return digits > 0 && digits == text.len && digits <= 5;
}

bool address_parse(struct str text, struct address *address)
{
    const char *end;
    struct str rest = text, host = {0};

    if (text.len > 0 && text.ptr[0] == '[') {
        end = memchr(text.ptr, ']', text.len);
        if (!end)
            return false;
        host = (struct str){text.ptr + 1, (size_t)(end - text.ptr) - 1};
        rest = (struct str){end + 1, text.len - host.len - 2};
        if (rest.len > 0 &&
            (rest.ptr[0] != ':' || !is_port((struct str){rest.ptr + 1, rest.len - 1})))
            return false;
        return parse_plain(host, address) && !is_v4(address);
    }
    if (parse_plain(text, address))
        return true;
    return str_split(&rest, ':', &host) && is_port(rest) && parse_plain(host, address);
}

bool address_is_loopback(const struct address *address)
{
    static const unsigned char six[16] = {[15] = 1};

    return is_v4(address) ? address->bytes[V4_AT] == 127 : memcmp(address->bytes, six, 16) == 0;
}

void address_format(const struct address *address, char text[ADDRESS_TEXT])
{
    static const struct address none;

    if (memcmp(address, &none, sizeof none) == 0)
        snprintf(text, ADDRESS_TEXT, "unix");
    else if (is_v4(address))
        inet_ntop(AF_INET, address->bytes + V4_AT, text, ADDRESS_TEXT);
    else
        inet_ntop(AF_INET6, address->bytes, text, ADDRESS_TEXT);
}

struct address address_network(const struct address *address)
{
    struct address network = *address;

    if (!is_v4(address))
        memset(network.bytes + 8, 0, 8);
    return network;
}

static bool has_prefix(const struct address *address, const struct address *base, unsigned bits)
{
    size_t whole = bits / 8;
    unsigned mask = 0xff00U >> bits % 8 & 0xff;

    return memcmp(address->bytes, base->bytes, whole) == 0 &&
           (mask == 0 || ((address->bytes[whole] ^ base->bytes[whole]) & mask) == 0);
}

static bool parse_bits(struct str text, unsigned max, unsigned *bits)
{
    unsigned value = 0;

    if (text.len == 0 || text.len > 3)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    *bits = value;
    return value <= max;
}

static bool parse_block(struct str text, struct address *base, unsigned *prefix, struct error *err)
{
    struct str host = {0}, bits = text;

    str_split(&bits, '/', &host);
    if (!parse_plain(host, base))
        return error_set(err, ERR_INVALID, "%.*s is no address and no CIDR block", (int)text.len,
                         text.ptr);

    unsigned before = is_v4(base) ? V4_BITS : 0, given = ALL_BITS - before;

    if (bits.ptr && !parse_bits(bits, ALL_BITS - before, &given))
        return error_set(err, ERR_INVALID, "%.*s: a prefix is 0 to %u bits", (int)text.len,
                         text.ptr, ALL_BITS - before);
    *prefix = before + given;
    return true;
}

bool proxies_parse(const char *list, struct proxies *proxies, struct error *err)
{
    struct str rest = str_of(list), item;

    *proxies = (struct proxies){0};
    while (str_split(&rest, ',', &item)) {
        item = str_trim(item, BLANKS);
        if (proxies->n == PROXIES_MAX)
            return error_set(err, ERR_INVALID, "at most %d blocks", PROXIES_MAX);
        if (!parse_block(item, &proxies->items[proxies->n].base, &proxies->items[proxies->n].prefix,
                         err))
            return false;
        proxies->n++;
    }
    return true;
}

bool proxies_have(const struct proxies *proxies, const struct address *address)
{
    for (size_t i = 0; i < proxies->n; i++)
        if (has_prefix(address, &proxies->items[i].base, proxies->items[i].prefix))
            return true;
    return false;
}

/* Takes the last element of a comma list off its end. */
static bool take_last(struct str *list, struct str *item)
{
    if (!list->ptr)
        return false;

    size_t at = list->len;

    while (at > 0 && list->ptr[at - 1] != ',')
        at--;
    *item = str_trim((struct str){list->ptr + at, list->len - at}, BLANKS);
    *list = at > 0 ? (struct str){list->ptr, at - 1} : (struct str){0};
    return true;
}

/* What the proxy next to us wrote: the last element of the last line. */
static struct str last_word(const struct request *request, struct str name)
{
    struct str item = {0};

    for (size_t i = request->n_headers; i > 0; i--) {
        struct str list = request->headers[i - 1].value;

        if (str_equal_nocase(request->headers[i - 1].name, name) && take_last(&list, &item))
            break;
    }
    return item;
}

static struct address find_client(const struct proxies *proxies, const struct address *proxy,
                                  const struct request *request)
{
    struct address client = *proxy, said;
    int hops = 0;

    for (size_t i = request->n_headers; i > 0; i--) {
        struct str list = request->headers[i - 1].value, item;

        if (!str_equal_nocase(request->headers[i - 1].name, STR("x-forwarded-for")))
            continue;
        while (take_last(&list, &item)) {
            if (!address_parse(item, &said) || hops++ == HOPS_MAX)
                return client;
            client = said;
            if (!proxies_have(proxies, &client))
                return client;
        }
    }
    return client;
}

static bool host_fits(struct str host)
{
    static const char set[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";

    for (size_t i = 0; i < host.len; i++)
        if (!memchr(set, host.ptr[i], sizeof set - 1))
            return false;
    return host.len > 0 && host.len <= HOST_MAX;
}

struct forwarded peer_forwarded(const struct proxies *proxies, const struct address *proxy,
                                const struct request *request)
{
    struct str proto = last_word(request, STR("x-forwarded-proto"));
    struct str host = last_word(request, STR("x-forwarded-host"));

    return (struct forwarded){
        .client = find_client(proxies, proxy, request),
        .has_proto = proto.len > 0,
        .is_https = str_equal_nocase(proto, STR("https")),
        .host = host_fits(host) ? host : (struct str){0},
    };
}
