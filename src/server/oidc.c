/* Sign-in at an OpenID provider: authorization code with PKCE, state and nonce.
 *
 * What must be the same at the start and at the return is sealed into a cookie of ten minutes, so
 * that a return belongs to the browser that started it and the server keeps nothing.
 */
#include <stdio.h>

#include "base/encode.h"
#include "base/id.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/time.h"
#include "server/account.h"
#include "server/audit.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/html_page.h"
#include "server/oidc_provider.h"
#include "server/oidc_token.h"
#include "server/session.h"

enum {
    WAY_MS = 10 * 60 * 1000,
    RANDOM_TEXT = 44, /* base64url of 32 bytes */
    WAY_MAX = 4096,
    COOKIE_MAX = 8192,
    CODE_MAX = 4096,
    LOCATION_MAX = 8192,
};

#define ABOUT         STR("oidc sign-in")
#define CALLBACK_PATH "/api/auth/oidc/callback"

struct way {
    struct str state, nonce, verifier, next;
    int64_t expires_ms;
};

static const struct json_field way_fields[] = {
    {"state", JSON_TEXT, offsetof(struct way, state), REQUIRED, .max = RANDOM_TEXT},
    {"nonce", JSON_TEXT, offsetof(struct way, nonce), REQUIRED, .max = RANDOM_TEXT},
    {"verifier", JSON_TEXT, offsetof(struct way, verifier), REQUIRED, .max = RANDOM_TEXT},
    {"next", JSON_TEXT, offsetof(struct way, next), REQUIRED, .max = WAY_MAX},
    {"expires", JSON_INTEGER, offsetof(struct way, expires_ms), REQUIRED},
    {0},
};

static bool is_offered(const struct call *call, struct error *err)
{
    return server_of(call)->config->oidc_issuer ||
           error_set(err, ERR_NOT_FOUND, "there is no such route");
}

static struct str random_text(struct arena *arena)
{
    uint8_t bytes[32];
    char *text = arena_alloc(arena, RANDOM_TEXT);
    random_bytes(bytes, sizeof bytes);
    base64url_encode((struct str){(const char *)bytes, sizeof bytes}, text);
    return str_of(text);
}

static const char *cookie_name(const struct call *call)
{
    bool is_https = strncmp(server_of(call)->public_url, "https://", 8) == 0;
    return is_https ? "__Host-helmr_oidc" : "helmr_oidc_dev";
}

static bool set_cookie(struct call *call, struct response *res, const char *value, int seconds,
                       struct error *err)
{
    bool is_https = strncmp(server_of(call)->public_url, "https://", 8) == 0;
    const char *cookie =
        arena_printf(call->arena, "%s=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%d%s",
                     cookie_name(call), value, seconds, is_https ? "; Secure" : "");
    return response_header(res, "Set-Cookie", str_of(cookie), err);
}

static bool seal_way(struct call *call, struct response *res, const struct way *way,
                     struct error *err)
{
    AUTO(buf_finish) struct buf plain = {.max = WAY_MAX};
    AUTO(buf_finish) struct buf sealed = {.max = WAY_MAX};
    struct json_writer json = json_begin(&plain);
    json_open(&json, NULL);
    json_text(&json, "state", way->state);
    json_text(&json, "nonce", way->nonce);
    json_text(&json, "verifier", way->verifier);
    json_text(&json, "next", way->next);
    json_int(&json, "expires", way->expires_ms);
    json_close(&json);
    if (!json_end(&json, err) ||
        !keys_seal(&server_of(call)->keys, KEY_AUTH, ABOUT, buf_str(&plain), &sealed, err))
        return false;
    char *text = arena_alloc(call->arena, (4 * sealed.len + 2) / 3 + 1);
    base64url_encode(buf_str(&sealed), text);
    return set_cookie(call, res, text, WAY_MS / 1000, err);
}

static bool lost_way(struct error *err)
{
    return error_set(err, ERR_INVALID,
                     "this sign-in was not started here, or too long ago: start again at /login");
}

static bool open_way(struct call *call, struct way *way, struct error *err)
{
    AUTO(buf_finish) struct buf plain = {.max = WAY_MAX};
    struct str cookie;
    char bytes[COOKIE_MAX];
    size_t len = sizeof bytes;
    if (!session_find_cookie(call, cookie_name(call), &cookie) ||
        !base64url_decode(cookie, bytes, &len) ||
        !keys_open(&server_of(call)->keys, KEY_AUTH, ABOUT, (struct str){bytes, len}, &plain,
                   err) ||
        !json_read(buf_str(&plain), way_fields, way, sizeof *way, call->arena, err) ||
        way->expires_ms <= time_now_ms())
        return lost_way(err);
    return true;
}

/* The challenge that the verifier answers: base64url of its SHA-256. */
static struct str challenge_of(struct str verifier, struct arena *arena)
{
    char hex[SHA256_HEX];
    uint8_t bytes[SHA256_HEX_LEN / 2];
    char *text = arena_alloc(arena, RANDOM_TEXT);
    sha256_of(verifier, hex);
    (void)hex_decode(str_of(hex), bytes, sizeof bytes);
    base64url_encode((struct str){(const char *)bytes, sizeof bytes}, text);
    return str_of(text);
}

static const char *redirect_uri(const struct call *call)
{
    return arena_printf(call->arena, "%s" CALLBACK_PATH, server_of(call)->public_url);
}

static bool write_location(struct call *call, struct str endpoint, const struct way *way,
                           struct buf *to, struct error *err)
{
    const struct {
        const char *name;
        struct str value;
    } pairs[] = {
        {"response_type", STR("code")},
        {"client_id", str_of(server_of(call)->config->oidc_client_id)},
        {"redirect_uri", str_of(redirect_uri(call))},
        {"scope", STR("openid email profile")},
        {"state", way->state},
        {"nonce", way->nonce},
        {"code_challenge", challenge_of(way->verifier, call->arena)},
        {"code_challenge_method", STR("S256")},
    };
    bool has_query = memchr(endpoint.ptr, '?', endpoint.len) != NULL;
    bool ok = buf_append(to, endpoint, err);
    for (size_t i = 0; ok && i < COUNT_OF(pairs); i++)
        ok = buf_append(to, i > 0 || has_query ? STR("&") : STR("?"), err) &&
             buf_append(to, str_of(pairs[i].name), err) && buf_append(to, STR("="), err) &&
             percent_append(to, pairs[i].value, err);
    return ok;
}

bool auth_oidc_start(struct call *call, struct response *res, struct error *err)
{
    AUTO(buf_finish) struct buf to = {.max = LOCATION_MAX};
    struct oidc_endpoints endpoints;
    struct str next = {0};
    bool found = false;
    if (!is_offered(call, err) || !rate_check(call, res, (struct str){0}, err) ||
        !call_query(call, "next", &next, &found, err) ||
        !oidc_find_endpoints(server_of(call), call->arena, &endpoints, err))
        return false;
    const struct way way = {
        .state = random_text(call->arena),
        .nonce = random_text(call->arena),
        .verifier = random_text(call->arena),
        .next = str_of(session_next(call, next)),
        .expires_ms = time_now_ms() + WAY_MS,
    };
    return write_location(call, endpoints.authorization, &way, &to, err) &&
           seal_way(call, res, &way, err) &&
           page_redirect(res, arena_text(call->arena, buf_str(&to)), err);
}

/* The code of the return, once its state is that of this browser's start. */
static bool read_return(struct call *call, const struct way *way, struct str *code,
                        struct error *err)
{
    struct str state = {0}, failure = {0};
    bool has_state = false, has_code = false, has_failed = false;
    if (!call_query(call, "state", &state, &has_state, err) ||
        !call_query(call, "code", code, &has_code, err) ||
        !call_query(call, "error", &failure, &has_failed, err))
        return false;
    if (!has_state || !bytes_equal_constant_time(state, way->state))
        return lost_way(err);
    if (has_failed)
        return error_set(err, ERR_ACCESS_DENIED, "the provider said no");
    return (has_code && code->len > 0 && code->len <= CODE_MAX) || lost_way(err);
}

struct user_info {
    struct str sub, email, email_verified, name;
};

static const struct json_field user_info_fields[] = {
    {"sub", JSON_TEXT, offsetof(struct user_info, sub), REQUIRED, .max = 1024},
    {"email", JSON_TEXT, offsetof(struct user_info, email), OPTIONAL, .max = 1024},
    {"email_verified", JSON_RAW, offsetof(struct user_info, email_verified), OPTIONAL, .max = 16},
    {"name", JSON_TEXT, offsetof(struct user_info, name), OPTIONAL, .max = 1024},
    {0},
};

/* Some providers tell the e-mail only here. */
static bool ask_user_info(struct call *call, const struct oidc_endpoints *endpoints,
                          const struct oidc_tokens *tokens, struct id_claims *claims,
                          struct error *err)
{
    struct user_info info;
    struct str answer;
    if (claims->email.ptr || !endpoints->user_info.ptr || !tokens->access_token.ptr)
        return true;
    if (!oidc_fetch(endpoints->user_info, tokens->access_token, ID_TOKEN_MAX, call->arena, &answer,
                    err) ||
        !json_read_loose(answer, user_info_fields, &info, sizeof info, call->arena, err))
        return error_wrap(err, "asking who this is");
    if (!str_equal(info.sub, claims->sub))
        return error_set(err, ERR_UNAUTHENTICATED, "the provider speaks of somebody else");
    claims->email = info.email;
    claims->email_verified = info.email_verified;
    claims->name = claims->name.ptr ? claims->name : info.name;
    return true;
}

static bool identify(struct call *call, const struct way *way, struct str code,
                     struct id_claims *claims, struct error *err)
{
    struct server *server = server_of(call);
    struct oidc_endpoints endpoints;
    struct oidc_tokens tokens;
    struct str key_set;
    if (!oidc_find_endpoints(server, call->arena, &endpoints, err) ||
        !oidc_redeem(server, &endpoints, code, way->verifier, redirect_uri(call), call->arena,
                     &tokens, err) ||
        !oidc_fetch(endpoints.key_set, (struct str){0}, KEY_SET_MAX, call->arena, &key_set, err) ||
        !id_token_read(tokens.id_token, key_set, call->arena, claims, err) ||
        !id_claims_check(claims, endpoints.issuer, str_of(server->config->oidc_client_id),
                         way->nonce, time_now_ms(), call->arena, err) ||
        !ask_user_info(call, &endpoints, &tokens, claims, err))
        return false;
    return (claims->email.ptr && (str_equal(claims->email_verified, STR("true")) ||
                                  str_equal(claims->email_verified, STR("\"true\"")))) ||
           error_set(err, ERR_NOT_A_MEMBER, "the provider has not verified your e-mail");
}

static bool enter(struct call *call, const struct way *way, struct id_claims *claims,
                  char token[TOKEN_TEXT], struct error *err)
{
    struct str code = {0};
    return read_return(call, way, &code, err) && identify(call, way, code, claims, err) &&
           account_enter(call, claims->email, claims->name, token, err);
}

/* What the provider said of who it is, when it said it and could prove it. */
static void audit_no_entry(struct call *call, const struct id_claims *claims,
                           const struct error *err)
{
    bool is_known = err->code == ERR_NOT_A_MEMBER;
    struct audit_entry entry = audit_entry_of(call, "login");
    if (!is_known && err->code != ERR_UNAUTHENTICATED && err->code != ERR_ACCESS_DENIED)
        return;
    entry.subject = is_known && claims->email.ptr ? claims->email : STR("oidc");
    entry.outcome = "denied";
    audit_refusal(server_of(call), &entry);
}

bool auth_oidc_callback(struct call *call, struct response *res, struct error *err)
{
    struct id_claims claims = {0};
    struct way way;
    char token[TOKEN_TEXT];
    if (!is_offered(call, err) || !rate_check(call, res, (struct str){0}, err) ||
        !open_way(call, &way, err))
        return false;
    if (!enter(call, &way, &claims, token, err)) {
        audit_no_entry(call, &claims, err);
        return false;
    }
    bool ok = set_cookie(call, res, "", 0, err) && session_set_cookie(call, res, token, err) &&
              page_redirect(res, session_next(call, way.next), err);
    bytes_wipe(token, sizeof token);
    return ok;
}
