/* Authorization: Basic, or a bearer token from the service a registry names. */
#include "base/encode.h"
#include "base/json.h"
#include "base/map.h"
#include "base/own.h"
#include "base/time.h"
#include "image/credentials.h"
#include "image/registry_line.h"

enum { GRANTS_MAX = 256, TOKEN_MAX = 64 << 10, TOKEN_SECONDS = 60, TOKEN_SECONDS_MAX = 3600 };
enum { TOKEN_MARGIN_MS = 5000 };

struct token_answer {
    struct str token, access_token;
    int64_t expires_in;
};

static const struct json_field token_fields[] = {
    {"token", JSON_TEXT, offsetof(struct token_answer, token), OPTIONAL, .max = TOKEN_MAX},
    {"access_token", JSON_TEXT, offsetof(struct token_answer, access_token), OPTIONAL,
     .max = TOKEN_MAX},
    {"expires_in", JSON_INTEGER, offsetof(struct token_answer, expires_in), OPTIONAL},
    {0},
};

static void key_of(const struct registry_line *line, char key[600])
{
    (void)snprintf(key, 600, "%s %s:%s", line->endpoint->address, line->repository, line->actions);
}

static struct registry_grant *find(struct registries *registries, const char *key)
{
    for (size_t i = 0; i < registries->n_grants; i++)
        if (strcmp(registries->grants[i].key, key) == 0)
            return &registries->grants[i];
    return NULL;
}

struct secret registry_grant_find(struct registry_line *line)
{
    struct registries *registries = line->registries;
    struct secret copy = {0};
    char key[600];

    key_of(line, key);
    pthread_mutex_lock(&registries->lock);
    const struct registry_grant *grant = find(registries, key);
    if (grant && grant->expires_ms > time_boot_ms())
        copy = secret_create(secret_reveal(&grant->header));
    pthread_mutex_unlock(&registries->lock);
    return copy;
}

static void drop_grant(struct registry_grant *grant)
{
    free(grant->key);
    secret_finish(&grant->header);
}

void registry_grants_finish(struct registries *registries)
{
    for (size_t i = 0; i < registries->n_grants; i++)
        drop_grant(&registries->grants[i]);
    free(registries->grants);
}

/* The oldest makes room. */
static struct registry_grant *make_room(struct registries *registries)
{
    if (!registries->grants)
        registries->grants = alloc(GRANTS_MAX * sizeof *registries->grants);
    if (registries->n_grants == GRANTS_MAX) {
        drop_grant(&registries->grants[0]);
        registries->n_grants--;
        memmove(registries->grants, registries->grants + 1,
                registries->n_grants * sizeof *registries->grants);
    }
    return &registries->grants[registries->n_grants++];
}

/* The header line with its NUL, so that it can be handed on as it is. */
static void remember(struct registry_line *line, const char *scheme, struct str value,
                     int64_t seconds)
{
    struct registries *registries = line->registries;
    size_t size = sizeof "Authorization: " + strlen(scheme) + 1 + value.len;
    AUTO_FREE char *header = alloc(size);
    char key[600];

    int len = snprintf(header, size, "Authorization: %s %.*s", scheme, (int)value.len, value.ptr);
    key_of(line, key);
    pthread_mutex_lock(&registries->lock);
    struct registry_grant *grant = find(registries, key);
    if (grant)
        secret_finish(&grant->header);
    else
        *(grant = make_room(registries)) = (struct registry_grant){.key = alloc_text(key)};
    grant->header = secret_create((struct str){header, (size_t)len + 1});
    grant->expires_ms = time_boot_ms() + seconds * 1000 - TOKEN_MARGIN_MS;
    pthread_mutex_unlock(&registries->lock);
    bytes_wipe(header, size);
}

static char *encode_basic(const struct credential *credential)
{
    struct str pair = secret_reveal(&credential->basic);
    size_t len = base64_encoded_len(pair.len);
    char *text = alloc(len + 1);

    base64_encode(pair, text);
    text[len] = '\0';
    return text;
}

static void free_wiped(char **text)
{
    if (*text)
        bytes_wipe(*text, strlen(*text));
    free(*text);
}

static bool add_pair(struct buf *out, const char *name, struct str value, struct error *err)
{
    struct str separator = out->len ? STR("&") : (struct str){0};

    return buf_append(out, separator, err) && buf_append(out, str_of(name), err) &&
           buf_append(out, STR("="), err) && percent_append(out, value, err);
}

static bool write_query(const struct registry_line *line, const struct challenge *challenge,
                        const struct credential *credential, struct buf *out, struct error *err)
{
    char scope[400];

    (void)snprintf(scope, sizeof scope, "repository:%s:%s", line->repository, line->actions);
    if (credential && secret_is_set(&credential->identity) &&
        (!add_pair(out, "grant_type", STR("refresh_token"), err) ||
         !add_pair(out, "client_id", STR("helmr"), err) ||
         !add_pair(out, "refresh_token", secret_reveal(&credential->identity), err)))
        return false;
    return (!challenge->service[0] || add_pair(out, "service", str_of(challenge->service), err)) &&
           add_pair(out, "scope", str_of(scope), err);
}

/* The token service's address, and whether our credentials may go there. */
static bool read_realm(const struct registry_line *line, const struct challenge *challenge,
                       struct registry_url *url, struct error *err)
{
    if (!registry_url_read(challenge->realm, NULL, url, err)) {
        err->code = ERR_UNAUTHENTICATED;
        return error_wrap(err, "%s names as its token service", line->endpoint->name);
    }
    return !url->is_loopback || line->root.is_loopback ||
           error_set(err, ERR_UNAUTHENTICATED,
                     "%s names a token service on this machine (%s): refused", line->endpoint->name,
                     url->origin);
}

static bool take_token(struct registry_line *line, struct str body, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct token_answer answer;
    struct error why;

    if (!json_read_loose(body, token_fields, &answer, sizeof answer, &arena, &why) ||
        (!answer.token.len && !answer.access_token.len))
        return error_set(err, ERR_UNAUTHENTICATED, "the token service of %s gave no token",
                         line->endpoint->name);
    int64_t seconds = answer.expires_in > TOKEN_SECONDS ? answer.expires_in : TOKEN_SECONDS;
    struct str token = answer.token.len ? answer.token : answer.access_token;
    remember(line, "Bearer", token, seconds < TOKEN_SECONDS_MAX ? seconds : TOKEN_SECONDS_MAX);
    bytes_wipe((char *)token.ptr, token.len);
    return true;
}

static bool ask_token(struct registry_line *line, const struct http_request *request,
                      const char *origin, struct error *err)
{
    struct http_answer answer = {.body.max = KIB(128)};
    struct http_client *client = registry_line_client(line, origin, err);
    bool ok = client && http_client_send(client, request, &answer, err);

    if (ok && answer.status == 200)
        ok = take_token(line, buf_str(&answer.body), err);
    else if (ok)
        ok = error_set(err,
                       answer.status == 429 || answer.status >= 500 ? ERR_LIMIT
                                                                    : ERR_UNAUTHENTICATED,
                       "the token service of %s (%s) answered with status %d", line->endpoint->name,
                       origin, answer.status);
    if (answer.body.bytes)
        bytes_wipe(answer.body.bytes, answer.body.len);
    buf_finish(&answer.body);
    return ok;
}

static bool renew_bearer(struct registry_line *line, const struct challenge *challenge,
                         const struct credential *credential, struct error *err)
{
    AUTO(buf_finish) struct buf query = {.max = KIB(64)};
    AUTO(free_wiped) char *basic = NULL, *header = NULL;
    struct registry_url realm;
    char path[URL_PATH * 2];

    if (!read_realm(line, challenge, &realm, err))
        return false;
    if (!registry_hosts_are_related(line->root.host, realm.host))
        credential = NULL;
    if (!write_query(line, challenge, credential, &query, err))
        return false;
    bool is_post = credential && secret_is_set(&credential->identity);
    struct http_request request = {
        .method = is_post ? "POST" : "GET",
        .path = realm.path,
        .stall_ms = line->registries->pace.stall_ms,
        .abort = line->abort,
    };
    if (is_post) {
        request.body = buf_str(&query);
        request.content_type = "application/x-www-form-urlencoded";
    } else {
        int written = snprintf(path, sizeof path, "%s%c%.*s", realm.path,
                               strchr(realm.path, '?') ? '&' : '?', (int)query.len, query.bytes);
        if (written < 0 || (size_t)written >= sizeof path)
            return error_set(err, ERR_INVALID, "the token service's address is too long");
        request.path = path;
    }
    if (credential && secret_is_set(&credential->basic)) {
        basic = encode_basic(credential);
        if (asprintf(&header, "Authorization: Basic %s", basic) < 0)
            abort();
    }
    request.headers = (const char *const[]){REGISTRY_USER_AGENT, header, NULL};
    bool ok = ask_token(line, &request, realm.origin, err);
    if (query.bytes)
        bytes_wipe(query.bytes, query.len);
    return ok;
}

static bool renew_basic(struct registry_line *line, const struct credential *credential,
                        struct error *err)
{
    AUTO(free_wiped) char *basic = NULL;
    const char *helper = credential->helper;

    if (!secret_is_set(&credential->basic))
        return error_set(err, ERR_UNAUTHENTICATED, "%s asks for a user and a password: %s%s%s",
                         line->endpoint->name,
                         helper[0] ? "the file of credentials leaves them to the helper "
                                   : "there are none for it in the file of credentials",
                         helper, helper[0] ? ", and helpers are not run" : "");
    basic = encode_basic(credential);
    remember(line, "Basic", str_of(basic), TOKEN_SECONDS_MAX);
    return true;
}

/* Why the anonymous way was the only one, for an error that would else be a riddle. */
static bool explain(const struct registry_line *line, const struct credential *credential,
                    struct error *err)
{
    if (err->code == ERR_UNAUTHENTICATED && credential->helper[0])
        return error_wrap(err,
                          "the credentials of %s are left to the helper %s, and helpers are not "
                          "run",
                          line->endpoint->name, credential->helper);
    return false;
}

bool registry_grant_renew(struct registry_line *line, const struct challenge *challenge,
                          struct error *err)
{
    AUTO(credential_finish) struct credential credential = {0};
    const char *file = line->registries->auth_file;

    if (challenge->scheme == CHALLENGE_NONE)
        return error_set(err, ERR_UNAUTHENTICATED,
                         "%s asks for an authorization of a kind that is not spoken here",
                         line->endpoint->name);
    if (file && !credentials_find(file, line->endpoint->name, line->repository, &credential, err))
        return false;
    if (challenge->scheme == CHALLENGE_BASIC)
        return renew_basic(line, &credential, err);
    return renew_bearer(line, challenge, &credential, err) || explain(line, &credential, err);
}
