/* Making and revoking public access tokens. Who makes one must be allowed what it allows. */
#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/input.h"
#include "server/page.h"
#include "server/token_store.h"
#include "store/queries.h"

enum { SCOPE_MAX = 4096 };

#define PUBLIC_DEFAULT_MS (30 * DAY_MS)
#define PUBLIC_MAX_MS     (365 * DAY_MS)

struct scope_body {
    struct str type, token_id, session_id, external_id, stream, correlation_id;
};

struct create_body {
    struct scope_body scope;
    struct str expires_at;
    int64_t max_uses;
};

#define SCOPE_TEXT(name, need) \
    {#name, JSON_TEXT, offsetof(struct scope_body, name), need, .max = 512}

static const struct json_field scope_fields[] = {
    SCOPE_TEXT(type, REQUIRED),
    SCOPE_TEXT(token_id, OPTIONAL),
    SCOPE_TEXT(session_id, OPTIONAL),
    SCOPE_TEXT(external_id, OPTIONAL),
    SCOPE_TEXT(stream, OPTIONAL),
    SCOPE_TEXT(correlation_id, OPTIONAL),
    {0},
};

static const struct json_field create_fields[] = {
    {"scope", JSON_OBJ, offsetof(struct create_body, scope), REQUIRED, .fields = scope_fields},
    {"expires_at", JSON_TEXT, offsetof(struct create_body, expires_at), OPTIONAL, .max = 64},
    {"max_uses", JSON_INTEGER, offsetof(struct create_body, max_uses), OPTIONAL, .min = 1,
     .max = 1000000},
    {0},
};

static const struct scope_rule {
    struct str type;
    enum permission needs;
    bool is_of_token; /* else of a session */
} scope_rules[] = {
    {STR("token.complete"),      PERM_TOKENS_COMPLETE,      true },
    {STR("session.input.send"),  PERM_SESSION_INPUT_SEND,   false},
    {STR("session.output.read"), PERM_SESSION_STREAMS_READ, false},
};

/* A public access token on its way to be made. */
struct creation {
    struct create_body body;
    const struct scope_rule *rule;
    char id[ID_TEXT], token_id[ID_TEXT], session_id[ID_TEXT], bearer[TOKEN_TEXT];
    struct str scope; /* JSON */
    int64_t now, expires_ms;
};

static const struct scope_rule *find_rule(struct str type)
{
    for (size_t i = 0; i < COUNT_OF(scope_rules); i++)
        if (str_equal(scope_rules[i].type, type))
            return &scope_rules[i];
    return NULL;
}

static bool check_rule(const struct call *call, const struct scope_rule *rule, struct error *err)
{
    return caller_may(caller_of(call), rule->needs) ||
           error_set(err, ERR_FORBIDDEN, "this needs %s", permission_name(rule->needs));
}

static bool check_token(const struct scope_body *scope, struct error *err)
{
    if (scope->session_id.ptr || scope->external_id.ptr || scope->stream.ptr ||
        scope->correlation_id.ptr)
        return error_set(err, ERR_INVALID, "/scope of token.complete has a token_id only");
    return scope->token_id.ptr || error_set(err, ERR_INVALID, "/scope/token_id is required");
}

static bool check_session(const struct scope_body *scope, struct error *err)
{
    if (scope->token_id.ptr)
        return error_set(err, ERR_INVALID, "/scope of a session has no token_id");
    if (!scope->session_id.ptr == !scope->external_id.ptr)
        return error_set(err, ERR_INVALID, "/scope needs one of session_id and external_id");
    return (!scope->stream.ptr || name_check(NAME_STREAM, "/scope/stream", scope->stream, err)) &&
           (!scope->correlation_id.ptr ||
            name_check(NAME_EXTERNAL, "/scope/correlation_id", scope->correlation_id, err));
}

static bool check_scope(struct call *call, struct creation *creation, struct error *err)
{
    const struct scope_body *scope = &creation->body.scope;

    creation->rule = find_rule(scope->type);
    if (!creation->rule)
        return error_set(err, ERR_INVALID, "/scope/type is no scope");
    return check_rule(call, creation->rule, err) &&
           (creation->rule->is_of_token ? check_token(scope, err) : check_session(scope, err));
}

static bool find_token(struct call *call, struct tx *tx, struct creation *creation,
                       struct error *err)
{
    struct rows rows = {0};

    if (id_parse(creation->body.scope.token_id, creation->token_id) &&
        !STORE(tx, &token_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(creation->token_id)))
        return false;
    return rows.n_rows > 0 || error_set(err, ERR_TOKEN_NOT_FOUND, "there is no such token");
}

static bool find_session(struct call *call, struct tx *tx, struct creation *creation,
                         struct error *err)
{
    const struct scope_body *scope = &creation->body.scope;
    struct value environment = V_TEXT(call_environment(call));
    struct rows rows = {0};
    char id[ID_TEXT];

    if (scope->external_id.ptr) {
        if (!STORE(tx, &session_find_external, call->arena, &rows, err, environment,
                   V_STR(scope->external_id)))
            return false;
    } else if (id_parse(scope->session_id, id) &&
               !STORE(tx, &session_find, call->arena, &rows, err, environment, V_TEXT(id))) {
        return false;
    }
    if (rows.n_rows == 0)
        return error_set(err, ERR_SESSION_NOT_FOUND, "there is no such session");
    row_id(&rows, 0, SESSION_FIND_ID, creation->session_id);
    return true;
}

/* As it is kept and shown: the session by its id, however it was named. */
static bool write_scope(struct call *call, struct creation *creation, struct error *err)
{
    const struct scope_body *scope = &creation->body.scope;
    AUTO(buf_finish) struct buf text = {.max = SCOPE_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_text(&json, "type", scope->type);
    if (creation->rule->is_of_token)
        json_string(&json, "token_id", creation->token_id);
    else
        json_string(&json, "session_id", creation->session_id);
    if (scope->stream.ptr)
        json_text(&json, "stream", scope->stream);
    if (scope->correlation_id.ptr)
        json_text(&json, "correlation_id", scope->correlation_id);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    creation->scope = arena_str(call->arena, buf_str(&text));
    return true;
}

static bool read_expiry(struct creation *creation, struct error *err)
{
    creation->expires_ms = creation->now + PUBLIC_DEFAULT_MS;
    if (!creation->body.expires_at.ptr)
        return true;
    if (!time_parse(creation->body.expires_at, &creation->expires_ms, err))
        return error_wrap(err, "/expires_at");
    return (creation->expires_ms > creation->now &&
            creation->expires_ms <= creation->now + PUBLIC_MAX_MS) ||
           error_set(err, ERR_INVALID, "/expires_at must be within the next 365 days");
}

static bool insert(struct call *call, struct tx *tx, struct creation *creation, struct error *err)
{
    const struct keys *keys = &server_of(call)->keys;
    uint8_t hash[BLAKE2B_LEN];

    if (!(creation->rule->is_of_token ? find_token : find_session)(call, tx, creation, err) ||
        !write_scope(call, creation, err))
        return false;
    id_make(creation->id);
    token_make(PUBLIC_TOKEN_START, creation->bearer);
    keys_hash_token(keys, str_of(creation->bearer), hash);
    return STORE(tx, &public_access_token_insert, NULL, NULL, err, V_TEXT(creation->id),
                 V_TEXT(call_environment(call)),
                 V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                 V_TEXT(keys_id(keys, KEY_AUTH, 0)), V_STR(creation->rule->type),
                 V_STR(creation->scope),
                 creation->token_id[0] ? V_TEXT(creation->token_id) : V_NULL,
                 creation->body.max_uses ? V_INT(creation->body.max_uses) : V_NULL,
                 V_INT(creation->expires_ms), V_INT(creation->now)) &&
           audit_call(tx, call, "public_token.create", str_of(creation->id), err);
}

bool public_token_create(struct call *call, struct response *res, struct error *err)
{
    struct creation creation = {.now = time_now_ms()};
    AUTO_TX tx = NULL;

    if (!call_body(call, create_fields, &creation.body, sizeof creation.body, err) ||
        !check_scope(call, &creation, err) || !read_expiry(&creation, err) ||
        !store_begin(server_of(call)->store, &tx, err) || !insert(call, tx, &creation, err) ||
        !store_commit(&tx, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "id", creation.id);
    json_string(&json, "public_access_token", creation.bearer);
    if (creation.rule->is_of_token)
        json_string(&json, "url",
                    arena_printf(call->arena, "%s/answer/%s#%s", server_of(call)->public_url,
                                 creation.token_id, creation.bearer));
    json_raw(&json, "scope", creation.scope);
    json_time(&json, "expires_at", creation.expires_ms);
    if (creation.body.max_uses)
        json_int(&json, "max_uses", creation.body.max_uses);
    json_time(&json, "created_at", creation.now);
    json_close(&json);
    response_json(res, 201);
    return json_end(&json, err);
}

/* Whoever reads live with it looks again, and is not let. */
static bool take_back(struct call *call, struct tx *tx, const char *id, struct wakes *wakes,
                      struct error *err)
{
    struct str session;
    struct rows rows;

    if (!STORE(tx, &public_access_token_scope, call->arena, &rows, err,
               V_TEXT(call_environment(call)), V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no public access token %s", id);
    const struct scope_rule *rule =
        find_rule(row_str(&rows, 0, PUBLIC_ACCESS_TOKEN_SCOPE_SCOPE_TYPE));
    if (rule && !check_rule(call, rule, err))
        return false;
    if (json_find_text(row_str(&rows, 0, PUBLIC_ACCESS_TOKEN_SCOPE_SCOPE), "session_id",
                       call->arena, &session))
        wakes_add(wakes, "session:", arena_text(call->arena, session));
    return STORE(tx, &public_access_token_revoke, NULL, NULL, err, V_TEXT(call_environment(call)),
                 V_TEXT(id), V_INT(time_now_ms()));
}

bool public_token_delete(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    if (!call_id(call, 0, id, err) || !store_begin(server->store, &tx, err) ||
        !take_back(call, tx, id, &wakes, err) ||
        !audit_call(tx, call, "public_token.revoke", str_of(id), err) ||
        !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    response_empty(res, 204);
    return true;
}
