/* Answers from outside: a public access token or the secret of a callback URL is all that whoever
 * answers has. */
#include "base/json.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/page.h"
#include "server/public_access.h"
#include "server/token_answer.h"
#include "server/token_object.h"
#include "store/queries.h"

/* Of the token that the path names. */
static bool admit(struct call *call, struct response *res, struct public_bearer *bearer,
                  char token_id[ID_TEXT], struct error *err)
{
    struct str named;

    if (!public_access_admit(call, res, "token.complete", bearer, err))
        return false;
    if (!id_parse(call_param(call, 0), token_id) ||
        !json_find_text(bearer->scope, "token_id", call->arena, &named) ||
        !str_equal(named, str_of(token_id)))
        return public_access_denied(call, err);
    return true;
}

/* One that ended with its token says so; any other is as good as none. */
static bool check_time(struct call *call, const struct public_bearer *bearer,
                       const struct rows *token, struct error *err)
{
    if (!bearer->is_over)
        return true;
    if (token->n_rows > 0 && row_int(token, 0, TOKEN_GET_TIMEOUT_AT_MS) <= time_now_ms())
        return error_set(err, ERR_TOKEN_EXPIRED, "the token has expired");
    return public_access_denied(call, err);
}

static bool load_token(struct call *call, const struct public_bearer *bearer, const char *id,
                       struct rows *rows, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) &&
           STORE(tx, &token_get, call->arena, rows, err, V_TEXT(bearer->environment_id),
                 V_TEXT(id)) &&
           check_time(call, bearer, rows, err) &&
           (rows->n_rows > 0 || error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", id));
}

bool public_token_get(struct call *call, struct response *res, struct error *err)
{
    struct public_bearer bearer;
    char id[ID_TEXT];
    struct rows rows;

    if (!public_access_cors(res, err) || !admit(call, res, &bearer, id, err) ||
        !load_token(call, &bearer, id, &rows, err))
        return false;
    if (bearer.is_used_up)
        return public_access_denied(call, err);
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
    return already || public_access_use(tx, arg, err);
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
    struct public_bearer bearer;
    char id[ID_TEXT];
    struct rows rows;
    struct token_answer answer = {
        .token_id = id,
        .by_type = "public_access_token",
        .by_id = bearer.id,
        .entry = audit_entry_of(call, "token.complete"),
        .also = count_use,
        .arg = &bearer,
    };

    if (!public_access_cors(res, err) || !admit(call, res, &bearer, id, err) ||
        !load_token(call, &bearer, id, &rows, err) ||
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
