#include "server/preview.h"

#include <stdio.h>

#include "base/json.h"
#include "base/time.h"
#include "model/permission.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/preview_proxy.h"
#include "server/session.h"

#define TOKEN_PARAM "helmr_preview="
#define BODY_MAX    ((size_t)64 * 1024 * 1024)

enum { SMALL_BODY = 64 * 1024 };

static route_handler preview_any;

#define ROW(verb, most, is_spooled)                     \
    {verb,        "/w/:workspace/:port/*", PERM_PUBLIC, \
     preview_any, .body_max = most,        .upload = is_spooled}

const struct route preview_routes[] = {
    ROW(METHOD_GET, SMALL_BODY, false), ROW(METHOD_OPTIONS, SMALL_BODY, false),
    ROW(METHOD_POST, BODY_MAX, true),   ROW(METHOD_PUT, BODY_MAX, true),
    ROW(METHOD_PATCH, BODY_MAX, true),  ROW(METHOD_DELETE, BODY_MAX, true),
};
const size_t n_preview_routes = COUNT_OF(preview_routes);

const char preview_headers[] = "X-Content-Type-Options: nosniff\r\n"
                               "Referrer-Policy: no-referrer\r\n"
                               "Cross-Origin-Resource-Policy: same-origin\r\n";

static bool is_https(const struct call *call)
{
    return strncmp(server_of(call)->config->preview_url, "https://", 8) == 0;
}

/* POST …/ports/:port/preview */
bool workspace_port_preview_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct preview_grant grant = {.hold = caller_hold(call)};
    char token[TOKEN_TEXT];

    if (!server->config->preview_url)
        return error_set(err, ERR_NOT_FOUND,
                         "previews are off: the server needs HELMR_PREVIEW_URL and "
                         "HELMR_PREVIEW_ADDR");
    if (!port_of_call(call, &grant.place, err) ||
        !preview_link(server->previews, &grant, time_boot_ms(), token, err))
        return false;

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "url",
                arena_printf(call->arena, "%s/w/%s/%u/?" TOKEN_PARAM "%s",
                             server->config->preview_url, grant.place.workspace_id,
                             grant.place.port, token));
    json_time(&json, "expires_at", time_now_ms() + PREVIEW_LINK_MS);
    json_close(&json);
    response_json(res, 201);
    return json_end(&json, err);
}

static bool find_grant(const struct call *call, struct preview_grant *grant)
{
    struct str cookie;
    uint16_t port;
    struct error err;

    return port_parse(call_param(call, 1), &port, &err) &&
           session_find_cookie(call, PREVIEW_COOKIE, &cookie) &&
           preview_find(server_of(call)->previews, cookie, call_param(call, 0), port,
                        time_boot_ms(), grant) &&
           caller_still_may(&grant->hold);
}

bool preview_authorize(struct call *call, struct error *err)
{
    struct preview_grant *grant = arena_alloc(call->arena, sizeof *grant);

    if (find_grant(call, grant)) {
        call->caller = grant;
        return true;
    }
    return (call->request->content_length == 0 && !call->request->chunked) ||
           error_set(err, ERR_UNAUTHENTICATED, "a preview needs a link: helmr workspace preview");
}

static bool tell_how(struct response *res, struct error *err)
{
    if (!buf_append(response_body(res),
                    STR("This preview is not open in this browser, or no longer.\n"
                        "A link opens it once, within a minute: "
                        "helmr workspace preview WORKSPACE PORT\n"),
                    err))
        return false;
    response_bytes(res, 401, "text/plain; charset=utf-8");
    return true;
}

/* The token of the link, and the query without it. */
static bool cut_token(struct call *call, struct str *token, const char **rest)
{
    static const struct str name = STR(TOKEN_PARAM);
    char *kept = arena_alloc(call->arena, call->query.len + 2);
    struct str query = call->query, pair;
    size_t len = 0;
    bool found = false;

    while (str_split(&query, '&', &pair)) {
        if (pair.len >= name.len && memcmp(pair.ptr, name.ptr, name.len) == 0) {
            *token = (struct str){pair.ptr + name.len, pair.len - name.len};
            found = true;
        } else if (pair.len > 0) {
            kept[len] = len > 0 ? '&' : '?';
            memcpy(kept + len + 1, pair.ptr, pair.len);
            len += pair.len + 1;
        }
    }
    kept[len] = '\0';
    *rest = kept;
    return found;
}

/* Lax: a link that is followed from another site must find its cookie after the redirect. */
static bool open_link(struct call *call, struct response *res, struct str token, const char *rest,
                      struct error *err)
{
    struct str workspace = call_param(call, 0);
    char cookie[TOKEN_TEXT];
    uint16_t port;

    if (!port_parse(call_param(call, 1), &port, err))
        return false;
    if (!preview_open(server_of(call)->previews, token, workspace, port, time_boot_ms(), cookie))
        return tell_how(res, err);
    const char *set =
        arena_printf(call->arena,
                     PREVIEW_COOKIE "=%s; Path=/w/%.*s/%u/; HttpOnly; SameSite=Lax; Max-Age=%d%s",
                     cookie, (int)workspace.len, workspace.ptr, port, PREVIEW_COOKIE_MS / 1000,
                     is_https(call) ? "; Secure" : "");
    const char *to = arena_printf(call->arena, "%.*s%s", (int)call->path.len, call->path.ptr, rest);
    response_empty(res, 303);
    return response_header(res, "Set-Cookie", str_of(set), err) &&
           response_header(res, "Location", str_of(to), err);
}

/* Any page can begin a WebSocket to anywhere, and a browser adds the cookies of the place. */
static bool may_upgrade(const struct call *call, struct response *res, struct error *err)
{
    struct str origin = call_header(call, STR("origin"));

    return websocket_asked_any(call, res, err) &&
           (str_equal(origin, str_of(server_of(call)->config->preview_url)) ||
            error_set(err, ERR_ORIGIN, "the WebSocket does not come from a page of this preview"));
}

static bool preview_any(struct call *call, struct response *res, struct error *err)
{
    const struct preview_grant *grant = call->caller;
    struct str token;
    const char *rest;
    bool is_open = false;

    if (cut_token(call, &token, &rest))
        return open_link(call, res, token, rest, err);
    if (!grant)
        return tell_how(res, err);
    if (call->request->upgrade && !may_upgrade(call, res, err))
        return false;

    struct preview_side side = {.port = grant->place.port, .is_secure = is_https(call)};

    if (call->request->upgrade)
        websocket_accept_of(call_header(call, STR("sec-websocket-key")), side.accept);
    snprintf(side.prefix, sizeof side.prefix, "/w/%s/%u", grant->place.workspace_id,
             grant->place.port);
    return port_reach(call, &grant->place, res, &is_open, err) &&
           (!is_open || preview_pass(call, grant, &side, res, err));
}
