#include "server/public_access.h"

#include "base/time.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/token_store.h"
#include "store/queries.h"

bool public_access_denied(struct call *call, struct error *err)
{
    rate_note_guess(call);
    return error_set(err, ERR_TOKEN_SCOPE, "the public access token is not for this");
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

bool public_access_admit(struct call *call, struct response *res, const char *scope_type,
                         struct public_bearer *bearer, struct error *err)
{
    struct str text;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!rate_check_guesses(call, res, err))
        return false;
    if (!text_of_bearer(call, &text))
        return public_access_denied(call, err);
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !find_row(call, tx, text, &rows, err))
        return false;
    if (rows.n_rows == 0 || !row_is_null(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_REVOKED_MS) ||
        !str_equal(row_str(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_SCOPE_TYPE), str_of(scope_type)))
        return public_access_denied(call, err);
    *bearer = (struct public_bearer){
        .scope = row_str(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_SCOPE),
        .is_used_up = !row_is_null(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_MAX_USES) &&
                      row_int(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_USES) >=
                          row_int(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_MAX_USES),
        .is_over = row_int(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_EXPIRES_MS) <= time_now_ms(),
    };
    row_id(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_ID, bearer->id);
    row_id(&rows, 0, PUBLIC_ACCESS_TOKEN_FIND_ENVIRONMENT_ID, bearer->environment_id);
    return true;
}

bool public_access_use(struct tx *tx, const struct public_bearer *bearer, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &public_access_token_use, &arena, &rows, err, V_TEXT(bearer->id)))
        return false;
    return rows.n_changed == 1 ||
           error_set(err, ERR_TOKEN_SCOPE, "the public access token is used up");
}

bool public_access_cors(struct response *res, struct error *err)
{
    return response_header(res, "Access-Control-Allow-Origin", STR("*"), err);
}

bool public_preflight(struct call *call UNUSED, struct response *res, struct error *err)
{
    response_empty(res, 204);
    return public_access_cors(res, err) &&
           response_header(res, "Access-Control-Allow-Methods", STR("GET, POST"), err) &&
           response_header(res, "Access-Control-Allow-Headers",
                           STR("authorization, content-type, helmr-api-version, "
                               "helmr-sdk-version, last-event-id"),
                           err) &&
           response_header(res, "Access-Control-Max-Age", STR("600"), err);
}
