#include "image/registry_line.h"

#include "base/json.h"
#include "base/map.h"
#include "base/own.h"
#include "base/time.h"

static const char mark; /* what `clear` holds: only the key counts */

struct http_client *registry_line_client(struct registry_line *line, const char *origin,
                                         struct error *err)
{
    for (size_t i = 0; i < LINE_CLIENTS; i++)
        if (line->clients[i].client && strcmp(line->clients[i].origin, origin) == 0)
            return line->clients[i].client;

    struct line_client *slot = &line->clients[line->next_client++ % LINE_CLIENTS];
    http_client_destroy(TAKE(slot->client));
    if (!http_client_create(origin, &slot->client, err))
        return NULL;
    (void)snprintf(slot->origin, sizeof slot->origin, "%s", origin);
    if (line->registries->ca_file)
        http_client_set_authorities(slot->client, line->registries->ca_file);
    return slot->client;
}

void registry_line_close(struct registry_line *line)
{
    for (size_t i = 0; i < LINE_CLIENTS; i++)
        http_client_destroy(TAKE(line->clients[i].client));
}

static bool set_root(struct registry_line *line, const char *scheme, struct error *err)
{
    const struct registry_endpoint *endpoint = line->endpoint;
    char text[700];

    (void)snprintf(text, sizeof text, "%s://%s%s", scheme, endpoint->address, endpoint->prefix);
    return registry_url_read(text, NULL, &line->root, err) ||
           error_wrap(err, "the registry %s", endpoint->name);
}

static bool speaks(struct registry_line *line, const char *scheme, bool *is_untrusted,
                   struct error *err)
{
    struct http_answer answer = {.body.max = MIB(1)};
    char path[300];

    if (!set_root(line, scheme, err))
        return false;
    struct http_client *client = registry_line_client(line, line->root.origin, err);
    (void)snprintf(path, sizeof path, "%s/v2/", line->endpoint->prefix);
    bool ok = client && http_client_send(client,
                                         &(struct http_request){
                                             .method = "GET",
                                             .path = path,
                                             .stall_ms = line->registries->pace.stall_ms,
                                             .abort = line->abort,
                                         },
                                         &answer, err);
    *is_untrusted = answer.is_untrusted;
    buf_finish(&answer.body);
    return ok;
}

static bool is_known_clear(struct registry_line *line, bool learn)
{
    struct registries *registries = line->registries;
    struct str key = str_of(line->endpoint->address);

    pthread_mutex_lock(&registries->lock);
    bool known = map_find(&registries->clear, key) != NULL;
    if (learn && !known)
        (void)map_put(&registries->clear, key, (void *)&mark);
    pthread_mutex_unlock(&registries->lock);
    return known;
}

/* A registry on this machine may do without TLS, but one that has it is not asked without. */
static bool find_scheme(struct registry_line *line, struct error *err)
{
    bool is_untrusted = false;
    struct error why;

    if (is_known_clear(line, false))
        return set_root(line, "http", err);
    if (speaks(line, "https", &is_untrusted, &why))
        return true;
    if (is_untrusted || why.code != ERR_UNAVAILABLE) {
        *err = why;
        return false;
    }
    if (!speaks(line, "http", &is_untrusted, err))
        return false;
    (void)is_known_clear(line, true);
    return true;
}

bool registry_line_open(struct registry_line *line, struct registries *registries,
                        const struct registry_endpoint *endpoint, const char *repository,
                        const char *actions, const volatile bool *abort, struct error *err)
{
    *line = (struct registry_line){
        .registries = registries,
        .endpoint = endpoint,
        .repository = repository,
        .actions = actions,
        .abort = abort,
    };
    if (!endpoint->is_loopback)
        return set_root(line, "https", err);
    if (find_scheme(line, err))
        return true;
    registry_line_close(line);
    if (err->code == ERR_TIMEOUT)
        err->code = ERR_UNAVAILABLE;
    return false;
}

static void copy_value(char *room, size_t size, struct str value)
{
    if (value.len >= size)
        value.len = 0;
    if (value.len)
        memcpy(room, value.ptr, value.len);
    room[value.len] = '\0';
}

/* Leading digits; -1 when there are none or too many. */
static int64_t number_of(struct str text)
{
    int64_t number = 0;
    size_t n = 0;

    for (; n < text.len && text.ptr[n] >= '0' && text.ptr[n] <= '9'; n++) {
        if (n == 18)
            return -1;
        number = number * 10 + (text.ptr[n] - '0');
    }
    return n ? number : -1;
}

static void on_header(void *arg, struct str name, struct str value)
{
    struct registry_reply *reply = arg;

    if (str_equal_nocase(name, STR("location"))) {
        copy_value(reply->location, sizeof reply->location, value);
    } else if (str_equal_nocase(name, STR("content-type"))) {
        copy_value(reply->content_type, sizeof reply->content_type, value);
    } else if (str_equal_nocase(name, STR("www-authenticate"))) {
        (void)!challenge_read(value, &reply->challenge);
    } else if (str_equal_nocase(name, STR("retry-after"))) {
        int64_t seconds = number_of(value);
        reply->retry_after_ms = seconds < 0 || seconds > 86400 ? -1 : seconds * 1000;
    } else if (str_equal_nocase(name, STR("content-range"))) {
        reply->is_partial = true;
        reply->range_start = value.len > 6 && strncasecmp(value.ptr, "bytes ", 6) == 0
                                 ? number_of((struct str){value.ptr + 6, value.len - 6})
                                 : -1;
    }
}

static void reset_reply(struct registry_reply *reply)
{
    reply->status = 0;
    reply->challenge = (struct challenge){0};
    reply->location[0] = reply->content_type[0] = '\0';
    reply->is_partial = false;
    reply->range_start = -1;
    reply->retry_after_ms = -1;
}

static bool send_once(struct registry_line *line, const struct registry_url *url,
                      const struct registry_ask *ask, bool is_ours, struct registry_reply *reply,
                      struct error *err)
{
    struct secret grant = is_ours ? registry_grant_find(line) : (struct secret){0};
    struct http_client *client = registry_line_client(line, url->origin, err);
    struct http_answer answer = {.body = reply->body};
    struct http_request request = ask->http;
    const char *headers[4] = {REGISTRY_USER_AGENT};
    size_t n = 1;

    if (ask->header)
        headers[n++] = ask->header;
    if (secret_is_set(&grant))
        headers[n++] = secret_reveal(&grant).ptr;
    request.path = url->path;
    request.headers = headers;
    request.stall_ms = line->registries->pace.stall_ms;
    request.abort = line->abort;
    request.on_header = on_header;
    request.on_header_arg = reply;
    reset_reply(reply);
    bool ok = client && http_client_send(client, &request, &answer, err);
    reply->status = answer.status;
    reply->body = answer.body;
    secret_finish(&grant);
    return ok;
}

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* A registry elsewhere has no business on this machine's loopback. */
static bool follow(const struct registry_line *line, const struct registry_reply *reply,
                   struct registry_url *url, struct error *err)
{
    struct registry_url next;

    if (!reply->location[0])
        return error_set(err, ERR_INTERNAL, "%s redirects without an address",
                         line->endpoint->name);
    if (!registry_url_read(reply->location, url, &next, err)) {
        err->code = ERR_INTERNAL;
        return error_wrap(err, "%s redirects to", line->endpoint->name);
    }
    if (next.is_loopback && !line->root.is_loopback)
        return error_set(err, ERR_INTERNAL, "%s redirects to this machine itself (%s): refused",
                         line->endpoint->name, next.origin);
    *url = next;
    return true;
}

static bool start_url(const struct registry_line *line, const struct registry_ask *ask,
                      struct registry_url *url, struct error *err)
{
    if (ask->url) {
        *url = *ask->url;
        return true;
    }
    *url = line->root;
    int written = snprintf(url->path, sizeof url->path, "%s/v2/%s/%s", line->endpoint->prefix,
                           line->repository, ask->path);
    return (written > 0 && (size_t)written < sizeof url->path) ||
           error_set(err, ERR_INVALID, "an address is too long");
}

bool registry_line_send(struct registry_line *line, const struct registry_ask *ask,
                        struct registry_reply *reply, struct error *err)
{
    bool is_read = strcmp(ask->http.method, "GET") == 0 || strcmp(ask->http.method, "HEAD") == 0;
    bool is_renewed = false;
    struct registry_url url;

    if (!start_url(line, ask, &url, err))
        return false;
    for (int hops = 0; hops <= LINE_REDIRECTS;) {
        bool is_ours = strcmp(url.origin, line->root.origin) == 0;
        if (!send_once(line, &url, ask, is_ours, reply, err))
            return false;
        if (reply->status == 401 && is_ours && !is_renewed) {
            if (!registry_grant_renew(line, &reply->challenge, err))
                return false;
            is_renewed = true;
        } else if (is_redirect(reply->status) && is_read) {
            if (!follow(line, reply, &url, err))
                return false;
            hops++;
        } else {
            return true;
        }
    }
    return error_set(err, ERR_INTERNAL, "%s redirects more than %d times", line->endpoint->name,
                     (int)LINE_REDIRECTS);
}

bool registry_may_retry(int status, const struct error *err)
{
    if (status == 0)
        return err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT || err->code == ERR_LIMIT;
    return status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);
}

bool registry_line_rest(struct registry_line *line, int tries, int64_t retry_after_ms,
                        struct error *err)
{
    const struct registry_pace *pace = &line->registries->pace;
    int64_t rest = tries > 1 ? pace->backoff_ms * 4 : pace->backoff_ms;

    if (retry_after_ms > rest)
        rest = retry_after_ms < pace->retry_after_ms ? retry_after_ms : pace->retry_after_ms;
    for (int64_t end = time_boot_ms() + rest; !(line->abort && *line->abort);) {
        int64_t left = end - time_boot_ms();
        if (left <= 0)
            return true;
        (void)usleep((useconds_t)(left < 50 ? left : 50) * 1000);
    }
    return error_set(err, ERR_CANCELLED, "stopped while waiting for %s", line->endpoint->name);
}

bool registry_line_try(struct registry_line *line, const struct registry_ask *ask,
                       struct registry_reply *reply, struct error *err)
{
    struct error why;

    for (int tries = 1;; tries++) {
        bool ok = registry_line_send(line, ask, reply, &why);
        if (tries == LINE_TRIES || !registry_may_retry(ok ? reply->status : 0, &why)) {
            if (!ok)
                *err = why;
            if (!ok && err->code == ERR_TIMEOUT)
                err->code = ERR_UNAVAILABLE;
            return ok;
        }
        if (!registry_line_rest(line, tries, reply->retry_after_ms, err))
            return false;
    }
}

static const struct refusal {
    int status;
    enum error_code code;
    const char *text;
} refusals[] = {
    {401, ERR_UNAUTHENTICATED, "needs credentials that are accepted"  },
    {403, ERR_FORBIDDEN,       "may not be had with these credentials"},
    {404, ERR_NOT_FOUND,       "is not there"                         },
    {413, ERR_TOO_LARGE,       "is too large for it"                  },
    {429, ERR_LIMIT,           "was asked for too often"              },
};

/* What the registry says itself, as far as it can be shown. */
static void append_message(const struct registry_reply *reply, char *room, size_t size)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str message;

    room[0] = '\0';
    if (!reply->body.len ||
        !json_find_text(buf_str(&reply->body), "errors.0.message", &arena, &message) ||
        message.len == 0 || message.len > 160)
        return;
    for (size_t i = 0; i < message.len; i++)
        if (message.ptr[i] < ' ' || message.ptr[i] > '~')
            return;
    (void)snprintf(room, size, ": %.*s", (int)message.len, message.ptr);
}

bool registry_line_refused(const struct registry_line *line, const char *what,
                           const struct registry_reply *reply, struct error *err)
{
    struct refusal refusal = {reply->status, ERR_INTERNAL, "was answered with an error"};
    char message[200];

    for (size_t i = 0; i < COUNT_OF(refusals); i++)
        if (refusals[i].status == reply->status)
            refusal = refusals[i];
    append_message(reply, message, sizeof message);
    return error_set(err, refusal.code, "%s: %s %s (status %d%s)", line->endpoint->name, what,
                     refusal.text, reply->status, message);
}
