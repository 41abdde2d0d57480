#include <stdio.h>

#include "base/json.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/session.h"
#include "store/queries.h"

bool auth_dev_login(struct call *call, struct response *res, struct error *err)
{
    char token[TOKEN_TEXT];
    if (!caller_is_local(call))
        return error_set(err, ERR_NOT_FOUND, "there is no such route");

    struct server *server = server_of(call);
    AUTO_TX tx = NULL;
    return session_check_origin(call, false, err) && store_begin(server->store, &tx, err) &&
           session_begin(call, &tx, server->owner_id, token, err) &&
           session_answer(call, res, 200, token, (struct str){0}, err);
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
    if (!audit_call(tx, call, "logout", (struct str){0}, err) ||
        !hub_commit(&server->hub, &tx, &wakes, err) || !session_set_cookie(call, res, "", err))
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
