#include "image/registry.h"

#include "base/file.h"
#include "base/own.h"
#include "image/credentials.h"
#include "image/registry_line.h"

enum { MIRRORS_MAX = LINE_ENDPOINTS - 1, AUTHORITIES_MAX = 16 << 20 };
enum { STALL_MS = 60000, BACKOFF_MS = 500, RETRY_AFTER_MS = 30000 };

static bool add_mirror(struct registries *registries, struct str text, struct error *err)
{
    struct registry_mirror mirror = {0};
    struct reference parsed;
    struct str host;
    char address[1024], name[300];

    if (!str_split(&text, '=', &host) || !text.ptr || host.len > 255 || text.len >= sizeof address)
        return error_set(err, ERR_INVALID, "a mirror is written as host=https://address");
    (void)snprintf(name, sizeof name, "%.*s/x", (int)host.len, host.ptr);
    (void)snprintf(address, sizeof address, "%.*s", (int)text.len, text.ptr);
    /* A host that a reference can have: else the mirror would never be asked. */
    if (!reference_parse(str_of(name), &parsed, err) ||
        (host.len != strlen(parsed.host) && !str_equal(host, STR("index.docker.io"))))
        return error_set(err, ERR_INVALID, "\"%.*s\" is no registry's host", (int)host.len,
                         host.ptr);
    if (!registry_url_read(address, NULL, &mirror.url, err))
        return error_wrap(err, "the mirror of %s", parsed.host);
    if (strchr(mirror.url.path, '?') || strlen(mirror.url.path) > 200)
        return error_set(err, ERR_INVALID, "the mirror of %s has a query, or too long a path",
                         parsed.host);
    mirror.host = alloc_text(parsed.host);
    registries->mirrors =
        alloc_more(registries->mirrors, (registries->n_mirrors + 1) * sizeof *registries->mirrors);
    registries->mirrors[registries->n_mirrors++] = mirror;
    return true;
}

static bool add_mirrors(struct registries *registries, const char *text, struct error *err)
{
    struct str rest = str_of(text), piece;

    while (str_split(&rest, ',', &piece)) {
        piece = str_trim(piece, STR(" \t"));
        if (!piece.len)
            continue;
        if (registries->n_mirrors == MIRRORS_MAX)
            return error_set(err, ERR_INVALID, "more than %d mirrors", (int)MIRRORS_MAX);
        if (!add_mirror(registries, piece, err))
            return false;
    }
    return true;
}

static bool check_authorities(const char *path, struct error *err)
{
    AUTO_FREE char *text = NULL;

    if (!file_read(path, AUTHORITIES_MAX, &text, err)) {
        err->code = ERR_INVALID;
        return false;
    }
    return strstr(text, "-----BEGIN CERTIFICATE-----") ||
           strstr(text, "-----BEGIN TRUSTED CERTIFICATE-----") ||
           error_set(err, ERR_INVALID, "%s has no certificate in PEM form", path);
}

static bool check_credentials(const char *path, struct error *err)
{
    AUTO(credential_finish) struct credential credential = {0};

    if (credentials_find(path, "", "", &credential, err))
        return true;
    err->code = ERR_INVALID;
    return false;
}

static bool fill(struct registries *registries, const struct registry_settings *settings,
                 struct error *err)
{
    if (settings->mirrors && !add_mirrors(registries, settings->mirrors, err))
        return error_wrap(err, "HELMR_REGISTRY_MIRRORS");
    if (settings->ca_file && settings->ca_file[0]) {
        if (!check_authorities(settings->ca_file, err))
            return error_wrap(err, "HELMR_REGISTRY_CA_FILE");
        registries->ca_file = alloc_text(settings->ca_file);
    }
    if (settings->auth_file && settings->auth_file[0]) {
        if (!check_credentials(settings->auth_file, err))
            return error_wrap(err, "HELMR_REGISTRY_AUTH_FILE");
        registries->auth_file = alloc_text(settings->auth_file);
    }
    return true;
}

bool registries_open(const struct registry_settings *settings, struct registries **registries,
                     struct error *err)
{
    struct registries *made = alloc(sizeof *made);

    *made = (struct registries){
        .pace = {STALL_MS, BACKOFF_MS, RETRY_AFTER_MS},
    };
    pthread_mutex_init(&made->lock, NULL);
    if (!fill(made, settings, err)) {
        registries_close(made);
        return false;
    }
    *registries = made;
    return true;
}

void registries_close(struct registries *registries)
{
    if (!registries)
        return;
    for (size_t i = 0; i < registries->n_mirrors; i++)
        free(registries->mirrors[i].host);
    free(registries->mirrors);
    free(registries->auth_file);
    free(registries->ca_file);
    registry_grants_finish(registries);
    map_finish(&registries->clear);
    pthread_mutex_destroy(&registries->lock);
    free(registries);
}

static struct registry_endpoint endpoint_of_mirror(const struct registry_mirror *mirror)
{
    struct registry_endpoint endpoint = {
        .is_mirror = true,
        .is_loopback = mirror->url.is_loopback,
    };
    const char *address = strstr(mirror->url.origin, "://") + 3;
    size_t len = strlen(mirror->url.path);

    while (len > 0 && mirror->url.path[len - 1] == '/')
        len--;
    (void)snprintf(endpoint.name, sizeof endpoint.name, "%.*s", (int)sizeof endpoint.name - 1,
                   address);
    (void)snprintf(endpoint.address, sizeof endpoint.address, "%.*s",
                   (int)sizeof endpoint.address - 1, address);
    (void)snprintf(endpoint.prefix, sizeof endpoint.prefix, "%.*s", (int)len, mirror->url.path);
    return endpoint;
}

size_t registry_endpoints(const struct registries *registries, const char *host,
                          struct registry_endpoint endpoints[LINE_ENDPOINTS])
{
    bool is_hub = strcmp(host, "docker.io") == 0;
    char name[256];
    size_t n = 0;

    for (size_t i = 0; i < registries->n_mirrors; i++)
        if (strcmp(registries->mirrors[i].host, host) == 0)
            endpoints[n++] = endpoint_of_mirror(&registries->mirrors[i]);
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(host, ":"), host);
    endpoints[n] = (struct registry_endpoint){.is_loopback = http_host_is_loopback(name)};
    (void)snprintf(endpoints[n].name, sizeof endpoints[n].name, "%s", host);
    (void)snprintf(endpoints[n].address, sizeof endpoints[n].address, "%s",
                   is_hub ? "registry-1.docker.io" : host);
    return n + 1;
}
