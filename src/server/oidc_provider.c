#include "server/oidc_provider.h"

#include <stdlib.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "http/client.h"
#include "server/context.h"
#include "server/listen.h"

enum {
    INSIDE_MAX = 2,
    REQUEST_MS = 10 * 1000,
    FRESH_MS = 10 * 60 * 1000,
    DOCUMENT_MAX = 256 * 1024,
    BODY_MAX = 32 * 1024,
    URL_MAX = 2048,
};

void oidc_cache_init(struct oidc_cache *cache)
{
    *cache = (struct oidc_cache){0};
    pthread_mutex_init(&cache->lock, NULL);
}

void oidc_cache_finish(struct oidc_cache *cache)
{
    free(cache->document);
    pthread_mutex_destroy(&cache->lock);
}

/* Into what the client takes: the server's address and the path. */
static bool split_url(struct str url, struct arena *arena, const char **base, const char **path,
                      struct error *err)
{
    const char *text = arena_text(arena, url);
    const char *host = strstr(text, "://");
    bool is_safe = url.len <= URL_MAX && host && !strpbrk(text, "#\r\n @") &&
                   (strncmp(text, "https://", 8) == 0 || listen_url_is_loopback(text));
    if (!is_safe)
        return error_set(err, ERR_UNAVAILABLE,
                         "the OpenID provider names an address that is not "
                         "https");
    size_t len = (size_t)(host + 3 - text) + strcspn(host + 3, "/?");
    *base = arena_text(arena, (struct str){text, len});
    *path = text[len] == '/' ? text + len : arena_printf(arena, "/%s", text + len);
    return true;
}

static bool talk(struct str url, struct http_request *request, const struct secret *bearer,
                 size_t max, struct arena *arena, struct str *answer, struct error *err)
{
    struct http_answer got = {.body = {.max = max}};
    struct http_client *client = NULL;
    const char *base = NULL;
    if (!split_url(url, arena, &base, &request->path, err) ||
        !http_client_create(base, &client, err))
        return false;
    request->timeout_ms = REQUEST_MS;
    http_client_set_bearer(client, bearer);
    bool ok = http_client_send(client, request, &got, err);
    if (ok && got.status != 200)
        ok = error_set(err, ERR_UNAVAILABLE, "the OpenID provider answered with status %d",
                       got.status);
    if (ok)
        *answer = arena_str(arena, buf_str(&got.body));
    buf_finish(&got.body);
    http_client_destroy(client);
    return ok;
}

bool oidc_fetch(struct str url, struct str token, size_t max, struct arena *arena,
                struct str *answer, struct error *err)
{
    AUTO(secret_finish) struct secret bearer = {0};
    struct http_request request = {.method = "GET"};
    if (token.len > 0)
        bearer = secret_create(token);
    return talk(url, &request, token.len > 0 ? &bearer : NULL, max, arena, answer, err);
}

static bool find_document(struct server *server, struct arena *arena, struct str *document,
                          struct error *err)
{
    struct oidc_cache *cache = &server->oidc;
    int64_t now = time_boot_ms();
    pthread_mutex_lock(&cache->lock);
    bool is_fresh = cache->document && now - cache->read_ms < FRESH_MS;
    if (is_fresh)
        *document = arena_str(arena, str_of(cache->document));
    pthread_mutex_unlock(&cache->lock);
    if (is_fresh)
        return true;

    struct str issuer = str_trim(str_of(server->config->oidc_issuer), STR("/"));
    const char *url =
        arena_printf(arena, "%.*s/.well-known/openid-configuration", (int)issuer.len, issuer.ptr);
    return oidc_fetch(str_of(url), (struct str){0}, DOCUMENT_MAX, arena, document, err) ||
           error_wrap(err, "asking the OpenID provider");
}

static void keep_document(struct oidc_cache *cache, struct str document)
{
    pthread_mutex_lock(&cache->lock);
    free(cache->document);
    cache->document = strndup(document.ptr, document.len);
    cache->read_ms = time_boot_ms();
    pthread_mutex_unlock(&cache->lock);
}

static const struct json_field endpoint_fields[] = {
    {"issuer", JSON_TEXT, offsetof(struct oidc_endpoints, issuer), REQUIRED, .max = URL_MAX},
    {"authorization_endpoint", JSON_TEXT, offsetof(struct oidc_endpoints, authorization), REQUIRED,
     .max = URL_MAX},
    {"token_endpoint", JSON_TEXT, offsetof(struct oidc_endpoints, token), REQUIRED, .max = URL_MAX},
    {"jwks_uri", JSON_TEXT, offsetof(struct oidc_endpoints, key_set), REQUIRED, .max = URL_MAX},
    {"userinfo_endpoint", JSON_TEXT, offsetof(struct oidc_endpoints, user_info), OPTIONAL,
     .max = URL_MAX},
    {0},
};

static bool find_inside(struct server *server, struct arena *arena,
                        struct oidc_endpoints *endpoints, struct error *err)
{
    struct str document;
    const char *base, *path;
    if (!find_document(server, arena, &document, err) ||
        !json_read_loose(document, endpoint_fields, endpoints, sizeof *endpoints, arena, err) ||
        !split_url(endpoints->authorization, arena, &base, &path, err))
        return false;
    struct str wanted = str_trim(str_of(server->config->oidc_issuer), STR("/"));
    if (!str_equal(str_trim(endpoints->issuer, STR("/")), wanted))
        return error_set(err, ERR_UNAVAILABLE,
                         "the OpenID provider calls itself by another name "
                         "than HELMR_OIDC_ISSUER");
    keep_document(&server->oidc, document);
    return true;
}

bool oidc_find_endpoints(struct server *server, struct arena *arena,
                         struct oidc_endpoints *endpoints, struct error *err)
{
    atomic_int *inside = &server->oidc.inside;
    bool ok = atomic_fetch_add(inside, 1) < INSIDE_MAX
                  ? find_inside(server, arena, endpoints, err)
                  : error_set(err, ERR_UNAVAILABLE, "too many people sign in at once: try again");
    atomic_fetch_sub(inside, 1);
    return ok;
}

static bool add_pair(struct buf *body, const char *name, struct str value, struct error *err)
{
    return (body->len == 0 || buf_append(body, STR("&"), err)) &&
           buf_append(body, str_of(name), err) && buf_append(body, STR("="), err) &&
           percent_append(body, value, err);
}

/* As RFC 6749 has it: both are percent-encoded before they are joined. */
static bool basic_header(const struct server_config *config, struct arena *arena,
                         const char **header, struct error *err)
{
    AUTO(buf_finish) struct buf plain = {.max = BODY_MAX};
    AUTO(buf_finish) struct buf line = {.max = DOCUMENT_MAX};
    bool ok = percent_append(&plain, str_of(config->oidc_client_id), err) &&
              buf_append(&plain, STR(":"), err) &&
              percent_append(&plain, secret_reveal(&config->oidc_client_secret), err) &&
              buf_append(&line, STR("Authorization: Basic "), err) &&
              base64_append(&line, buf_str(&plain), err);
    if (ok)
        *header = arena_text(arena, buf_str(&line));
    if (plain.bytes)
        bytes_wipe(plain.bytes, plain.len);
    return ok;
}

static const struct json_field token_fields[] = {
    {"id_token", JSON_TEXT, offsetof(struct oidc_tokens, id_token), REQUIRED},
    {"access_token", JSON_TEXT, offsetof(struct oidc_tokens, access_token), OPTIONAL},
    {0},
};

bool oidc_redeem(struct server *server, const struct oidc_endpoints *endpoints, struct str code,
                 struct str verifier, const char *redirect_uri, struct arena *arena,
                 struct oidc_tokens *tokens, struct error *err)
{
    const struct server_config *config = server->config;
    bool is_secret = secret_is_set(&config->oidc_client_secret);
    const char *headers[] = {NULL, NULL};
    struct str answer;
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    if (!add_pair(&body, "grant_type", STR("authorization_code"), err) ||
        !add_pair(&body, "code", code, err) || !add_pair(&body, "code_verifier", verifier, err) ||
        !add_pair(&body, "redirect_uri", str_of(redirect_uri), err) ||
        (!is_secret && !add_pair(&body, "client_id", str_of(config->oidc_client_id), err)) ||
        (is_secret && !basic_header(config, arena, &headers[0], err)))
        return false;
    struct http_request request = {
        .method = "POST",
        .body = buf_str(&body),
        .content_type = "application/x-www-form-urlencoded",
        .headers = headers,
    };
    return (talk(endpoints->token, &request, NULL, DOCUMENT_MAX, arena, &answer, err) &&
            json_read_loose(answer, token_fields, tokens, sizeof *tokens, arena, err)) ||
           error_wrap(err, "redeeming the code");
}
