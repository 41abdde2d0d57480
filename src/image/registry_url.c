#include "image/registry_url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include "http/client.h"

static void free_part(char **text)
{
    curl_free(*text);
}

static void free_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

static bool fits(int written, size_t room)
{
    return written > 0 && (size_t)written < room;
}

static bool take_parts(CURLU *parts, struct registry_url *url)
{
    AUTO(free_part) char *scheme = NULL, *host = NULL, *port = NULL, *path = NULL, *query = NULL;

    if (curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_PATH, &path, 0) != CURLUE_OK)
        return false;
    (void)curl_url_get(parts, CURLUPART_PORT, &port, CURLU_NO_DEFAULT_PORT);
    (void)curl_url_get(parts, CURLUPART_QUERY, &query, 0);
    if (!fits(snprintf(url->host, sizeof url->host, "%s", host), sizeof url->host) ||
        !fits(snprintf(url->origin, sizeof url->origin, "%s://%s%s%s", scheme, host,
                       port ? ":" : "", port ? port : ""),
              sizeof url->origin) ||
        !fits(snprintf(url->path, sizeof url->path, "%s%s%s", path, query ? "?" : "",
                       query ? query : ""),
              sizeof url->path))
        return false;
    url->is_loopback = http_host_is_loopback(url->host);
    return strcmp(scheme, "https") == 0 || (strcmp(scheme, "http") == 0 && url->is_loopback);
}

static bool has_user(CURLU *parts)
{
    AUTO(free_part) char *user = NULL;

    return curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_OK;
}

bool registry_url_read(const char *text, const struct registry_url *base, struct registry_url *url,
                       struct error *err)
{
    AUTO(free_url) CURLU *parts = curl_url();
    struct registry_url made;
    char whole[URL_ORIGIN + URL_PATH];

    if (!parts)
        abort();
    if (base) {
        (void)snprintf(whole, sizeof whole, "%s%s", base->origin, base->path);
        if (curl_url_set(parts, CURLUPART_URL, whole, 0) != CURLUE_OK)
            return error_set(err, ERR_INVALID, "a malformed address");
    }
    /* Only the host is shown: queries of signed addresses are secrets. */
    if (curl_url_set(parts, CURLUPART_URL, text, 0) != CURLUE_OK)
        return error_set(err, ERR_INVALID, "a malformed address");
    if (has_user(parts))
        return error_set(err, ERR_INVALID, "an address with a user's name in it");
    if (!take_parts(parts, &made))
        return error_set(err, ERR_INVALID,
                         "an address that is neither https nor http to this machine");
    *url = made;
    return true;
}

static bool is_number(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return host[0] == '[' || inet_pton(AF_INET, host, bytes) == 1;
}

/* Where strangers get names side by side; below these a domain has one label more. */
static const char *const shared_suffixes[] = {
    "amazonaws.com",
    "azurecr.io",
    "azurewebsites.net",
    "cloudfront.net",
    "fly.dev",
    "github.io",
    "githubusercontent.com",
    "gitlab.io",
    "herokuapp.com",
    "nip.io",
    "ondigitalocean.app",
    "pkg.dev",
    "run.app",
    "sslip.io",
    "vercel.app",
};

static const char *last_labels(const char *host, size_t n)
{
    const char *at = host + strlen(host);

    while (at > host) {
        if (at[-1] == '.' && --n == 0)
            break;
        at--;
    }
    return at;
}

/* Country domains often sell names one level lower ("example.co.uk"): a short second label. */
static const char *domain_of(const char *host)
{
    const char *two = last_labels(host, 2), *top = last_labels(host, 1);
    size_t second = (size_t)(top - two);
    bool is_shared = strlen(top) == 2 && second <= 4;

    for (size_t i = 0; i < COUNT_OF(shared_suffixes); i++)
        is_shared = is_shared || strcmp(two, shared_suffixes[i]) == 0;
    return is_shared ? last_labels(host, 3) : two;
}

bool registry_hosts_are_related(const char *one, const char *other)
{
    if (strcasecmp(one, other) == 0)
        return true;
    if (is_number(one) || is_number(other) || !strchr(one, '.') || !strchr(other, '.'))
        return false;
    const char *domain = domain_of(one);
    return strchr(domain, '.') && strcasecmp(domain, domain_of(other)) == 0;
}
