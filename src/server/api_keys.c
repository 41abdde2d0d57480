#include <stdio.h>

#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/input.h"
#include "server/json_row.h"
#include "server/page.h"
#include "store/queries.h"

enum { NAME_MAX_BYTES = 200, GRANTS_MAX = 16, SCOPES_MAX = 64 };

struct grant {
    struct json_list scopes;
};

struct key_body {
    struct str name;
    struct str expires_in_days; /* raw: a number or null */
    struct json_list permissions;
};

static const struct json_field grant_fields[] = {
    {"scopes", JSON_LIST, offsetof(struct grant, scopes), REQUIRED, .max = SCOPES_MAX},
    {0},
};

static const struct json_field key_fields[] = {
    {"name", JSON_TEXT, offsetof(struct key_body, name), REQUIRED, .max = NAME_MAX_BYTES},
    {"expires_in_days", JSON_RAW, offsetof(struct key_body, expires_in_days), OPTIONAL, .max = 8},
    {"permissions", JSON_LIST, offsetof(struct key_body, permissions), REQUIRED, .max = GRANTS_MAX,
     .fields = grant_fields, .size = sizeof(struct grant)},
    {0},
};

static const char *key_status(const struct rows *rows, size_t row, int64_t now)
{
    if (!row_is_null(rows, row, API_KEY_LIST_REVOKED_MS))
        return "revoked";
    bool is_over = !row_is_null(rows, row, API_KEY_LIST_EXPIRES_MS) &&
                   row_int(rows, row, API_KEY_LIST_EXPIRES_MS) <= now;
    return is_over ? "expired" : "active";
}

/* Left open, so that a new key can carry its raw value. */
static void write_key(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_open(json, NULL);
    json_row_text(json, "id", rows, row, API_KEY_LIST_ID);
    json_row_text(json, "name", rows, row, API_KEY_LIST_NAME);
    json_row_text(json, "key_prefix", rows, row, API_KEY_LIST_KEY_PREFIX);
    json_string(json, "status", key_status(rows, row, time_now_ms()));
    json_open_list(json, "permissions");
    json_open(json, NULL);
    json_open_list(json, "scopes");
    struct str scopes = row_str(rows, row, API_KEY_LIST_SCOPES), scope;
    while (str_split(&scopes, ' ', &scope))
        json_text(json, NULL, scope);
    json_close_list(json);
    json_close(json);
    json_close_list(json);
    json_row_text(json, "created_by", rows, row, API_KEY_LIST_CREATED_BY);
    json_row_time(json, "created_at", rows, row, API_KEY_LIST_CREATED_MS);
    json_row_time(json, "expires_at", rows, row, API_KEY_LIST_EXPIRES_MS);
    json_row_time(json, "last_used_at", rows, row, API_KEY_LIST_LAST_USED_MS);
    json_row_time(json, "revoked_at", rows, row, API_KEY_LIST_REVOKED_MS);
}

static bool read_filter(struct call *call, struct str *filter, struct error *err)
{
    static const char *const known[] = {"active", "expired", "revoked", "all"};
    bool found = false;
    if (!call_query(call, "filter", filter, &found, err))
        return false;
    if (!found) {
        *filter = STR("active");
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (str_equal(*filter, str_of(known[i])))
            return true;
    return error_set(err, ERR_INVALID, "filter must be active, expired, revoked or all");
}

bool api_key_list_get(struct call *call, struct response *res, struct error *err)
{
    struct str filter;
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!read_filter(call, &filter, err) ||
        !page_begin(call, "api-keys", filter, false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &api_key_list, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_STR(filter), V_INT(time_now_ms()), V_TEXT(page.at), V_INT(page_rows(&page))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "api_keys");
    for (size_t i = 0; i < n; i++) {
        write_key(&json, &rows, i);
        json_close(&json);
    }
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, API_KEY_LIST_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

/* The permissions asked for, each once, in the order of the list of permissions. */
static bool read_scopes(struct call *call, const struct key_body *body, const char **scopes,
                        struct error *err)
{
    bool wanted[PERM_COUNT] = {false};
    const struct grant *grants = body->permissions.items;
    for (size_t i = 0; i < body->permissions.n; i++) {
        const struct str *names = grants[i].scopes.items;
        for (size_t j = 0; j < grants[i].scopes.n; j++) {
            enum permission permission;
            if (!permission_parse(names[j], &permission) || !permission_is_grantable(permission))
                return error_set(err, ERR_UNKNOWN_PERMISSION, "%.64s is not a permission of keys",
                                 arena_text(call->arena, names[j]));
            if (!caller_may(caller_of(call), permission))
                return error_set(err, ERR_FORBIDDEN, "you do not have %s yourself",
                                 permission_name(permission));
            wanted[permission] = true;
        }
    }
    *scopes = "";
    for (enum permission p = PERM_SESSION + 1; p < PERM_COUNT; p++)
        if (wanted[p])
            *scopes = arena_printf(call->arena, "%s%s%s", *scopes, **scopes ? " " : "",
                                   permission_name(p));
    return **scopes || error_set(err, ERR_INVALID, "/permissions must name at least one");
}

static bool read_expiry(struct str raw, int64_t now, struct value *expires, struct error *err)
{
    static const int days[] = {30, 90, 365};
    *expires = V_NULL;
    if (!raw.ptr || str_equal(raw, STR("null")))
        return true;
    for (size_t i = 0; i < COUNT_OF(days); i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", days[i]);
        if (str_equal(raw, str_of(text))) {
            *expires = V_INT(now + days[i] * DAY_MS);
            return true;
        }
    }
    return error_set(err, ERR_INVALID, "/expires_in_days must be 30, 90, 365 or null");
}

bool api_key_create(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct key_body body;
    const char *scopes = "";
    struct value expires = V_NULL;
    int64_t now = time_now_ms();
    if (!call_body(call, key_fields, &body, sizeof body, err) ||
        !name_check(NAME_TITLE, "/name", body.name, err) ||
        !read_scopes(call, &body, &scopes, err) ||
        !read_expiry(body.expires_in_days, now, &expires, err))
        return false;

    char id[ID_TEXT], token[TOKEN_TEXT];
    uint8_t hash[BLAKE2B_LEN];
    id_make(id);
    token_make("hlmr_sk_", token);
    keys_hash_token(&server->keys, str_of(token), hash);
    const char *prefix =
        arena_printf(call->arena, "%.*s", (int)sizeof "hlmr_sk_" - 1 + TOKEN_SHOWN, token);

    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &api_key_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(call_environment(call)),
               V_STR(body.name), V_TEXT(prefix),
               V_BYTES(((struct str){(const char *)hash, sizeof hash})),
               V_TEXT(server->keys.ids[KEY_AUTH]), V_TEXT(scopes), V_TEXT(caller_of(call)->user_id),
               V_INT(now), expires) ||
        !audit_call(tx, call, "api_key.create", str_of(id), err) || !store_commit(&tx, err))
        return false;

    const struct value row[] = {
        [API_KEY_LIST_ID] = V_TEXT(id),
        [API_KEY_LIST_NAME] = V_STR(body.name),
        [API_KEY_LIST_KEY_PREFIX] = V_TEXT(prefix),
        [API_KEY_LIST_SCOPES] = V_TEXT(scopes),
        [API_KEY_LIST_CREATED_BY] = V_TEXT(caller_of(call)->user_id),
        [API_KEY_LIST_CREATED_MS] = V_INT(now),
        [API_KEY_LIST_EXPIRES_MS] = expires,
        [API_KEY_LIST_LAST_USED_MS] = V_NULL,
        [API_KEY_LIST_REVOKED_MS] = V_NULL,
    };
    const struct rows rows = {.values = row, .n_rows = 1, .n_columns = COUNT_OF(row)};
    struct json_writer json = json_begin(response_body(res));
    write_key(&json, &rows, 0);
    json_string(&json, "raw_key", token);
    json_close(&json);
    bytes_wipe(token, sizeof token);
    response_json(res, 201);
    return json_end(&json, err);
}

bool api_key_delete(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    char id[ID_TEXT];
    struct rows rows;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    if (!call_id(call, 0, id, err) || !store_begin(server->store, &tx, err) ||
        !STORE(tx, &api_key_revoke, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(id), V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_NOT_FOUND, "there is no API key %s", id);
    wakes_add(&wakes, TOPIC_AUTH, "");
    if (!audit_call(tx, call, "api_key.revoke", str_of(id), err) ||
        !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    response_empty(res, 204);
    return true;
}
