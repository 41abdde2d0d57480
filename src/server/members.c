#include "base/json.h"
#include "base/time.h"
#include "server/account.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/json_row.h"
#include "server/page.h"
#include "store/queries.h"

enum { ROLE_MAX = 32, RESET_MS = 60 * 60 * 1000 };

_Static_assert((int)MEMBER_LIST_CREATED_MS == (int)MEMBER_FIND_CREATED_MS,
               "both ways to find a member have the same columns");

static void write_member(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_open(json, NULL);
    json_row_text(json, "user_id", rows, row, MEMBER_FIND_USER_ID);
    json_row_text(json, "email", rows, row, MEMBER_FIND_EMAIL);
    json_row_text(json, "display_name", rows, row, MEMBER_FIND_DISPLAY_NAME);
    json_row_text(json, "role", rows, row, MEMBER_FIND_ROLE);
    json_row_text(json, "status", rows, row, MEMBER_FIND_STATUS);
    json_row_time(json, "created_at", rows, row, MEMBER_FIND_CREATED_MS);
    json_close(json);
}

bool member_list_get(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!page_begin(call, "members", (struct str){0}, false, &page, err) ||
        !store_begin_read(server->store, &tx, err) ||
        !STORE(tx, &member_list, call->arena, &rows, err, V_TEXT(server->organization_id),
               V_TEXT(page.at), V_INT(page_rows(&page))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "members");
    for (size_t i = 0; i < n; i++)
        write_member(&json, &rows, i);
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, MEMBER_LIST_USER_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool is_owner(struct str role)
{
    return str_equal(role, STR("owner"));
}

/* What touches an owner, or makes one, is for owners. */
static bool check_owner(struct call *call, struct str role, struct error *err)
{
    return !is_owner(role) || is_owner(str_of(caller_of(call)->role)) ||
           error_set(err, ERR_FORBIDDEN, "only an owner may do this to an owner");
}

/* The member of the path. Changes wait for each other, so that two owners who remove one another
 * at the same time do not both succeed. */
static bool find_member(struct call *call, struct tx *tx, bool is_change, struct rows *rows,
                        struct error *err)
{
    const char *organization = server_of(call)->organization_id;
    char id[ID_TEXT];
    if (!call_id(call, 0, id, err) ||
        (is_change && !STORE(tx, &organization_lock, NULL, NULL, err, V_TEXT(organization))) ||
        !STORE(tx, &member_find, call->arena, rows, err, V_TEXT(organization), V_TEXT(id)))
        return false;
    if (rows->n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no member %s", id);
    return check_owner(call, row_str(rows, 0, MEMBER_FIND_ROLE), err);
}

static bool keep_an_owner(struct call *call, struct tx *tx, const struct rows *member,
                          struct error *err)
{
    struct rows rows;
    if (!is_owner(row_str(member, 0, MEMBER_FIND_ROLE)) ||
        !str_equal(row_str(member, 0, MEMBER_FIND_STATUS), STR("active")))
        return true;
    if (!STORE(tx, &member_other_owners, call->arena, &rows, err,
               V_TEXT(server_of(call)->organization_id),
               V_STR(row_str(member, 0, MEMBER_FIND_USER_ID)), V_TEXT(LOCAL_OWNER)))
        return false;
    return row_int(&rows, 0, MEMBER_OTHER_OWNERS_N) > 0 ||
           error_set(err, ERR_LAST_OWNER, "this is the last owner who can sign in");
}

struct member_body {
    struct str role, status, expected_role;
};

static const struct json_field member_fields[] = {
    {"role", JSON_TEXT, offsetof(struct member_body, role), OPTIONAL, .max = ROLE_MAX},
    {"status", JSON_TEXT, offsetof(struct member_body, status), OPTIONAL, .max = ROLE_MAX},
    {"expected_role", JSON_TEXT, offsetof(struct member_body, expected_role), REQUIRED,
     .max = ROLE_MAX},
    {0},
};

static bool read_member(struct call *call, struct member_body *body, struct error *err)
{
    enum role role;
    if (!call_body(call, member_fields, body, sizeof *body, err))
        return false;
    if ((body->role.ptr && !role_parse(body->role, &role)) ||
        !role_parse(body->expected_role, &role))
        return error_set(err, ERR_INVALID,
                         "/role and /expected_role must be owner, admin, developer or viewer");
    if (body->status.ptr && !str_equal(body->status, STR("active")) &&
        !str_equal(body->status, STR("disabled")))
        return error_set(err, ERR_INVALID, "/status must be active or disabled");
    return !body->role.ptr || check_owner(call, body->role, err);
}

static bool end_sessions(struct tx *tx, const char *user_id, struct error *err)
{
    return STORE(tx, &user_sessions_revoke, NULL, NULL, err, V_TEXT(user_id), V_TEXT(""),
                 V_INT(time_now_ms())) &&
           STORE(tx, &password_resets_drop, NULL, NULL, err, V_TEXT(user_id));
}

static bool change_member(struct call *call, struct tx *tx, const struct member_body *body,
                          const struct rows *rows, struct error *err)
{
    struct str old = row_str(rows, 0, MEMBER_FIND_ROLE);
    struct str role = body->role.ptr ? body->role : old;
    struct str status = body->status.ptr ? body->status : row_str(rows, 0, MEMBER_FIND_STATUS);
    bool is_active = str_equal(status, STR("active"));
    if (!str_equal(old, body->expected_role))
        return error_set(err, ERR_ROLE_CHANGED, "the role is %s by now",
                         row_text(rows, 0, MEMBER_FIND_ROLE));
    if ((!is_owner(role) || !is_active) && !keep_an_owner(call, tx, rows, err))
        return false;
    return STORE(tx, &member_change, NULL, NULL, err, V_TEXT(server_of(call)->organization_id),
                 V_STR(row_str(rows, 0, MEMBER_FIND_USER_ID)), V_STR(role), V_STR(status)) &&
           (is_active || end_sessions(tx, row_text(rows, 0, MEMBER_FIND_USER_ID), err));
}

bool member_patch(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct member_body body;
    struct wakes wakes = {0};
    struct rows before, after;
    AUTO_TX tx = NULL;
    if (!read_member(call, &body, err) || !store_begin(server->store, &tx, err) ||
        !find_member(call, tx, true, &before, err) ||
        !change_member(call, tx, &body, &before, err) ||
        !STORE(tx, &member_find, call->arena, &after, err, V_TEXT(server->organization_id),
               V_STR(row_str(&before, 0, MEMBER_FIND_USER_ID))))
        return false;
    wakes_add(&wakes, TOPIC_AUTH, "");
    if (!audit_call(tx, call, "member.update", row_str(&before, 0, MEMBER_FIND_USER_ID), err) ||
        !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    write_member(&json, &after, 0);
    response_json(res, 200);
    return json_end(&json, err);
}

/* Keys go with their issuer: a later invitation must not bring them back. */
bool member_delete_one(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) || !find_member(call, tx, true, &rows, err) ||
        !keep_an_owner(call, tx, &rows, err))
        return false;
    const char *user_id = row_text(&rows, 0, MEMBER_FIND_USER_ID);
    if (!STORE(tx, &member_delete, NULL, NULL, err, V_TEXT(server->organization_id),
               V_TEXT(user_id)) ||
        !STORE(tx, &api_keys_revoke_of, NULL, NULL, err, V_TEXT(user_id), V_INT(time_now_ms())) ||
        !end_sessions(tx, user_id, err))
        return false;
    wakes_add(&wakes, TOPIC_AUTH, "");
    if (!audit_call(tx, call, "member.remove", str_of(user_id), err) ||
        !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    response_empty(res, 204);
    return true;
}

bool member_password_reset(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    uint8_t hash[BLAKE2B_LEN];
    char token[TOKEN_TEXT];
    struct rows rows;
    int64_t now = time_now_ms();
    token_make("hlmr_pr_", token);
    keys_hash_token(&server->keys, str_of(token), hash);
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) || !find_member(call, tx, false, &rows, err) ||
        !STORE(tx, &password_resets_drop, NULL, NULL, err,
               V_STR(row_str(&rows, 0, MEMBER_FIND_USER_ID))) ||
        !STORE(tx, &password_reset_insert, NULL, NULL, err,
               V_BYTES(((struct str){(const char *)hash, sizeof hash})),
               V_TEXT(server->keys.ids[KEY_AUTH]), V_STR(row_str(&rows, 0, MEMBER_FIND_USER_ID)),
               V_INT(now), V_INT(now + RESET_MS)) ||
        !audit_call(tx, call, "member.password_reset", row_str(&rows, 0, MEMBER_FIND_USER_ID),
                    err) ||
        !store_commit(&tx, err))
        return false;

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "reset_url",
                arena_printf(call->arena, "%s/reset?token=%s", server->public_url, token));
    json_time(&json, "expires_at", now + RESET_MS);
    json_close(&json);
    bytes_wipe(token, sizeof token);
    response_json(res, 201);
    return json_end(&json, err);
}
