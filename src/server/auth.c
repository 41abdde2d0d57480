#include <stdio.h>

#include "base/json.h"
#include "base/time.h"
#include "server/auth.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "store/queries.h"

enum { SESSION_DAYS = 30, DAY_SECONDS = 24 * 60 * 60 };

bool auth_open_session(struct server *server, char token[TOKEN_TEXT], struct error *err)
{
    uint8_t hash[BLAKE2B_LEN];
    char id[ID_TEXT];
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;
    id_make(id);
    token_make("hlmr_us_", token);
    keys_hash_token(&server->keys, str_of(token), hash);
    return store_begin(server->store, &tx, err) &&
           STORE(tx, &user_session_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(server->owner_id),
                 V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                 V_TEXT(server->keys.ids[KEY_AUTH]), V_INT(now),
                 V_INT(now + (int64_t)SESSION_DAYS * DAY_SECONDS * 1000)) &&
           store_commit(&tx, err);
}

bool auth_set_cookie(struct call *call, struct response *res, const char *token, struct error *err)
{
    int seconds = *token ? SESSION_DAYS * DAY_SECONDS : 0;
    const char *cookie =
        arena_printf(call->arena, SESSION_COOKIE "=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%d",
                     token, seconds);
    return response_header(res, "Set-Cookie", str_of(cookie), err);
}

bool auth_dev_login(struct call *call, struct response *res, struct error *err)
{
    char token[TOKEN_TEXT];
    if (!caller_is_local(call))
        return error_set(err, ERR_NOT_FOUND, "there is no such route");

    /* A browser names the page it is on; another site's page may not sign anyone in. */
    struct str origin = call_header(call, STR("origin"));
    if (origin.len && !str_equal(origin, str_of(server_of(call)->public_url)))
        return error_set(err, ERR_ORIGIN, "the request does not come from this server's own pages");
    if (!auth_open_session(server_of(call), token, err) || !auth_set_cookie(call, res, token, err))
        return false;
    bytes_wipe(token, sizeof token);

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "redirect_after", "/");
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool auth_logout(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &user_session_revoke, NULL, NULL, err, V_TEXT(caller_of(call)->id),
               V_INT(time_now_ms())))
        return false;
    wakes_add(&wakes, TOPIC_AUTH, "");
    if (!hub_commit(&server->hub, &tx, &wakes, err) || !auth_set_cookie(call, res, "", err))
        return false;
    response_empty(res, 204);
    return true;
}

static void write_person(struct json_writer *json, const struct caller *caller)
{
    json_open(json, "user");
    json_string(json, "id", caller->user_id);
    json_string(json, "email", caller->email);
    json_string(json, "display_name", caller->name);
    json_close(json);
}

static void write_key(struct json_writer *json, const struct caller *caller)
{
    json_open(json, "api_key");
    json_string(json, "id", caller->id);
    json_string(json, "name", caller->name);
    json_close(json);
    json_open(json, "project");
    json_string(json, "id", caller->scope.project_id);
    json_string(json, "slug", caller->scope.project_slug);
    json_close(json);
    json_open(json, "environment");
    json_string(json, "id", caller->scope.environment_id);
    json_string(json, "slug", caller->scope.environment_slug);
    json_close(json);
}

bool me_get(struct call *call, struct response *res, struct error *err)
{
    const struct server *server = server_of(call);
    const struct caller *caller = caller_of(call);
    bool is_key = caller->kind == CALLER_KEY;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server->store, &tx, err) ||
        !store_run(tx, &organization_find, NULL, 0, call->arena, &rows, err))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_INTERNAL, "there is no organization");

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "auth", is_key ? "api_key" : "session");
    json_string(&json, "public_url", server->public_url);
    json_string(&json, "api_version", API_VERSION);
    json_string(&json, "server_version", HELMR_VERSION);
    if (!is_key)
        write_person(&json, caller);
    json_open(&json, "organization");
    json_text(&json, "id", row_str(&rows, 0, ORGANIZATION_FIND_ID));
    json_text(&json, "slug", row_str(&rows, 0, ORGANIZATION_FIND_SLUG));
    json_text(&json, "name", row_str(&rows, 0, ORGANIZATION_FIND_NAME));
    json_close(&json);
    if (!is_key)
        json_string(&json, "role", caller->role);
    json_open_list(&json, "permissions");
    for (enum permission p = PERM_SESSION + 1; p < PERM_COUNT; p++)
        if (caller_may(caller, p))
            json_string(&json, NULL, permission_name(p));
    json_close_list(&json);
    if (is_key)
        write_key(&json, caller);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}
