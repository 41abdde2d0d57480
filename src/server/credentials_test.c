/* Every route with every kind of wrong credential: none opens anything but what is public. */
#include <stdlib.h>

#include "base/time.h"
#include "model/permission.h"
#include "server/routes.h"
#include "server/service_suite.h"
#include "server/session.h"
#include "server/worker_testing.h"

/* Good ones first, then those made of them. Keys have every permission, sessions are of owners. */
enum token {
    NO_TOKEN,
    KEY,
    SESSION,
    WORKER_BEARER,
    WORKER_CREDENTIAL,
    KEY_TRUNCATED,
    KEY_PREFIX,
    KEY_AND_MORE,
    KEY_TWICE,
    KEY_QUOTED,
    KEY_IN_OTHER_CASE,
    KEY_WITH_CAPITAL_PREFIX,
    KEY_EXPIRED,
    KEY_REVOKED,
    KEY_OF_DISABLED,
    KEY_OF_REMOVED,
    KEY_AS_SESSION,
    SESSION_AS_KEY,
    SESSION_EXPIRED,
    SESSION_REVOKED,
    SESSION_UNUSED,
    SESSION_OF_DISABLED,
    SESSION_OF_REMOVED,
    BEARER_TRUNCATED,
    TOKEN_COUNT,
};

/* Where a credential is wrong: everywhere, or everywhere but where it belongs. */
enum reach { EVERYWHERE, BESIDE_WORKERS, AT_WORKERS, AT_CHANGES };

#define BEARER "Authorization: Bearer "
#define COOKIE "Cookie: " SESSION_COOKIE "="

static const struct wrong {
    const char *header; /* before the token; NULL: none */
    enum token token;
    enum reach reach;
    const char *more; /* a second header */
} wrongs[] = {
    {NULL,                           NO_TOKEN,                EVERYWHERE,     NULL                           },
    {"Authorization;",               NO_TOKEN,                EVERYWHERE,     NULL                           },
    {"Authorization: Bearer",        NO_TOKEN,                EVERYWHERE,     NULL                           },
    {BEARER "nonsense",              NO_TOKEN,                EVERYWHERE,     NULL                           },
    {BEARER "hlmr_sk_",              NO_TOKEN,                EVERYWHERE,     NULL                           },
    {BEARER "hlmr_sk_nonsense",      NO_TOKEN,                EVERYWHERE,     NULL                           },
    {BEARER "hlmr_us_nonsense",      NO_TOKEN,                EVERYWHERE,     NULL                           },
    {BEARER "hlmr_wb_nonsense",      NO_TOKEN,                EVERYWHERE,     NULL                           },
    {BEARER " ",                     KEY,                     EVERYWHERE,     NULL                           },
    {"Authorization: Bearer",        KEY,                     EVERYWHERE,     NULL                           },
    {"Authorization: ",              KEY,                     EVERYWHERE,     NULL                           },
    {"Authorization: Basic ",        KEY,                     EVERYWHERE,     NULL                           },
    {"Authorization: Token ",        KEY,                     EVERYWHERE,     NULL                           },
    {"X-API-Key: ",                  KEY,                     EVERYWHERE,     NULL                           },
    {"Proxy-Authorization: Bearer ", KEY,                     EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_TRUNCATED,           EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_PREFIX,              EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_AND_MORE,            EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_TWICE,               EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_QUOTED,              EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_IN_OTHER_CASE,       EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_WITH_CAPITAL_PREFIX, EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_EXPIRED,             EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_REVOKED,             EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_OF_DISABLED,         EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_OF_REMOVED,          EVERYWHERE,     NULL                           },
    {BEARER,                         KEY_AS_SESSION,          EVERYWHERE,     NULL                           },
    {BEARER,                         SESSION_AS_KEY,          EVERYWHERE,     NULL                           },
    {BEARER,                         SESSION_EXPIRED,         EVERYWHERE,     NULL                           },
    {BEARER,                         SESSION_REVOKED,         EVERYWHERE,     NULL                           },
    {BEARER,                         SESSION_UNUSED,          EVERYWHERE,     NULL                           },
    {BEARER,                         SESSION_OF_DISABLED,     EVERYWHERE,     NULL                           },
    {BEARER,                         SESSION_OF_REMOVED,      EVERYWHERE,     NULL                           },
    {BEARER,                         WORKER_BEARER,           BESIDE_WORKERS, NULL                           },
    {BEARER,                         WORKER_CREDENTIAL,       EVERYWHERE,     NULL                           },
    {BEARER,                         BEARER_TRUNCATED,        EVERYWHERE,     NULL                           },
    {BEARER,                         KEY,                     AT_WORKERS,     NULL                           },
    {BEARER,                         SESSION,                 AT_WORKERS,     NULL                           },
    {COOKIE,                         KEY,                     EVERYWHERE,     NULL                           },
    {COOKIE,                         WORKER_BEARER,           EVERYWHERE,     NULL                           },
    {COOKIE,                         SESSION_REVOKED,         EVERYWHERE,     NULL                           },
    {COOKIE,                         SESSION_EXPIRED,         EVERYWHERE,     NULL                           },
    {"Cookie: session=",             SESSION,                 EVERYWHERE,     NULL                           },
    {"Cookie: x" SESSION_COOKIE "=", SESSION,                 EVERYWHERE,     NULL                           },
    {COOKIE,                         SESSION,                 AT_WORKERS,     NULL                           },
    {COOKIE,                         SESSION,                 AT_CHANGES,     NULL                           },
    {COOKIE,                         SESSION,                 AT_CHANGES,     "Origin: null"                 },
    {COOKIE,                         SESSION,                 AT_CHANGES,     "Origin: http://evil.example"  },
    {COOKIE,                         SESSION,                 EVERYWHERE,     BEARER "nonsense"              },
    {COOKIE,                         SESSION,                 EVERYWHERE,     "Authorization: Basic bm86bm8="},
};

struct walk {
    struct service *service;
    const char *tokens[TOKEN_COUNT];
    struct test_worker worker;
    int n_asked;
};

#define SPOIL(what, sql) {"test_" what, 1, 0, SAME_ON_BOTH(sql)}

static const struct query
    disable = SPOIL("disable", "UPDATE members SET status = 'disabled' WHERE user_id = $1"),
    fire = SPOIL("fire", "DELETE FROM members WHERE user_id = $1"),
    expire = SPOIL("expire", "UPDATE user_sessions SET expires_ms = 1 WHERE user_id = $1"),
    close_session = SPOIL("close", "UPDATE user_sessions SET revoked_ms = 1 WHERE user_id = $1"),
    forget = SPOIL("forget", "UPDATE user_sessions SET used_ms = 1 WHERE user_id = $1"),
    expire_key = SPOIL("expire_key", "UPDATE api_keys SET expires_ms = 1 WHERE id = $1");

static bool spoil(struct service *service, const struct query *query, const char *id)
{
    bool ok = service_change(service, query, (const struct value[]){V_TEXT(id)}, 1, 1);
    caller_cache_clear(&service->server->callers);
    return ok;
}

/* Every permission that a key can have, granted by this session. */
static const char *make_key(struct service *service, const char *session)
{
    const char *scopes = "";
    for (enum permission p = 0; p < PERM_COUNT; p++)
        if (permission_is_grantable(p))
            scopes = arena_printf(&service->arena, "%s%s\"%s\"", scopes, *scopes ? "," : "",
                                  permission_name(p));
    snprintf(service->session, sizeof service->session, "%s", session);
    return service_make_key(service, scopes);
}

/* A member whose session and key are spoiled by what happens to them. */
static bool make_member(struct walk *walk, enum token session, enum token key,
                        const struct query *query)
{
    struct service *service = walk->service;
    struct person person;
    struct error err;
    if (!service_join(service, "owner", &person, &err))
        return false;
    walk->tokens[session] = arena_text(&service->arena, str_of(person.session));
    if (key != NO_TOKEN)
        walk->tokens[key] = make_key(service, person.session);
    return !query || spoil(service, query, person.id);
}

static bool make_members(struct walk *walk)
{
    return make_member(walk, SESSION_OF_DISABLED, KEY_OF_DISABLED, &disable) &&
           make_member(walk, SESSION_OF_REMOVED, KEY_OF_REMOVED, &fire) &&
           make_member(walk, SESSION_EXPIRED, NO_TOKEN, &expire) &&
           make_member(walk, SESSION_REVOKED, NO_TOKEN, &close_session) &&
           make_member(walk, SESSION_UNUSED, NO_TOKEN, &forget) &&
           make_member(walk, SESSION, KEY, NULL);
}

static bool make_bad_keys(struct walk *walk)
{
    struct service *service = walk->service;
    walk->tokens[KEY_EXPIRED] = make_key(service, walk->tokens[SESSION]);
    const char *id = service_text(service, "id");
    if (!spoil(service, &expire_key, id))
        return false;
    walk->tokens[KEY_REVOKED] = make_key(service, walk->tokens[SESSION]);
    const char *path =
        arena_printf(&service->arena, "/api/api-keys/%s", service_text(service, "id"));
    return service_ask(service, walk->tokens[SESSION], "DELETE", path, NULL) == 204;
}

static const char *swapped(struct arena *arena, const char *token, size_t from, size_t to)
{
    char *text = arena_text(arena, str_of(token));
    for (size_t i = from; i < to && text[i]; i++)
        if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z'))
            text[i] = (char)(text[i] ^ ' ');
    return text;
}

static const char *shortened(struct arena *arena, const char *token)
{
    return arena_printf(arena, "%.*s", (int)strlen(token) - 1, token);
}

static void twist(struct walk *walk)
{
    struct arena *arena = &walk->service->arena;
    const char **tokens = walk->tokens, *key = tokens[KEY];
    tokens[NO_TOKEN] = "";
    tokens[WORKER_BEARER] = walk->worker.bearer;
    tokens[WORKER_CREDENTIAL] = walk->worker.credential;
    tokens[BEARER_TRUNCATED] = shortened(arena, walk->worker.bearer);
    tokens[KEY_TRUNCATED] = shortened(arena, key);
    tokens[KEY_PREFIX] = arena_printf(arena, "%.16s", key);
    tokens[KEY_AND_MORE] = arena_printf(arena, "%s%0100d", key, 0);
    tokens[KEY_TWICE] = arena_printf(arena, "%s, %s", key, key);
    tokens[KEY_QUOTED] = arena_printf(arena, "\"%s\"", key);
    tokens[KEY_IN_OTHER_CASE] = swapped(arena, key, 8, SIZE_MAX);
    tokens[KEY_WITH_CAPITAL_PREFIX] = swapped(arena, key, 0, 8);
    tokens[KEY_AS_SESSION] = arena_printf(arena, "hlmr_us_%s", key + 8);
    tokens[SESSION_AS_KEY] = arena_printf(arena, "hlmr_sk_%s", tokens[SESSION] + 8);
}

static bool is_worker_route(const struct route *route)
{
    return strncmp(route->pattern, "/api/worker/", 12) == 0;
}

static bool applies(const struct wrong *wrong, const struct route *route)
{
    switch (wrong->reach) {
    case EVERYWHERE: return true;
    case BESIDE_WORKERS: return !is_worker_route(route);
    case AT_WORKERS: return is_worker_route(route);
    case AT_CHANGES: return route->method != METHOD_GET;
    }
    abort();
}

static const char *method_name(enum http_method method)
{
    static const char *const names[] = {
        [METHOD_GET] = "GET",     [METHOD_POST] = "POST",     [METHOD_PUT] = "PUT",
        [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
    };
    return names[method];
}

/* An id that nothing has stands for every parameter. */
static const char *path_of(struct arena *arena, const char *pattern)
{
    const char *path = arena_text(arena, str_of(pattern)), *colon;
    while ((colon = strchr(path, ':')))
        path = arena_printf(arena, "%.*s01981f4e-0000-7000-8000-000000000000%s",
                            (int)(colon - path), path, colon + strcspn(colon, "/"));
    return path;
}

static int ask(struct walk *walk, const struct route *route, const struct wrong *wrong)
{
    struct arena *arena = &walk->service->arena;
    const char *header =
        wrong->header ? arena_printf(arena, "%s%s", wrong->header, walk->tokens[wrong->token])
                      : wrong->more;
    const char *const headers[] = {header, wrong->header ? wrong->more : NULL, NULL};
    bool has_body = route->method != METHOD_GET && route->method != METHOD_DELETE;
    const struct http_request request = {
        .method = method_name(route->method),
        .path = path_of(arena, route->pattern),
        .body = has_body ? STR("{}") : (struct str){0},
        .headers = headers,
    };
    walk->n_asked++;
    return service_send(walk->service, NULL, &request);
}

/* What is public answers as it likes; of the plane of workers it asks for a proof in the body. */
static bool is_guarded(const struct route *route)
{
    return route->needs != PERM_PUBLIC || is_worker_route(route);
}

static bool is_refused(const struct route *route, int status)
{
    return route->needs == PERM_PUBLIC ? status >= 400 : status == 401 || status == 403;
}

static bool walk_routes(struct walk *walk)
{
    bool ok = true;
    for (size_t i = 0; i < n_server_routes; i++) {
        for (size_t j = 0; j < COUNT_OF(wrongs); j++) {
            if (!is_guarded(&server_routes[i]) || !applies(&wrongs[j], &server_routes[i]))
                continue;
            int status = ask(walk, &server_routes[i], &wrongs[j]);
            if (is_refused(&server_routes[i], status))
                continue;
            printf("# %s %s with %s and token %d: %d\n", method_name(server_routes[i].method),
                   server_routes[i].pattern, wrongs[j].header ? wrongs[j].header : "nothing",
                   (int)wrongs[j].token, status);
            ok = false;
        }
    }
    return ok;
}

SERVICE_TEST(no_wrong_credential_opens_any_route)
{
    struct walk walk = {.service = service};
    CHECK(worker_join(&walk.worker, service, "w"));
    CHECK(make_members(&walk) && make_bad_keys(&walk));
    twist(&walk);
    for (enum token t = NO_TOKEN + 1; t < TOKEN_COUNT; t++)
        CHECK(walk.tokens[t] && *walk.tokens[t]);

    /* The walk is worth something only if the good ones are good. */
    CHECK_STATUS(service, service_ask(service, walk.tokens[KEY], "GET", "/api/runs", NULL), 200);
    CHECK_STATUS(service, service_ask(service, walk.tokens[SESSION], "GET", "/api/me", NULL), 200);
    CHECK_STATUS(service, worker_beat_now(&walk.worker, "[]"), 200);
    CHECK(walk_routes(&walk));
    CHECK(walk.n_asked > 2000);
    CHECK_STATUS(service, service_ask(service, walk.tokens[KEY], "GET", "/api/runs", NULL), 200);
    CHECK_STATUS(service, service_ask(service, walk.tokens[SESSION], "GET", "/api/me", NULL), 200);
}

TEST_MAIN()
