#include <string.h>

#include "base/own.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/html_page.h"
#include "server/listen.h"
#include "server/page_style.h"
#include "server/session.h"

bool page_style(struct call *call UNUSED, struct response *res, struct error *err)
{
    if (!buf_append(response_body(res), STR(PAGE_STYLE), err) ||
        !response_header(res, "Cache-Control", STR("max-age=300"), err))
        return false;
    response_bytes(res, 200, "text/css; charset=utf-8");
    return true;
}

/* Cookies belong to one name, so a person is sent to the one this server goes by. */
static bool host_is_public(const struct call *call)
{
    const char *url = server_of(call)->public_url;
    const char *at = strstr(url, "://");
    return str_equal_nocase(call->host, str_of(at ? at + 3 : url));
}

bool page_dev_login(struct call *call, struct response *res, struct error *err)
{
    struct str next = {0};
    bool found = false;
    if (!caller_is_local(call))
        return error_set(err, ERR_NOT_FOUND, "there is no such page");
    if (!host_is_public(call))
        return page_redirect(res,
                             arena_printf(call->arena, "%s/dev/login", server_of(call)->public_url),
                             err);
    if (!call_query(call, "next", &next, &found, err))
        return false;
    const struct form form = {
        .title = "Sign in",
        .text = "This server listens on this machine only, so whoever can open this page may be "
                "its owner.",
        .action = "/dev/login",
        .inputs = {{"next", NULL, NULL, NULL, next}},
        .buttons = {{"Sign in as the local owner", NULL}},
        .other_link = "/login",
        .other_label = "Sign in with a password",
    };
    return form_show(&form, res, 200, NULL, err);
}

bool page_dev_login_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct str next;
    char token[TOKEN_TEXT];
    if (!caller_is_local(call))
        return error_set(err, ERR_NOT_FOUND, "there is no such page");
    AUTO_TX tx = NULL;
    bool ok = session_check_origin(call, true, err) && form_field(call, "next", &next, err) &&
              store_begin(server->store, &tx, err) &&
              session_begin(call, &tx, server->owner_id, token, err) &&
              page_redirect(res, session_next(call, next), err) &&
              session_set_cookie(call, res, token, err);
    bytes_wipe(token, sizeof token);
    return ok;
}
