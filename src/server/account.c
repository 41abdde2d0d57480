#include "server/account.h"

#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/context.h"
#include "server/listen.h"
#include "server/rate.h"
#include "server/session.h"
#include "store/queries.h"

enum { EMAIL_MAX = 254 };

#define SETUP_PREFIX "hlmr_st_"

static struct str bytes_of(const uint8_t hash[BLAKE2B_LEN])
{
    return (struct str){(const char *)hash, BLAKE2B_LEN};
}

bool account_email(struct call *call, struct str text, struct str *email, struct error *err)
{
    text = str_trim(text, STR(" "));
    char *made = arena_text(call->arena, text);
    const char *at = strchr(made, '@');
    bool is_plausible =
        text.len >= 3 && text.len <= EMAIL_MAX && at && at != made && at[1] && !strchr(at + 1, '@');
    for (size_t i = 0; i < text.len; i++) {
        is_plausible =
            is_plausible && made[i] > ' ' && made[i] != 0x7f && !strchr("<>\"\\,;", made[i]);
        if (made[i] >= 'A' && made[i] <= 'Z')
            made[i] = (char)(made[i] - 'A' + 'a');
    }
    *email = (struct str){made, text.len};
    return is_plausible || error_set(err, ERR_INVALID, "/email must be an e-mail address");
}

bool account_has_dev_login(const struct server *server)
{
    return server->config->dev_login && server->is_loopback_only &&
           !server->config->trusted_proxies && listen_url_is_loopback(server->public_url);
}

static bool read_setup(struct tx *tx, struct arena *arena, struct rows *rows, struct error *err)
{
    return STORE(tx, &organization_setup, arena, rows, err, V_TEXT(LOCAL_OWNER)) &&
           (rows->n_rows == 1 || error_set(err, ERR_INTERNAL, "there is no organization"));
}

static bool is_set_up(const struct rows *rows)
{
    return !row_is_null(rows, 0, ORGANIZATION_SETUP_SETUP_MS) ||
           row_int(rows, 0, ORGANIZATION_SETUP_N_OWNERS) > 0;
}

bool account_offer_setup(struct server *server, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct secret *configured = &server->config->setup_token;
    uint8_t hash[BLAKE2B_LEN];
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) || !read_setup(tx, &arena, &rows, err))
        return false;
    if (is_set_up(&rows) || (!secret_is_set(configured) && account_has_dev_login(server)))
        return true;
    if (!secret_is_set(configured))
        token_make(SETUP_PREFIX, server->setup_token);
    keys_hash_token(&server->keys,
                    secret_is_set(configured) ? secret_reveal(configured)
                                              : str_of(server->setup_token),
                    hash);
    return STORE(tx, &organization_offer_setup, NULL, NULL, err, V_TEXT(server->organization_id),
                 V_BYTES(bytes_of(hash))) &&
           store_commit(&tx, err);
}

static bool check_setup(struct call *call, struct str token, struct error *err)
{
    struct server *server = server_of(call);
    uint8_t hash[BLAKE2B_LEN];
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server->store, &tx, err) || !read_setup(tx, call->arena, &rows, err))
        return false;
    if (is_set_up(&rows))
        return error_set(err, ERR_SETUP_DONE, "there is an owner already: sign in instead");
    bool is_right = false;
    for (size_t i = 0; i < keys_count(&server->keys); i++) {
        keys_hash_token_under(&server->keys, i, token, hash);
        is_right |= bytes_equal_constant_time(row_str(&rows, 0, ORGANIZATION_SETUP_SETUP_HASH),
                                              bytes_of(hash));
    }
    return is_right ||
           error_set(err, ERR_SETUP_TOKEN, "the setup token is not the one this server printed");
}

static bool check_setup_input(struct call *call, const struct setup_input *input, struct str *email,
                              struct error *err)
{
    return account_email(call, input->email, email, err) &&
           password_check("/password", input->password, err) &&
           (input->display_name.len == 0 ||
            name_check(NAME_TITLE, "/display_name", input->display_name, err)) &&
           (input->organization_slug.len == 0 ||
            name_check(NAME_SLUG, "/organization/slug", input->organization_slug, err)) &&
           (input->organization_name.len == 0 ||
            name_check(NAME_TITLE, "/organization/name", input->organization_name, err));
}

/* The person of that e-mail with this password, new or as they were. */
static bool put_person(struct call *call, struct tx *tx, struct str email, struct str display_name,
                       const char *hash, char user_id[ID_TEXT], struct error *err)
{
    struct rows rows;
    char id[ID_TEXT];
    struct str local = email, rest = email;
    (void)str_split(&rest, '@', &local);
    id_make(id);
    if (!STORE(tx, &person_upsert, call->arena, &rows, err, V_TEXT(id), V_STR(email),
               V_STR(display_name.len ? display_name : local), V_TEXT_OR_NULL(hash),
               V_INT(time_now_ms())))
        return false;
    row_id(&rows, 0, PERSON_UPSERT_ID, user_id);
    return true;
}

static bool rename_organization(struct call *call, struct tx *tx, const struct setup_input *input,
                                struct error *err)
{
    struct rows rows;
    if (input->organization_slug.len == 0 && input->organization_name.len == 0)
        return true;
    if (!store_run(tx, &organization_find, NULL, 0, call->arena, &rows, err))
        return false;
    struct str slug = input->organization_slug, name = input->organization_name;
    return STORE(tx, &organization_rename, NULL, NULL, err,
                 V_TEXT(server_of(call)->organization_id),
                 V_STR(slug.len ? slug : row_str(&rows, 0, ORGANIZATION_FIND_SLUG)),
                 V_STR(name.len ? name : row_str(&rows, 0, ORGANIZATION_FIND_NAME)));
}

bool account_setup(struct call *call, struct response *res, const struct setup_input *input,
                   char token[TOKEN_TEXT], struct error *err)
{
    struct server *server = server_of(call);
    char hash[PASSWORD_HASH_TEXT], user_id[ID_TEXT];
    struct rows rows;
    struct str email;
    if (!rate_check(call, res, (struct str){0}, err) ||
        !check_setup(call, input->setup_token, err) ||
        !check_setup_input(call, input, &email, err) ||
        !password_hash(&server->passwords, input->password, hash, err))
        return false;

    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &organization_set_up, call->arena, &rows, err, V_TEXT(server->organization_id),
               V_INT(now)))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_SETUP_DONE, "there is an owner already: sign in instead");
    return put_person(call, tx, email, input->display_name, hash, user_id, err) &&
           STORE(tx, &member_put, NULL, NULL, err, V_TEXT(server->organization_id), V_TEXT(user_id),
                 V_TEXT("owner"), V_INT(now)) &&
           rename_organization(call, tx, input, err) &&
           session_begin(call, &tx, user_id, token, err);
}

static bool wrong_credentials(struct error *err)
{
    return error_set(err, ERR_CREDENTIALS, "the e-mail or the password is wrong");
}

/* Reads and closes the transaction, so that nothing is held while the password is worked on. */
static bool find_person(struct call *call, struct str email, struct rows *rows, struct error *err)
{
    AUTO_TX tx = NULL;
    return store_begin_read(server_of(call)->store, &tx, err) &&
           STORE(tx, &person_find, call->arena, rows, err, V_STR(email));
}

static bool enter(struct call *call, struct response *res, struct str email, struct str password,
                  char token[TOKEN_TEXT], struct error *err)
{
    struct server *server = server_of(call);
    struct rows rows;
    struct str hash = {0};
    char user_id[ID_TEXT];
    if (!account_email(call, email, &email, err) || !rate_check(call, res, email, err) ||
        !find_person(call, email, &rows, err))
        return false;
    bool may_enter =
        rows.n_rows == 1 && str_equal(row_str(&rows, 0, PERSON_FIND_STATUS), STR("active"));
    if (may_enter)
        hash = row_str(&rows, 0, PERSON_FIND_PASSWORD_HASH);
    if (password.len > PASSWORD_MAX || !password_fits(&server->passwords, hash, password))
        return wrong_credentials(err);

    /* A password that was changed meanwhile opens nothing any more. */
    struct rows swapped;
    AUTO_TX tx = NULL;
    row_id(&rows, 0, PERSON_FIND_ID, user_id);
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &person_password_swap, call->arena, &swapped, err, V_TEXT(user_id), V_STR(hash),
               V_STR(hash)))
        return false;
    if (swapped.n_changed != 1)
        return wrong_credentials(err);
    return session_begin(call, &tx, user_id, token, err);
}

/* By any page or route. A person who is not known is told of like one who is. */
bool account_login(struct call *call, struct response *res, struct str email, struct str password,
                   char token[TOKEN_TEXT], struct error *err)
{
    if (enter(call, res, email, password, token, err))
        return true;
    if (err->code == ERR_CREDENTIALS) {
        struct audit_entry entry = audit_entry_of(call, "login");
        entry.subject = email;
        entry.outcome = "failed";
        audit_refusal(server_of(call), &entry);
    }
    return false;
}

/* An invitation outlives a change of the master key. */
static bool look_up_invitation(struct call *call, struct tx *tx, struct str token,
                               struct rows *rows, struct error *err)
{
    const struct keys *keys = &server_of(call)->keys;
    bool ok = true;
    rows->n_rows = 0;
    for (size_t i = 0; ok && rows->n_rows == 0 && i < keys_count(keys); i++) {
        uint8_t hash[BLAKE2B_LEN];
        keys_hash_token_under(keys, i, token, hash);
        ok = STORE(tx, &invitation_find, call->arena, rows, err, V_BYTES(bytes_of(hash)));
    }
    return ok;
}

static bool find_invitation(struct call *call, struct tx *tx, struct str token, struct rows *rows,
                            struct error *err)
{
    if (!look_up_invitation(call, tx, token, rows, err))
        return false;
    if (rows->n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such invitation");
    if (!str_equal(row_str(rows, 0, INVITATION_FIND_STATUS), STR("pending")))
        return error_set(err, ERR_INVITATION_SETTLED, "the invitation was used or taken back");
    return row_int(rows, 0, INVITATION_FIND_EXPIRES_MS) > time_now_ms() ||
           error_set(err, ERR_INVITATION_EXPIRED, "the invitation has expired: ask for another");
}

static bool peek_invitation(struct call *call, struct str token, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    return store_begin_read(server_of(call)->store, &tx, err) &&
           find_invitation(call, tx, token, &rows, err);
}

/* Who became a member in another way keeps role and password. */
static bool is_no_member(struct call *call, struct tx *tx, struct str email, struct error *err)
{
    struct rows rows;
    if (!STORE(tx, &person_find, call->arena, &rows, err, V_STR(email)))
        return false;
    return rows.n_rows == 0 || row_is_null(&rows, 0, PERSON_FIND_STATUS) ||
           error_set(err, ERR_INVITATION_SETTLED, "you are a member already: sign in instead");
}

bool account_accept(struct call *call, struct response *res, struct str invitation,
                    struct str display_name, struct str password, char token[TOKEN_TEXT],
                    struct error *err)
{
    struct server *server = server_of(call);
    char hash[PASSWORD_HASH_TEXT], user_id[ID_TEXT];
    struct rows rows, settled;
    int64_t now = time_now_ms();
    if (!rate_check(call, res, (struct str){0}, err) || !peek_invitation(call, invitation, err) ||
        !name_check(NAME_TITLE, "/display_name", display_name, err) ||
        !password_check("/password", password, err) ||
        !password_hash(&server->passwords, password, hash, err))
        return false;

    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) ||
        !find_invitation(call, tx, invitation, &rows, err) ||
        !STORE(tx, &invitation_settle, call->arena, &settled, err,
               V_STR(row_str(&rows, 0, INVITATION_FIND_ID)), V_TEXT("accepted"), V_INT(now)))
        return false;
    if (settled.n_changed != 1)
        return error_set(err, ERR_INVITATION_SETTLED, "the invitation was used or taken back");
    if (!is_no_member(call, tx, row_str(&rows, 0, INVITATION_FIND_EMAIL), err))
        return false;
    return put_person(call, tx, row_str(&rows, 0, INVITATION_FIND_EMAIL), display_name, hash,
                      user_id, err) &&
           STORE(tx, &member_put, NULL, NULL, err,
                 V_STR(row_str(&rows, 0, INVITATION_FIND_ORGANIZATION_ID)), V_TEXT(user_id),
                 V_STR(row_str(&rows, 0, INVITATION_FIND_ROLE)), V_INT(now)) &&
           session_begin(call, &tx, user_id, token, err);
}

static bool no_reset(struct error *err)
{
    return error_set(err, ERR_GONE, "the link was used or has expired: ask for another");
}

static bool peek_reset(struct call *call, struct str hash, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &password_reset_find, call->arena, &rows, err, V_BYTES(hash),
               V_INT(time_now_ms())))
        return false;
    return rows.n_rows == 1 || no_reset(err);
}

bool account_reset(struct call *call, struct response *res, struct str reset, struct str password,
                   char token[TOKEN_TEXT], struct error *err)
{
    struct server *server = server_of(call);
    uint8_t reset_hash[BLAKE2B_LEN];
    char hash[PASSWORD_HASH_TEXT], user_id[ID_TEXT];
    struct rows rows;
    int64_t now = time_now_ms();
    keys_hash_token(&server->keys, reset, reset_hash);
    if (!rate_check(call, res, (struct str){0}, err) ||
        !password_check("/new_password", password, err) ||
        !peek_reset(call, bytes_of(reset_hash), err) ||
        !password_hash(&server->passwords, password, hash, err))
        return false;

    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &password_reset_take, call->arena, &rows, err, V_BYTES(bytes_of(reset_hash)),
               V_INT(now)))
        return false;
    if (rows.n_rows != 1)
        return no_reset(err);
    row_id(&rows, 0, PASSWORD_RESET_TAKE_USER_ID, user_id);
    return STORE(tx, &person_password_set, NULL, NULL, err, V_TEXT(user_id), V_TEXT(hash)) &&
           STORE(tx, &password_resets_drop, NULL, NULL, err, V_TEXT(user_id)) &&
           STORE(tx, &user_sessions_revoke, NULL, NULL, err, V_TEXT(user_id), V_TEXT(""),
                 V_INT(now)) &&
           session_begin(call, &tx, user_id, token, err);
}

static bool no_member(struct error *err)
{
    return error_set(err, ERR_NOT_A_MEMBER, "you are no member here: ask for an invitation");
}

/* Who was invited joins by coming. */
static bool join_invited(struct call *call, struct tx *tx, struct str email,
                         struct str display_name, char user_id[ID_TEXT], struct error *err)
{
    struct rows rows, settled;
    int64_t now = time_now_ms();
    if (!STORE(tx, &invitation_find_by_email, call->arena, &rows, err, V_STR(email), V_INT(now)))
        return false;
    if (rows.n_rows == 0)
        return no_member(err);
    if (!name_is_valid(NAME_TITLE, display_name))
        display_name = (struct str){0};
    if (!STORE(tx, &invitation_settle, call->arena, &settled, err,
               V_STR(row_str(&rows, 0, INVITATION_FIND_BY_EMAIL_ID)), V_TEXT("accepted"),
               V_INT(now)))
        return false;
    return settled.n_changed == 1
               ? put_person(call, tx, email, display_name, NULL, user_id, err) &&
                     STORE(tx, &member_put, NULL, NULL, err,
                           V_STR(row_str(&rows, 0, INVITATION_FIND_BY_EMAIL_ORGANIZATION_ID)),
                           V_TEXT(user_id), V_STR(row_str(&rows, 0, INVITATION_FIND_BY_EMAIL_ROLE)),
                           V_INT(now))
               : no_member(err);
}

bool account_enter(struct call *call, struct str email, struct str display_name,
                   char token[TOKEN_TEXT], struct error *err)
{
    struct rows rows;
    char user_id[ID_TEXT];
    AUTO_TX tx = NULL;
    /* The local owner is whoever sits at this machine, whatever a provider may say. */
    if (!account_email(call, email, &email, err) || str_equal(email, STR(LOCAL_OWNER)))
        return no_member(err);
    if (!store_begin(server_of(call)->store, &tx, err) ||
        !STORE(tx, &person_find, call->arena, &rows, err, V_STR(email)))
        return false;
    struct str status = rows.n_rows ? row_str(&rows, 0, PERSON_FIND_STATUS) : (struct str){0};
    if (status.ptr && !str_equal(status, STR("active")))
        return no_member(err);
    if (status.ptr)
        row_id(&rows, 0, PERSON_FIND_ID, user_id);
    else if (!join_invited(call, tx, email, display_name, user_id, err))
        return false;
    return session_begin(call, &tx, user_id, token, err);
}
