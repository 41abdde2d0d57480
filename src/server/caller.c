#include "server/caller.h"

#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "server/account.h"
#include "server/context.h"
#include "server/listen.h"
#include "server/page.h"
#include "server/session.h"
#include "store/queries.h"

enum { TOUCH_MS = 60 * 1000, TOKEN_MAX = 128 };

static uint64_t bit(enum permission permission)
{
    return UINT64_C(1) << permission;
}
_Static_assert(PERM_COUNT <= 64, "permissions fit in a word");

bool caller_may(const struct caller *caller, enum permission permission)
{
    return (caller->permissions & bit(permission)) != 0;
}

void caller_label(const struct caller *caller, char label[64])
{
    bool is_key = caller->kind == CALLER_KEY;
    snprintf(label, 64, "%s:%s", is_key ? "key" : "user", is_key ? caller->id : caller->user_id);
}

/* A proxy on this machine makes everyone look local. */
static bool came_through_a_proxy(const struct call *call)
{
    static const char *const names[] = {"forwarded", "via", "x-forwarded-for", "x-real-ip"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (call_header(call, str_of(names[i])).ptr)
            return true;
    return false;
}

/* The host is checked too: a foreign name that resolves to loopback is another site's page. */
bool caller_is_local(const struct call *call)
{
    const char *host = arena_text(call->arena, call_header(call, STR("host")));
    return account_has_dev_login(server_of(call)) && call->peer_is_local &&
           !came_through_a_proxy(call) &&
           (call->over_unix_socket || listen_address_is_loopback(host));
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static uint64_t role_permissions(const char *name)
{
    enum role role;
    uint64_t all = 0;
    if (!name || !role_parse(str_of(name), &role))
        return 0;
    for (enum permission p = PERM_SESSION + 1; p < PERM_COUNT; p++)
        if (role_allows(role, p))
            all |= bit(p);
    return all;
}

static uint64_t scope_permissions(struct str scopes)
{
    uint64_t all = 0;
    struct str name;
    while (str_split(&scopes, ' ', &name)) {
        enum permission permission;
        if (permission_parse(name, &permission) && permission_is_grantable(permission))
            all |= bit(permission);
    }
    return all;
}

static bool refused(struct error *err)
{
    return error_set(err, ERR_UNAUTHENTICATED, "the credential is not valid");
}

/* That a credential is used is worth a write a minute, and never worth a failure. */
static void touch(struct server *server, const struct query *query, const char *id, int64_t used)
{
    struct error err;
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;
    if (now - used < TOUCH_MS)
        return;
    if (!store_begin(server->store, &tx, &err) ||
        !STORE(tx, query, NULL, NULL, &err, V_TEXT(id), V_INT(now)) || !store_commit(&tx, &err))
        log_debug("last use not recorded", LOG_ERR(&err));
}

static bool load_key(struct server *server, struct str hash, struct arena *arena,
                     struct caller *caller, int64_t *used, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server->store, &tx, err) ||
        !STORE(tx, &api_key_find, arena, &rows, err, V_BYTES(hash)))
        return false;
    if (rows.n_rows == 0 ||
        !bytes_equal_constant_time(hash, row_str(&rows, 0, API_KEY_FIND_KEY_HASH)) ||
        !row_is_null(&rows, 0, API_KEY_FIND_REVOKED_MS) ||
        row_is_null(&rows, 0, API_KEY_FIND_ROLE) ||
        !str_equal(row_str(&rows, 0, API_KEY_FIND_STATUS), STR("active")))
        return refused(err);

    *caller = (struct caller){.kind = CALLER_KEY,
                              .expires_ms = row_int(&rows, 0, API_KEY_FIND_EXPIRES_MS)};
    caller->permissions = scope_permissions(row_str(&rows, 0, API_KEY_FIND_SCOPES)) &
                          role_permissions(row_text(&rows, 0, API_KEY_FIND_ROLE));
    struct scope *scope = &caller->scope;
    copy(caller->id, sizeof caller->id, row_text(&rows, 0, API_KEY_FIND_ID));
    copy(caller->name, sizeof caller->name, row_text(&rows, 0, API_KEY_FIND_NAME));
    copy(caller->organization_id, sizeof caller->organization_id,
         row_text(&rows, 0, API_KEY_FIND_ORGANIZATION_ID));
    copy(scope->environment_id, sizeof scope->environment_id,
         row_text(&rows, 0, API_KEY_FIND_ENVIRONMENT_ID));
    copy(scope->environment_slug, sizeof scope->environment_slug,
         row_text(&rows, 0, API_KEY_FIND_ENVIRONMENT_SLUG));
    copy(scope->project_id, sizeof scope->project_id, row_text(&rows, 0, API_KEY_FIND_PROJECT_ID));
    copy(scope->project_slug, sizeof scope->project_slug,
         row_text(&rows, 0, API_KEY_FIND_PROJECT_SLUG));
    *used = row_int(&rows, 0, API_KEY_FIND_LAST_USED_MS);
    return true;
}

static bool load_session(struct server *server, struct str hash, struct arena *arena,
                         struct caller *caller, int64_t *used, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server->store, &tx, err) ||
        !STORE(tx, &user_session_find, arena, &rows, err, V_BYTES(hash)))
        return false;
    if (rows.n_rows == 0 || !row_is_null(&rows, 0, USER_SESSION_FIND_REVOKED_MS) ||
        !str_equal(row_str(&rows, 0, USER_SESSION_FIND_STATUS), STR("active")))
        return refused(err);
    *used = row_int(&rows, 0, USER_SESSION_FIND_USED_MS);
    if (time_now_ms() - *used > SESSION_IDLE_MS)
        return refused(err);

    *caller = (struct caller){.kind = CALLER_SESSION,
                              .expires_ms = row_int(&rows, 0, USER_SESSION_FIND_EXPIRES_MS)};
    const char *role = row_text(&rows, 0, USER_SESSION_FIND_ROLE);
    caller->permissions = role_permissions(role) | bit(PERM_SESSION);
    copy(caller->role, sizeof caller->role, role);
    copy(caller->id, sizeof caller->id, row_text(&rows, 0, USER_SESSION_FIND_ID));
    copy(caller->user_id, sizeof caller->user_id, row_text(&rows, 0, USER_SESSION_FIND_USER_ID));
    copy(caller->email, sizeof caller->email, row_text(&rows, 0, USER_SESSION_FIND_EMAIL));
    copy(caller->name, sizeof caller->name, row_text(&rows, 0, USER_SESSION_FIND_DISPLAY_NAME));
    copy(caller->organization_id, sizeof caller->organization_id,
         row_text(&rows, 0, USER_SESSION_FIND_ORGANIZATION_ID));
    return true;
}

static bool has_prefix(struct str token, struct str prefix)
{
    return token.len > prefix.len && memcmp(token.ptr, prefix.ptr, prefix.len) == 0;
}

/* From memory when it is known since less than a second, else from the database. */
static bool recognize(struct server *server, enum caller_kind kind, const uint8_t hash[BLAKE2B_LEN],
                      struct arena *arena, struct caller *caller, struct error *err)
{
    bool is_key = kind == CALLER_KEY;
    struct str bytes = {(const char *)hash, BLAKE2B_LEN};
    if (!caller_cache_find(&server->callers, hash, caller)) {
        uint64_t generation = caller_cache_generation(&server->callers);
        int64_t used = 0;
        if (!(is_key ? load_key(server, bytes, arena, caller, &used, err)
                     : load_session(server, bytes, arena, caller, &used, err)))
            return false;
        memcpy(caller->hash, hash, BLAKE2B_LEN);
        caller_cache_put(&server->callers, hash, caller, generation);
        touch(server, is_key ? &api_key_touch : &user_session_touch, caller->id, used);
    }
    if (caller->expires_ms && time_now_ms() >= caller->expires_ms)
        return error_set(err, ERR_UNAUTHENTICATED, "the credential has expired");
    return true;
}

/* Moves what a former master key has made of this token to the current one. */
static bool rehash(struct server *server, enum caller_kind kind, struct str token,
                   const uint8_t hash[BLAKE2B_LEN], struct arena *arena)
{
    bool is_key = kind == CALLER_KEY;
    struct error err;
    for (size_t i = 1; i < keys_count(&server->keys); i++) {
        uint8_t former[BLAKE2B_LEN];
        struct rows rows;
        keys_hash_token_under(&server->keys, i, token, former);
        AUTO_TX read = NULL;
        if (!store_begin_read(server->store, &read, &err) ||
            !STORE(read, is_key ? &api_key_under : &user_session_under, arena, &rows, &err,
                   V_BYTES(((struct str){(const char *)former, sizeof former}))))
            return false;
        store_rollback(&read);
        if (rows.n_rows == 0)
            continue;
        AUTO_TX tx = NULL;
        return store_begin(server->store, &tx, &err) &&
               STORE(tx, is_key ? &api_key_rehash : &user_session_rehash, NULL, NULL, &err,
                     V_STR(row_str(&rows, 0, API_KEY_UNDER_ID)),
                     V_BYTES(((struct str){(const char *)hash, BLAKE2B_LEN})),
                     V_TEXT(server->keys.ids[KEY_AUTH])) &&
               store_commit(&tx, &err);
    }
    return false;
}

static bool authenticate(struct call *call, struct str token, struct caller *caller,
                         struct error *err)
{
    struct server *server = server_of(call);
    bool is_key = has_prefix(token, STR("hlmr_sk_"));
    uint8_t hash[BLAKE2B_LEN];
    if (token.len > TOKEN_MAX || (!is_key && !has_prefix(token, STR("hlmr_us_"))))
        return refused(err);
    keys_hash_token(&server->keys, token, hash);
    enum caller_kind kind = is_key ? CALLER_KEY : CALLER_SESSION;
    if (recognize(server, kind, hash, call->arena, caller, err))
        return true;
    return err->code == ERR_UNAUTHENTICATED && rehash(server, kind, token, hash, call->arena) &&
           recognize(server, kind, hash, call->arena, caller, err);
}

static bool cookie_of(const struct call *call, struct str *token)
{
    return session_find_cookie(call, session_cookie_name(server_of(call)), token);
}

static bool bearer_of(struct str value, struct str *token)
{
    static const struct str scheme = STR("Bearer ");
    if (value.len <= scheme.len || strncasecmp(value.ptr, scheme.ptr, scheme.len) != 0)
        return false;
    *token = (struct str){value.ptr + scheme.len, value.len - scheme.len};
    return true;
}

/* A cookie comes along by itself, so a change by cookie must come from our own pages, and so must
 * a WebSocket, whose answers any page could read. */
static bool origin_is_ours(const struct call *call, struct error *err)
{
    enum http_method method = call->request->method;
    if ((method == METHOD_GET || method == METHOD_HEAD) && !call->request->upgrade)
        return true;
    return session_check_origin(call, true, err);
}

/* Whoever sends an Authorization is judged by it, whatever cookie comes along. */
static bool identify(struct call *call, struct caller *caller, struct error *err)
{
    struct str token, value = call_header(call, STR("authorization"));
    if (value.ptr)
        return bearer_of(value, &token) ? authenticate(call, token, caller, err) : refused(err);
    if (!cookie_of(call, &token))
        return error_set(err, ERR_UNAUTHENTICATED, "an API key or a session is required");
    if (!has_prefix(token, STR("hlmr_us_")))
        return refused(err);
    return origin_is_ours(call, err) && authenticate(call, token, caller, err);
}

static bool may_any_workspace(const struct caller *caller)
{
    for (enum permission p = PERM_WORKSPACE_LIFECYCLE_MANAGE; p <= PERM_WORKSPACE_PTY_MANAGE; p++)
        if (caller_may(caller, p))
            return true;
    return false;
}

static bool satisfies(const struct caller *caller, int needs)
{
    bool reads = caller_may(caller, PERM_TASKS_DEPLOY) || caller_may(caller, PERM_RUNS_READ);
    if (needs == NEED_ANY_CALLER)
        return true;
    if (needs == NEED_DEPLOY_OR_READ)
        return reads;
    if (needs == NEED_SANDBOX_READ)
        return reads || may_any_workspace(caller);
    if (needs == NEED_ANY_WORKSPACE)
        return may_any_workspace(caller);
    if (needs == NEED_RUN_AND_VERSIONS)
        return caller_may(caller, PERM_RUNS_READ) &&
               caller_may(caller, PERM_WORKSPACE_VERSIONS_READ);
    if (needs == NEED_PUBLIC_GRANT)
        return caller_may(caller, PERM_TOKENS_COMPLETE) ||
               caller_may(caller, PERM_SESSION_INPUT_SEND) ||
               caller_may(caller, PERM_SESSION_STREAMS_READ);
    return needs > PERM_PUBLIC && needs < PERM_COUNT && caller_may(caller, (enum permission)needs);
}

static bool names(struct str given, const char *id, const char *slug)
{
    return str_equal_nocase(given, str_of(id)) || str_equal(given, str_of(slug));
}

static bool read_scope(struct call *call, struct caller *caller, struct error *err)
{
    struct rows rows;
    struct scope *scope = &caller->scope;
    const char *organization = caller->organization_id;
    AUTO_TX tx = NULL;
    struct str project = id_or_name(call->arena, call->match.project);
    struct str environment = id_or_name(call->arena, call->match.environment);
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !(project.len
              ? STORE(tx, &environment_find, call->arena, &rows, err, V_TEXT(organization),
                      V_STR(project), V_STR(environment))
              : STORE(tx, &environment_default, call->arena, &rows, err, V_TEXT(organization))))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such project or environment");
    copy(scope->environment_id, sizeof scope->environment_id,
         row_text(&rows, 0, ENVIRONMENT_FIND_ID));
    copy(scope->environment_slug, sizeof scope->environment_slug,
         row_text(&rows, 0, ENVIRONMENT_FIND_SLUG));
    copy(scope->project_id, sizeof scope->project_id,
         row_text(&rows, 0, ENVIRONMENT_FIND_PROJECT_ID));
    copy(scope->project_slug, sizeof scope->project_slug,
         row_text(&rows, 0, ENVIRONMENT_FIND_PROJECT_SLUG));
    return true;
}
_Static_assert((int)ENVIRONMENT_DEFAULT_PROJECT_SLUG == (int)ENVIRONMENT_FIND_PROJECT_SLUG,
               "both ways to find an environment have the same columns");

/* A key has one environment; naming another finds nothing. */
static bool choose_scope(struct call *call, struct caller *caller, struct error *err)
{
    const struct scope *scope = &caller->scope;
    if (caller->kind != CALLER_KEY)
        return read_scope(call, caller, err);
    if (!call->match.project.len ||
        (names(call->match.project, scope->project_id, scope->project_slug) &&
         names(call->match.environment, scope->environment_id, scope->environment_slug)))
        return true;
    return error_set(err, ERR_NOT_FOUND, "there is no such project or environment");
}

static bool check_version(const struct call *call, struct error *err)
{
    struct str version = call_header(call, STR("helmr-api-version"));
    return version.len == 0 || str_equal(version, STR(API_VERSION)) ||
           error_set(err, ERR_API_VERSION, "the API version spoken here is " API_VERSION);
}

bool caller_authorize(struct call *call, struct error *err)
{
    const struct route *route = call->match.route;
    if (!check_version(call, err))
        return false;
    if (route->needs == PERM_PUBLIC)
        return true;
    if (route->needs == PERM_WORKER) {
        struct server *server = server_of(call);
        return server->authorize_worker ? server->authorize_worker(call, err) : refused(err);
    }

    struct caller *caller = arena_alloc(call->arena, sizeof *caller);
    if (!identify(call, caller, err))
        return false;
    call->caller = caller;
    if (!satisfies(caller, route->needs))
        return error_set(err, ERR_FORBIDDEN, "%s is required",
                         route->needs < PERM_COUNT &&
                                 *permission_name((enum permission)route->needs)
                             ? permission_name((enum permission)route->needs)
                             : "another permission");
    return !route->scoped || choose_scope(call, caller, err);
}

struct caller_hold caller_hold(const struct call *call)
{
    const struct caller *caller = caller_of(call);
    struct caller_hold hold = {server_of(call), caller->kind, call->match.route->needs, {0}};
    memcpy(hold.hash, caller->hash, sizeof hold.hash);
    return hold;
}

bool caller_still_may(const struct caller_hold *hold)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct caller caller;
    struct error err;
    return recognize(hold->server, hold->kind, hold->hash, &arena, &caller, &err) &&
           satisfies(&caller, hold->needs);
}

bool caller_find(struct call *call, struct caller *caller)
{
    struct error err;
    struct str token;
    return cookie_of(call, &token) && authenticate(call, token, caller, &err) &&
           caller->kind == CALLER_SESSION && read_scope(call, caller, &err);
}
