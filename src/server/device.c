#include "server/device.h"

#include "base/id.h"
#include "base/json.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/page.h"
#include "server/session.h"
#include "store/queries.h"

enum {
    CODE_MS = 10 * 60 * 1000,
    INTERVAL_MS = 5000,
    SLACK_MS = 500, /* between two clocks */
    KEEP_MS = 60 * 60 * 1000,
    CODE_MAX = 64,
    TOKEN_MAX = 256,
    CODE_LETTERS = USER_CODE_TEXT - 2,
};

/* Without vowels and what looks alike. */
static const char letters[] = "BCDFGHJKLMNPQRSTVWXZ";

static void make_user_code(char code[USER_CODE_TEXT])
{
    size_t n = 0;
    while (n < USER_CODE_TEXT - 1) {
        uint8_t byte;
        if (n == CODE_LETTERS / 2)
            code[n++] = '-';
        random_bytes(&byte, sizeof byte);
        /* 240 is a multiple of 20, so that every letter is as likely. */
        if (byte < 240)
            code[n++] = letters[byte % (sizeof letters - 1)];
    }
    code[n] = '\0';
}

bool device_code_read(struct str text, char code[USER_CODE_TEXT], struct error *err)
{
    size_t n = 0;
    bool is_odd = text.len > CODE_MAX;
    for (size_t i = 0; i < text.len && !is_odd; i++) {
        char c = text.ptr[i];
        if (c == '-' || c == ' ')
            continue;
        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        if (n == CODE_LETTERS / 2)
            code[n++] = '-';
        is_odd = n >= USER_CODE_TEXT - 1 || c == '\0' || !strchr(letters, c);
        if (!is_odd)
            code[n++] = c;
    }
    code[n] = '\0';
    return (!is_odd && n == USER_CODE_TEXT - 1) ||
           error_set(err, ERR_NOT_FOUND, "there is no such code");
}

/* Of either code; told apart by a letter, so that one cannot stand for the other. */
static struct str hash_code(struct call *call, const char *kind, struct str code)
{
    const struct keys *keys = &server_of(call)->keys;
    struct str pieces[] = {str_of(kind), code};
    uint8_t *hash = arena_alloc(call->arena, BLAKE2B_LEN);
    keys_tag(keys, KEY_AUTH, pieces, COUNT_OF(pieces), hash);
    return (struct str){(const char *)hash, BLAKE2B_LEN};
}

static bool insert_code(struct call *call, const char *device, const char *user, struct error *err)
{
    struct server *server = server_of(call);
    struct rows rows;
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &device_codes_drop, NULL, NULL, err, V_INT(now - KEEP_MS)) ||
        !STORE(tx, &device_code_insert, call->arena, &rows, err,
               V_BYTES(hash_code(call, "device", str_of(device))),
               V_BYTES(hash_code(call, "user", str_of(user))), V_TEXT(server->keys.ids[KEY_AUTH]),
               V_INT(now), V_INT(now + CODE_MS)))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_UNAVAILABLE, "no code is free: try again");
    return store_commit(&tx, err);
}

bool auth_device_start(struct call *call, struct response *res, struct error *err)
{
    const struct server *server = server_of(call);
    char device[TOKEN_TEXT], user[USER_CODE_TEXT];
    token_make("hlmr_dc_", device);
    make_user_code(user);
    if (!rate_check(call, res, (struct str){0}, err) || !insert_code(call, device, user, err))
        return false;

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "device_code", device);
    json_string(&json, "user_code", user);
    json_string(&json, "verification_uri",
                arena_printf(call->arena, "%s/auth/device", server->public_url));
    json_string(&json, "verification_uri_complete",
                arena_printf(call->arena, "%s/auth/device?user_code=%s", server->public_url, user));
    json_int(&json, "expires_in_seconds", CODE_MS / 1000);
    json_int(&json, "interval_seconds", INTERVAL_MS / 1000);
    json_close(&json);
    bytes_wipe(device, sizeof device);
    response_json(res, 201);
    return json_end(&json, err);
}

struct token_body {
    struct str device_code;
};

static const struct json_field token_fields[] = {
    {"device_code", JSON_TEXT, offsetof(struct token_body, device_code), REQUIRED,
     .max = TOKEN_MAX},
    {0},
};

static bool refuse(struct error *err, enum error_code code)
{
    return error_set(err, code, "%s", error_wire_name(code));
}

static bool answer_pending(struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "error", "authorization_pending");
    json_string(&json, "code", "authorization_pending");
    json_close(&json);
    response_json(res, 202);
    return json_end(&json, err);
}

/* The approved code becomes a session, for one poll. */
static bool give_token(struct call *call, struct response *res, struct tx **tx, struct str hash,
                       const char *user_id, struct error *err)
{
    char token[TOKEN_TEXT];
    struct rows rows;
    if (!STORE(*tx, &device_code_consume, call->arena, &rows, err, V_BYTES(hash)))
        return false;
    if (rows.n_changed != 1)
        return refuse(err, ERR_EXPIRED_TOKEN);
    if (!session_open(*tx, server_of(call), user_id, token, err) ||
        !session_audit(call, *tx, user_id, err) || !store_commit(tx, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "access_token", token);
    json_string(&json, "token_type", "bearer");
    json_int(&json, "expires_in_seconds", SESSION_TOTAL_MS / 1000);
    json_close(&json);
    bytes_wipe(token, sizeof token);
    response_json(res, 200);
    return json_end(&json, err);
}

bool auth_device_token(struct call *call, struct response *res, struct error *err)
{
    struct token_body body;
    struct rows rows;
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;
    if (!call_body(call, token_fields, &body, sizeof body, err) ||
        !rate_check(call, res, (struct str){0}, err))
        return false;
    struct str hash = hash_code(call, "device", body.device_code);
    if (!store_begin(server_of(call)->store, &tx, err) ||
        !STORE(tx, &device_code_find, call->arena, &rows, err, V_BYTES(hash)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_INVALID, "invalid_request");
    struct str status = row_str(&rows, 0, DEVICE_CODE_FIND_STATUS);
    if (row_int(&rows, 0, DEVICE_CODE_FIND_EXPIRES_MS) <= now || str_equal(status, STR("consumed")))
        return refuse(err, ERR_EXPIRED_TOKEN);
    if (str_equal(status, STR("denied")))
        return refuse(err, ERR_ACCESS_DENIED);
    bool is_early = now - row_int(&rows, 0, DEVICE_CODE_FIND_POLLED_MS) < INTERVAL_MS - SLACK_MS;
    if (is_early)
        return refuse(err, ERR_SLOW_DOWN);
    if (str_equal(status, STR("approved")))
        return give_token(call, res, &tx, hash, row_text(&rows, 0, DEVICE_CODE_FIND_USER_ID), err);
    return STORE(tx, &device_code_poll, NULL, NULL, err, V_BYTES(hash), V_INT(now)) &&
           store_commit(&tx, err) && answer_pending(res, err);
}

bool device_code_status(struct call *call, struct str text, const char **status,
                        int64_t *expires_ms, struct error *err)
{
    char code[USER_CODE_TEXT];
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!device_code_read(text, code, err) || !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &device_code_find_by_user, call->arena, &rows, err,
               V_BYTES(hash_code(call, "user", str_of(code)))))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such code");
    const char *now = row_text(&rows, 0, DEVICE_CODE_FIND_BY_USER_STATUS);
    *expires_ms = row_int(&rows, 0, DEVICE_CODE_FIND_BY_USER_EXPIRES_MS);
    bool is_live = strcmp(now, "pending") == 0 || strcmp(now, "approved") == 0;
    *status = is_live && *expires_ms <= time_now_ms() ? "expired" : now;
    return true;
}

/* The page that asks has no caller of a permission, but it knows the person. */
static bool audit_decision(struct call *call, struct tx *tx, const char *decision,
                           const char *user_id, bool is_done, struct error *err)
{
    struct audit_entry entry =
        audit_entry_of(call, strcmp(decision, "approved") == 0 ? "device.approve" : "device.deny");
    entry.actor_type = "user";
    entry.actor_id = user_id;
    return !is_done || audit_write(tx, server_of(call), &entry, err);
}

bool device_code_settle(struct call *call, struct str text, const char *decision,
                        const char *user_id, const char **status, struct error *err)
{
    struct server *server = server_of(call);
    char code[USER_CODE_TEXT];
    struct rows rows;
    int64_t expires;
    {
        AUTO_TX tx = NULL;
        if (!device_code_read(text, code, err) || !store_begin(server->store, &tx, err) ||
            !STORE(tx, &device_code_decide, call->arena, &rows, err,
                   V_BYTES(hash_code(call, "user", str_of(code))), V_TEXT(decision),
                   V_TEXT(user_id), V_INT(time_now_ms())) ||
            !audit_decision(call, tx, decision, user_id, rows.n_changed == 1, err) ||
            !store_commit(&tx, err))
            return false;
    }
    return device_code_status(call, text, status, &expires, err) &&
           (rows.n_changed == 1 || error_set(err, ERR_CONFLICT, "the code is %s already", *status));
}

/* Guessing a code is a try like guessing a password. */
bool auth_device_status(struct call *call, struct response *res, struct error *err)
{
    struct str code;
    const char *status = NULL;
    int64_t expires = 0;
    bool found = false;
    if (!rate_check(call, res, str_of(caller_of(call)->user_id), err) ||
        !call_query(call, "user_code", &code, &found, err))
        return false;
    if (!found)
        return error_set(err, ERR_INVALID, "user_code is missing");
    if (!device_code_status(call, code, &status, &expires, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "status", status);
    json_time(&json, "expires_at", expires);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

struct decide_body {
    struct str user_code;
};

static const struct json_field decide_fields[] = {
    {"user_code", JSON_TEXT, offsetof(struct decide_body, user_code), REQUIRED, .max = CODE_MAX},
    {0},
};

static bool decide(struct call *call, struct response *res, const char *decision, struct error *err)
{
    struct decide_body body;
    const char *status = NULL, *user_id = caller_of(call)->user_id;
    if (!call_body(call, decide_fields, &body, sizeof body, err) ||
        !rate_check(call, res, str_of(user_id), err) ||
        !device_code_settle(call, body.user_code, decision, user_id, &status, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "status", status);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool auth_device_approve(struct call *call, struct response *res, struct error *err)
{
    return decide(call, res, "approved", err);
}

bool auth_device_deny(struct call *call, struct response *res, struct error *err)
{
    return decide(call, res, "denied", err);
}
