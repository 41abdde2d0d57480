/* Answers from outside: a public access token or the secret of a callback URL is all that whoever
 * answers has. Public access tokens may be used from any web page, so those two routes, and only
 * those, allow other origins. */
#include "base/json.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/input.h"
#include "server/page.h"
#include "server/token_answer.h"
#include "server/token_object.h"
#include "store/queries.h"

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

/* A public access token on its way to be made. */
struct creation {
    struct create_body body;
    char id[ID_TEXT], token_id[ID_TEXT], bearer[TOKEN_TEXT];
    const char *scope; /* JSON */
    int64_t now, expires_ms;
};

static bool read_scope(struct call *call, struct creation *creation, struct error *err)
{
    const struct scope_body *scope = &creation->body.scope;

    if (str_equal(scope->type, STR("session.input.send")) ||
        str_equal(scope->type, STR("session.output.read")))
        return error_set(err, ERR_UNSUPPORTED,
                         "streams are not there yet: only the scope "
                         "token.complete can be given");
    if (!str_equal(scope->type, STR("token.complete")))
        return error_set(err, ERR_INVALID, "/scope/type is no scope");
    if (scope->session_id.ptr || scope->external_id.ptr || scope->stream.ptr ||
        scope->correlation_id.ptr)
        return error_set(err, ERR_INVALID, "/scope of token.complete has a token_id only");
    if (!scope->token_id.ptr)
        return error_set(err, ERR_INVALID, "/scope/token_id is required");
    if (!id_parse(scope->token_id, creation->token_id))
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no such token");
    creation->scope = arena_printf(call->arena, "{\"type\":\"token.complete\",\"token_id\":\"%s\"}",
                                   creation->token_id);
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
    struct rows rows;

    if (!STORE(tx, &token_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(creation->token_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", creation->token_id);
    id_make(creation->id);
    token_make(PUBLIC_TOKEN_START, creation->bearer);
    keys_hash_token(keys, str_of(creation->bearer), hash);
    return STORE(tx, &public_access_token_insert, NULL, NULL, err, V_TEXT(creation->id),
                 V_TEXT(call_environment(call)),
                 V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                 V_TEXT(keys_id(keys, KEY_AUTH, 0)), V_TEXT("token.complete"),
                 V_TEXT(creation->scope), V_TEXT(creation->token_id),
                 creation->body.max_uses ? V_INT(creation->body.max_uses) : V_NULL,
                 V_INT(creation->expires_ms), V_INT(creation->now)) &&
           audit_call(tx, call, "public_token.create", str_of(creation->id), err);
}

bool public_token_create(struct call *call, struct response *res, struct error *err)
{
    struct creation creation = {.now = time_now_ms()};
    AUTO_TX tx = NULL;

    if (!call_body(call, create_fields, &creation.body, sizeof creation.body, err) ||
        !read_scope(call, &creation, err) || !read_expiry(&creation, err) ||
        !store_begin(server_of(call)->store, &tx, err) || !insert(call, tx, &creation, err) ||
        !store_commit(&tx, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "id", creation.id);
    json_string(&json, "public_access_token", creation.bearer);
    json_raw(&json, "scope", str_of(creation.scope));
    json_time(&json, "expires_at", creation.expires_ms);
    if (creation.body.max_uses)
        json_int(&json, "max_uses", creation.body.max_uses);
    json_time(&json, "created_at", creation.now);
    json_close(&json);
    response_json(res, 201);
    return json_end(&json, err);
}

bool public_token_delete(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!call_id(call, 0, id, err) || !store_begin(server_of(call)->store, &tx, err) ||
        !STORE(tx, &public_access_token_revoke, call->arena, &rows, err,
               V_TEXT(call_environment(call)), V_TEXT(id), V_INT(time_now_ms())))
        return false;
    if (rows.n_changed == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no public access token %s", id);
    if (!audit_call(tx, call, "public_token.revoke", str_of(id), err) || !store_commit(&tx, err))
        return false;
    response_empty(res, 204);
    return true;
}

/* A public access token that may be used here and now. */
struct bearer {
    char id[ID_TEXT], environment_id[ID_TEXT], token_id[ID_TEXT];
    bool is_used_up, is_over;
};

static bool denied(struct call *call, struct error *err)
{
    rate_note_guess(call);
    return error_set(err, ERR_TOKEN_SCOPE, "the public access token is not for this token");
}

static bool find_row(struct call *call, struct tx *tx, struct str text, struct rows *rows,
                     struct error *err)
{
    const struct keys *keys = &server_of(call)->keys;

    rows->n_rows = 0;
    for (size_t i = 0; i < keys_count(keys) && rows->n_rows == 0; i++) {
        uint8_t hash[BLAKE2B_LEN];

        keys_hash_token_under(keys, i, text, hash);
        struct str bytes = {(const char *)hash, sizeof hash};
        if (!STORE(tx, &public_access_token_find, call->arena, rows, err, V_BYTES(bytes)))
            return false;
        if (rows->n_rows > 0 &&
            !bytes_equal_constant_time(bytes,
                                       row_str(rows, 0, PUBLIC_ACCESS_TOKEN_FIND_TOKEN_HASH)))
            rows->n_rows = 0;
    }
    return true;
}

static bool text_of_bearer(const struct call *call, struct str *text)
{
    static const struct str start = STR("Bearer " PUBLIC_TOKEN_START);
    struct str value = call_header(call, STR("authorization"));

    if (value.len <= start.len || value.len > 128 || strncasecmp(value.ptr, "Bearer ", 7) != 0 ||
        memcmp(value.ptr + 7, start.ptr + 7, start.len - 7) != 0)
        return false;
    *text = (struct str){value.ptr + 7, value.len - 7};
    return true;
}

static bool admit(struct call *call, struct response *res, struct bearer *bearer, struct error *err)
{
    char id[ID_TEXT];
    struct str text;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!rate_check_guesses(call, res, err))
        return false;
    if (!text_of_bearer(call, &text) || !id_parse(call_param(call, 0), id))
        return denied(call, err);
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !find_row(call, tx, text, &rows, err))
        return false;
    if (rows.n_rows == 0 || !row_is_null(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_REVOKED_MS) ||
        !str_equal(row_str(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_SCOPE_TYPE), STR("token.complete")) ||
        !str_equal(row_str(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_TOKEN_ID), str_of(id)))
        return denied(call, err);
    *bearer = (struct bearer){
        .is_used_up = !row_is_null(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_MAX_USES) &&
                      row_int(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_USES) >=
                          row_int(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_MAX_USES),
        .is_over = row_int(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_EXPIRES_MS) <= time_now_ms(),
    };
    row_id(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_ID, bearer->id);
    row_id(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_ENVIRONMENT_ID, bearer->environment_id);
    memcpy(bearer->token_id, id, sizeof id);
    return true;
}

/* One that ended with its token says so; any other is as good as none. */
static bool check_time(struct call *call, const struct bearer *bearer, const struct rows *token,
                       struct error *err)
{
    if (!bearer->is_over)
        return true;
    if (token->n_rows > 0 && row_int(token, 0, TOKEN_GET_TIMEOUT_AT_MS) <= time_now_ms())
        return error_set(err, ERR_TOKEN_EXPIRED, "the token has expired");
    return denied(call, err);
}

static bool load_token(struct call *call, const struct bearer *bearer, struct rows *rows,
                       struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) &&
           STORE(tx, &token_get, call->arena, rows, err, V_TEXT(bearer->environment_id),
                 V_TEXT(bearer->token_id)) &&
           check_time(call, bearer, rows, err) &&
           (rows->n_rows > 0 ||
            error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", bearer->token_id));
}

static bool allow_origins(struct response *res, struct error *err)
{
    return response_header(res, "Access-Control-Allow-Origin", STR("*"), err);
}

bool public_token_preflight(struct call *call UNUSED, struct response *res, struct error *err)
{
    response_empty(res, 204);
    return allow_origins(res, err) &&
           response_header(res, "Access-Control-Allow-Methods", STR("GET, POST"), err) &&
           response_header(res, "Access-Control-Allow-Headers",
                           STR("authorization, content-type, helmr-api-version, "
                               "helmr-sdk-version"),
                           err) &&
           response_header(res, "Access-Control-Max-Age", STR("600"), err);
}

bool public_token_get(struct call *call, struct response *res, struct error *err)
{
    struct bearer bearer;
    struct rows rows;

    if (!allow_origins(res, err) || !admit(call, res, &bearer, err) ||
        !load_token(call, &bearer, &rows, err))
        return false;
    if (bearer.is_used_up && str_equal(row_str(&rows, 0, TOKEN_GET_STATUS), STR("pending")))
        return denied(call, err);
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_text(&json, "id", row_str(&rows, 0, TOKEN_GET_ID));
    json_text(&json, "status", row_str(&rows, 0, TOKEN_GET_STATUS));
    json_time(&json, "timeout_at", row_int(&rows, 0, TOKEN_GET_TIMEOUT_AT_MS));
    json_raw(&json, "metadata", row_str(&rows, 0, TOKEN_GET_METADATA));
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

/* Counted when it has changed something: whoever asks again because the answer got lost is told
 * the same and pays nothing. */
static bool count_use(struct tx *tx, void *arg, bool already, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct bearer *bearer = arg;
    struct rows rows;

    if (already)
        return true;
    if (!STORE(tx, &public_access_token_use, &arena, &rows, err, V_TEXT(bearer->id)))
        return false;
    return rows.n_changed == 1 ||
           error_set(err, ERR_TOKEN_SCOPE, "the public access token is used up");
}

struct complete_body {
    struct str data;
};

static const struct json_field complete_fields[] = {
    {"data", JSON_RAW, offsetof(struct complete_body, data), OPTIONAL, .max = WAIT_RAW_MAX},
    {0},
};

bool public_token_complete(struct call *call, struct response *res, struct error *err)
{
    struct complete_body body;
    struct bearer bearer;
    struct rows rows;
    struct token_answer answer = {
        .token_id = bearer.token_id,
        .by_type = "public_access_token",
        .by_id = bearer.id,
        .entry = audit_entry_of(call, "token.complete"),
        .also = count_use,
        .arg = &bearer,
    };

    if (!allow_origins(res, err) || !admit(call, res, &bearer, err) ||
        !load_token(call, &bearer, &rows, err) ||
        !call_body(call, complete_fields, &body, sizeof body, err) ||
        !token_data(body.data, call->arena, &answer.data, err))
        return false;
    answer.entry.actor_id = bearer.id;
    answer.entry.actor_name = "public access token";
    return token_answer(call, bearer.environment_id, &answer, res, err);
}

/* Exactly {data} is the data; any other value is it as a whole. */
static bool callback_data(struct call *call, struct str *data, struct error *err)
{
    static const struct json_field wrapped[] = {
        {"data", JSON_RAW, offsetof(struct complete_body, data), REQUIRED, .max = WAIT_RAW_MAX},
        {0},
    };
    struct str text = call->request->body;
    struct complete_body body;
    struct error ignored;

    if (text.len == 0)
        return token_data((struct str){0}, call->arena, data, err);
    bool is_wrapped = json_read(text, wrapped, &body, sizeof body, call->arena, &ignored);
    return token_data(is_wrapped ? body.data : text, call->arena, data, err);
}

static bool secret_is_right(struct call *call, const struct rows *rows, struct str secret)
{
    const struct keys *keys = &server_of(call)->keys;
    uint8_t hash[BLAKE2B_LEN];
    size_t key;

    if (!keys_find(keys, KEY_AUTH, row_str(rows, 0, TOKEN_CALLBACK_KEY_ID), &key))
        return false;
    keys_hash_token_under(keys, key, secret, hash);
    return bytes_equal_constant_time((struct str){(const char *)hash, sizeof hash},
                                     row_str(rows, 0, TOKEN_CALLBACK_CALLBACK_HASH));
}

/* Whether the token exists is not told to those who do not know its secret. */
static bool admit_callback(struct call *call, struct response *res, const char *id,
                           char environment_id[ID_TEXT], struct error *err)
{
    struct rows rows = {0};
    AUTO_TX tx = NULL;

    if (!rate_check_guesses(call, res, err))
        return false;
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &token_callback, call->arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0 || !secret_is_right(call, &rows, call_param(call, 1))) {
        rate_note_guess(call);
        return error_set(err, ERR_TOKEN_SCOPE, "the callback URL is not valid");
    }
    row_id(&rows, 0, TOKEN_CALLBACK_ENVIRONMENT_ID, environment_id);
    return true;
}

bool token_callback_post(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT], environment_id[ID_TEXT];
    struct token_answer answer = {
        .token_id = id,
        .by_type = "callback",
        .by_id = id,
        .entry = audit_entry_of(call, "token.complete"),
    };

    if (!id_parse(call_param(call, 0), id))
        id_make(id); /* a stranger's, as good as any other */
    if (!admit_callback(call, res, id, environment_id, err) ||
        !callback_data(call, &answer.data, err))
        return false;
    answer.entry.actor_id = id;
    answer.entry.actor_name = "callback URL";
    return token_answer(call, environment_id, &answer, res, err);
}
