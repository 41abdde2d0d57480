#include "base/json.h"
#include "base/time.h"
#include "server/account.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/input.h"
#include "server/json_row.h"
#include "server/page.h"
#include "store/queries.h"

enum { DAYS_DEFAULT = 7, DAYS_MAX = 30, EMAIL_MAX = 320, ROLE_MAX = 32 };

struct invitation_body {
    struct str email, role;
    int64_t expires_in_days;
    bool has_expiry;
};

static const struct json_field invitation_fields[] = {
    {"email", JSON_TEXT, offsetof(struct invitation_body, email), REQUIRED, .max = EMAIL_MAX},
    {"role", JSON_TEXT, offsetof(struct invitation_body, role), REQUIRED, .max = ROLE_MAX},
    {"expires_in_days", JSON_INTEGER, offsetof(struct invitation_body, expires_in_days), OPTIONAL,
     .min = 1, .max = DAYS_MAX, .present = offsetof(struct invitation_body, has_expiry)},
    {0},
};

/* Left open, so that a new one can carry its address. */
static void write_invitation(struct json_writer *json, const struct rows *rows, size_t row)
{
    struct str status = row_str(rows, row, INVITATION_LIST_STATUS);
    bool is_over = str_equal(status, STR("pending")) &&
                   row_int(rows, row, INVITATION_LIST_EXPIRES_MS) <= time_now_ms();
    json_open(json, NULL);
    json_row_text(json, "id", rows, row, INVITATION_LIST_ID);
    json_row_text(json, "email", rows, row, INVITATION_LIST_EMAIL);
    json_row_text(json, "role", rows, row, INVITATION_LIST_ROLE);
    json_text(json, "status", is_over ? STR("expired") : status);
    json_row_time(json, "expires_at", rows, row, INVITATION_LIST_EXPIRES_MS);
    json_row_time(json, "created_at", rows, row, INVITATION_LIST_CREATED_MS);
}

bool invitation_list_get(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!page_begin(call, "invitations", (struct str){0}, false, &page, err) ||
        !store_begin_read(server->store, &tx, err) ||
        !STORE(tx, &invitation_list, call->arena, &rows, err, V_TEXT(server->organization_id),
               V_TEXT(page.at), V_INT(page_rows(&page))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "invitations");
    for (size_t i = 0; i < n; i++) {
        write_invitation(&json, &rows, i);
        json_close(&json);
    }
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, INVITATION_LIST_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool check_role(struct call *call, struct str role, struct error *err)
{
    enum role parsed;
    if (!role_parse(role, &parsed))
        return error_set(err, ERR_INVALID, "/role must be owner, admin, developer or viewer");
    return parsed != ROLE_OWNER || strcmp(caller_of(call)->role, "owner") == 0 ||
           error_set(err, ERR_FORBIDDEN, "only an owner may invite an owner");
}

static bool is_no_member(struct call *call, struct tx *tx, struct str email, struct error *err)
{
    struct rows rows;
    if (!STORE(tx, &person_find, call->arena, &rows, err, V_STR(email)))
        return false;
    return rows.n_rows == 0 || row_is_null(&rows, 0, PERSON_FIND_STATUS) ||
           error_set(err, ERR_CONFLICT, "there is a member with this e-mail already");
}

static bool answer(struct call *call, struct response *res, const struct value *row, size_t n,
                   const char *token, struct error *err)
{
    const struct rows rows = {.values = row, .n_rows = 1, .n_columns = n};
    struct json_writer json = json_begin(response_body(res));
    write_invitation(&json, &rows, 0);
    json_string(&json, "invite_url",
                arena_printf(call->arena, "%s/invite?token=%s", server_of(call)->public_url,
                             token));
    json_close(&json);
    response_json(res, 201);
    return json_end(&json, err);
}

/* A new invitation takes the place of a pending one for the same e-mail. */
bool invitation_create(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct invitation_body body;
    struct str email;
    uint8_t hash[BLAKE2B_LEN];
    char token[TOKEN_TEXT], id[ID_TEXT];
    if (!call_body(call, invitation_fields, &body, sizeof body, err) ||
        !check_role(call, body.role, err) || !account_email(call, body.email, &email, err))
        return false;
    int64_t now = time_now_ms();
    int64_t expires = now + (body.has_expiry ? body.expires_in_days : DAYS_DEFAULT) * DAY_MS;
    id_make(id);
    token_make("hlmr_in_", token);
    keys_hash_token(&server->keys, str_of(token), hash);

    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) || !is_no_member(call, tx, email, err) ||
        !STORE(tx, &invitations_revoke_of, NULL, NULL, err, V_STR(email), V_INT(now)) ||
        !STORE(tx, &invitation_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(server->organization_id),
               V_STR(email), V_STR(body.role),
               V_BYTES(((struct str){(const char *)hash, sizeof hash})),
               V_TEXT(server->keys.ids[KEY_AUTH]), V_TEXT(caller_of(call)->user_id), V_INT(now),
               V_INT(expires)) ||
        !audit_call(tx, call, "invitation.create", email, err) || !store_commit(&tx, err))
        return false;
    const struct value row[] = {
        [INVITATION_LIST_ID] = V_TEXT(id),
        [INVITATION_LIST_EMAIL] = V_STR(email),
        [INVITATION_LIST_ROLE] = V_STR(body.role),
        [INVITATION_LIST_STATUS] = V_TEXT("pending"),
        [INVITATION_LIST_EXPIRES_MS] = V_INT(expires),
        [INVITATION_LIST_CREATED_MS] = V_INT(now),
    };
    bool ok = answer(call, res, row, COUNT_OF(row), token, err);
    bytes_wipe(token, sizeof token);
    return ok;
}

bool invitation_delete(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct rows rows, found;
    char id[ID_TEXT];
    AUTO_TX tx = NULL;
    if (!call_id(call, 0, id, err) || !store_begin(server->store, &tx, err) ||
        !STORE(tx, &invitation_get, call->arena, &found, err, V_TEXT(server->organization_id),
               V_TEXT(id)))
        return false;
    if (found.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no invitation %s", id);
    if (!STORE(tx, &invitation_revoke, call->arena, &rows, err, V_TEXT(server->organization_id),
               V_TEXT(id), V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_INVITATION_SETTLED, "the invitation is %s already",
                         row_text(&found, 0, INVITATION_GET_STATUS));
    if (!audit_call(tx, call, "invitation.revoke", str_of(id), err) || !store_commit(&tx, err))
        return false;
    response_empty(res, 204);
    return true;
}
