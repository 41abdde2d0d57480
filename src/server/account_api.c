#include "base/json.h"
#include "base/time.h"
#include "server/account.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/page.h"
#include "server/rate.h"
#include "server/session.h"
#include "store/queries.h"

/* Longer passwords are read, so that they are refused by the rule and not by their field. */
enum {
    TOKEN_MAX = 256,
    EMAIL_MAX = 320,
    PASSWORD_READ_MAX = 4096,
    TITLE_MAX = 256,
    NEXT_MAX = 4096
};

struct organization_body {
    struct str slug, name;
};

struct setup_body {
    struct str setup_token, email, password, display_name;
    struct organization_body organization;
};

static const struct json_field organization_fields[] = {
    {"slug", JSON_TEXT, offsetof(struct organization_body, slug), OPTIONAL, .max = TITLE_MAX},
    {"name", JSON_TEXT, offsetof(struct organization_body, name), OPTIONAL, .max = TITLE_MAX},
    {0},
};

static const struct json_field setup_fields[] = {
    {"setup_token", JSON_TEXT, offsetof(struct setup_body, setup_token), REQUIRED,
     .max = TOKEN_MAX},
    {"email", JSON_TEXT, offsetof(struct setup_body, email), REQUIRED, .max = EMAIL_MAX},
    {"password", JSON_TEXT, offsetof(struct setup_body, password), REQUIRED,
     .max = PASSWORD_READ_MAX},
    {"display_name", JSON_TEXT, offsetof(struct setup_body, display_name), OPTIONAL,
     .max = TITLE_MAX},
    {"organization", JSON_OBJ, offsetof(struct setup_body, organization), OPTIONAL,
     .fields = organization_fields},
    {0},
};

static bool setup_inside(struct call *call, struct response *res, struct error *err)
{
    struct setup_body body;
    char token[TOKEN_TEXT];
    if (!session_check_origin(call, false, err) ||
        !call_body(call, setup_fields, &body, sizeof body, err))
        return false;
    const struct setup_input input = {
        .setup_token = body.setup_token,
        .email = body.email,
        .password = body.password,
        .display_name = body.display_name,
        .organization_slug = body.organization.slug,
        .organization_name = body.organization.name,
    };
    return account_setup(call, res, &input, token, err) &&
           session_answer(call, res, 201, token, (struct str){0}, err);
}

bool auth_setup(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, setup_inside, err);
}

struct login_body {
    struct str email, password, next;
};

static const struct json_field login_fields[] = {
    {"email", JSON_TEXT, offsetof(struct login_body, email), REQUIRED, .max = EMAIL_MAX},
    {"password", JSON_TEXT, offsetof(struct login_body, password), REQUIRED,
     .max = PASSWORD_READ_MAX},
    {"next", JSON_TEXT, offsetof(struct login_body, next), OPTIONAL, .max = NEXT_MAX},
    {0},
};

/* Another site's page must not sign a browser in as somebody else. */
static bool login_inside(struct call *call, struct response *res, struct error *err)
{
    struct login_body body;
    char token[TOKEN_TEXT];
    return session_check_origin(call, false, err) &&
           call_body(call, login_fields, &body, sizeof body, err) &&
           account_login(call, res, body.email, body.password, token, err) &&
           session_answer(call, res, 200, token, body.next, err);
}

bool auth_login(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, login_inside, err);
}

struct accept_body {
    struct str token, display_name, password;
};

static const struct json_field accept_fields[] = {
    {"token", JSON_TEXT, offsetof(struct accept_body, token), REQUIRED, .max = TOKEN_MAX},
    {"display_name", JSON_TEXT, offsetof(struct accept_body, display_name), REQUIRED,
     .max = TITLE_MAX},
    {"password", JSON_TEXT, offsetof(struct accept_body, password), REQUIRED,
     .max = PASSWORD_READ_MAX},
    {0},
};

static bool accept_inside(struct call *call, struct response *res, struct error *err)
{
    struct accept_body body;
    char token[TOKEN_TEXT];
    return session_check_origin(call, false, err) &&
           call_body(call, accept_fields, &body, sizeof body, err) &&
           account_accept(call, res, body.token, body.display_name, body.password, token, err) &&
           session_answer(call, res, 200, token, (struct str){0}, err);
}

bool auth_invitation_accept(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, accept_inside, err);
}

struct reset_body {
    struct str token, new_password;
};

static const struct json_field reset_fields[] = {
    {"token", JSON_TEXT, offsetof(struct reset_body, token), REQUIRED, .max = TOKEN_MAX},
    {"new_password", JSON_TEXT, offsetof(struct reset_body, new_password), REQUIRED,
     .max = PASSWORD_READ_MAX},
    {0},
};

static bool reset_inside(struct call *call, struct response *res, struct error *err)
{
    struct reset_body body;
    char token[TOKEN_TEXT];
    return session_check_origin(call, false, err) &&
           call_body(call, reset_fields, &body, sizeof body, err) &&
           account_reset(call, res, body.token, body.new_password, token, err) &&
           session_answer(call, res, 200, token, (struct str){0}, err);
}

bool auth_password_reset(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, reset_inside, err);
}

struct password_body {
    struct str current_password, new_password;
};

static const struct json_field password_fields[] = {
    {"current_password", JSON_TEXT, offsetof(struct password_body, current_password), REQUIRED,
     .max = PASSWORD_READ_MAX},
    {"new_password", JSON_TEXT, offsetof(struct password_body, new_password), REQUIRED,
     .max = PASSWORD_READ_MAX},
    {0},
};

static bool find_password(struct call *call, struct rows *rows, struct error *err)
{
    AUTO_TX tx = NULL;
    return store_begin_read(server_of(call)->store, &tx, err) &&
           STORE(tx, &person_password, call->arena, rows, err, V_TEXT(caller_of(call)->user_id));
}

static bool wrong_password(struct error *err)
{
    return error_set(err, ERR_CREDENTIALS, "the current password is wrong");
}

/* Every other session ends; a browser's own goes on under a new token. */
static bool change_password(struct call *call, struct response *res, struct str old,
                            const char *new, struct error *err)
{
    struct server *server = server_of(call);
    const struct caller *caller = caller_of(call);
    struct wakes wakes = {0};
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &person_password_swap, call->arena, &rows, err, V_TEXT(caller->user_id),
               V_STR(old), V_TEXT(new)))
        return false;
    if (rows.n_changed != 1)
        return wrong_password(err);
    wakes_add(&wakes, TOPIC_AUTH, "");
    return STORE(tx, &user_sessions_revoke, NULL, NULL, err, V_TEXT(caller->user_id),
                 V_TEXT(caller->id), V_INT(time_now_ms())) &&
           STORE(tx, &password_resets_drop, NULL, NULL, err, V_TEXT(caller->user_id)) &&
           session_rotate(call, res, tx, err) &&
           audit_call(tx, call, "password.change", str_of(caller->user_id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}

static bool password_inside(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct password_body body;
    struct rows rows;
    char hash[PASSWORD_HASH_TEXT];
    if (!call_body(call, password_fields, &body, sizeof body, err) ||
        !password_check("/new_password", body.new_password, err) ||
        !rate_check(call, res, str_of(caller_of(call)->email), err) ||
        !find_password(call, &rows, err))
        return false;
    struct str old = row_str(&rows, 0, PERSON_PASSWORD_PASSWORD_HASH);
    if (body.current_password.len > PASSWORD_MAX ||
        !password_fits(&server->passwords, old, body.current_password))
        return wrong_password(err);
    if (!password_hash(&server->passwords, body.new_password, hash, err) ||
        !change_password(call, res, old, hash, err))
        return false;
    response_empty(res, 204);
    return true;
}

bool auth_password(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, password_inside, err);
}
