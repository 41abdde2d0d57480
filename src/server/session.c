#include "server/session.h"

#include "base/json.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "store/queries.h"

enum { NEXT_MAX = 2048 };

static bool is_https(const struct server *server)
{
    return strncmp(server->public_url, "https://", 8) == 0;
}

const char *session_cookie_name(const struct server *server)
{
    return is_https(server) ? SESSION_COOKIE_SECURE : SESSION_COOKIE;
}

static void make_token(const struct server *server, char token[TOKEN_TEXT],
                       uint8_t hash[BLAKE2B_LEN])
{
    token_make("hlmr_us_", token);
    keys_hash_token(&server->keys, str_of(token), hash);
}

bool session_open(struct tx *tx, const struct server *server, const char *user_id,
                  char token[TOKEN_TEXT], struct error *err)
{
    uint8_t hash[BLAKE2B_LEN];
    char id[ID_TEXT];
    int64_t now = time_now_ms();
    id_make(id);
    make_token(server, token, hash);
    return STORE(tx, &user_session_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(user_id),
                 V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                 V_TEXT(server->keys.ids[KEY_AUTH]), V_INT(now), V_INT(now + SESSION_TOTAL_MS));
}

/* The way in is told by the route. */
bool session_audit(const struct call *call, struct tx *tx, const char *user_id, struct error *err)
{
    struct audit_entry entry = audit_entry_of(call, "login");
    entry.actor_type = "user";
    entry.actor_id = user_id;
    entry.subject = str_of(call->match.route->pattern);
    return audit_write(tx, server_of(call), &entry, err);
}

bool session_begin(struct call *call, struct tx **tx, const char *user_id, char token[TOKEN_TEXT],
                   struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    struct str old;
    if (session_find_cookie(call, session_cookie_name(server), &old)) {
        uint8_t hash[BLAKE2B_LEN];
        keys_hash_token(&server->keys, old, hash);
        if (!STORE(*tx, &user_session_revoke_by_hash, NULL, NULL, err,
                   V_BYTES(((struct str){(const char *)hash, sizeof hash})), V_INT(time_now_ms())))
            return false;
    }
    wakes_add(&wakes, TOPIC_AUTH, "");
    return session_open(*tx, server, user_id, token, err) &&
           session_audit(call, *tx, user_id, err) && hub_commit(&server->hub, tx, &wakes, err);
}

bool session_rotate(struct call *call, struct response *res, struct tx *tx, struct error *err)
{
    const struct server *server = server_of(call);
    uint8_t hash[BLAKE2B_LEN];
    char token[TOKEN_TEXT];
    if (call_header(call, STR("authorization")).ptr)
        return true;
    make_token(server, token, hash);
    bool ok = STORE(tx, &user_session_rotate, NULL, NULL, err, V_TEXT(caller_of(call)->id),
                    V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                    V_TEXT(server->keys.ids[KEY_AUTH])) &&
              session_set_cookie(call, res, token, err);
    bytes_wipe(token, sizeof token);
    return ok;
}

bool session_set_cookie(struct call *call, struct response *res, const char *token,
                        struct error *err)
{
    const struct server *server = server_of(call);
    int64_t seconds = *token ? SESSION_TOTAL_MS / 1000 : 0;
    const char *cookie =
        arena_printf(call->arena, "%s=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%d%s",
                     session_cookie_name(server), token, (int)seconds,
                     is_https(server) ? "; Secure" : "");
    return response_header(res, "Set-Cookie", str_of(cookie), err);
}

bool session_find_cookie(const struct call *call, const char *name, struct str *value)
{
    struct str rest = call_header(call, STR("cookie")), piece, key;
    while (str_split(&rest, ';', &piece)) {
        piece = str_trim(piece, STR(" "));
        if (str_split(&piece, '=', &key) && str_equal(key, str_of(name)) && piece.len > 0) {
            *value = piece;
            return true;
        }
    }
    return false;
}

bool session_check_origin(const struct call *call, bool is_required, struct error *err)
{
    struct str origin = call_header(call, STR("origin"));
    return (!is_required && origin.len == 0) ||
           str_equal(origin, str_of(server_of(call)->public_url)) ||
           error_set(err, ERR_ORIGIN, "the request does not come from this server's own pages");
}

/* Browsers read a backslash as a slash and skip control characters, so that "/\host" would lead
 * away as "//host" does. */
static bool is_local_path(struct str next)
{
    if (next.len == 0 || next.len > NEXT_MAX || next.ptr[0] != '/' ||
        (next.len > 1 && next.ptr[1] == '/'))
        return false;
    for (size_t i = 0; i < next.len; i++)
        if (next.ptr[i] <= ' ' || next.ptr[i] > '~' || next.ptr[i] == '\\')
            return false;
    return true;
}

const char *session_next(struct call *call, struct str next)
{
    return is_local_path(next) ? arena_text(call->arena, next) : "/";
}

bool session_answer(struct call *call, struct response *res, int status, char token[TOKEN_TEXT],
                    struct str next, struct error *err)
{
    bool ok = session_set_cookie(call, res, token, err);
    bytes_wipe(token, TOKEN_TEXT);
    if (!ok)
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "redirect_after", session_next(call, next));
    json_close(&json);
    response_json(res, status);
    return json_end(&json, err);
}
