#include "server/listen.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/str.h"

static bool host_is_loopback(struct str host)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr four;
    struct in6_addr six;
    if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        host = (struct str){host.ptr + 1, host.len - 2};
    if (str_equal_nocase(host, STR("localhost")))
        return true;
    if (host.len == 0 || host.len >= sizeof text)
        return false;
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    if (inet_pton(AF_INET, text, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, text, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* Everything before the last colon that is not inside brackets. */
static struct str host_of(struct str authority)
{
    for (size_t i = authority.len; i > 0; i--) {
        if (authority.ptr[i - 1] == ']')
            break;
        if (authority.ptr[i - 1] == ':')
            return (struct str){authority.ptr, i - 1};
    }
    return authority;
}

bool listen_address_is_loopback(const char *address)
{
    return host_is_loopback(host_of(str_of(address)));
}

bool listen_url_is_loopback(const char *url)
{
    const char *at = strstr(url, "://");
    struct str rest = str_of(at ? at + 3 : url);
    const char *slash = memchr(rest.ptr, '/', rest.len);
    if (slash)
        rest.len = (size_t)(slash - rest.ptr);
    return host_is_loopback(host_of(rest));
}
