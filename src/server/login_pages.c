/* The pages where people come in. Each form does what its route of the API does, and says on the
 * same page what was wrong. */
#include <stdio.h>

#include "base/encode.h"
#include "server/account.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/device.h"
#include "server/handlers.h"
#include "server/html_page.h"
#include "server/session.h"

enum { LINK_MAX = 16 * 1024 };

/* Fields are checked by the rules of the API, whose messages begin with the field's path. */
static const char *message_of(const struct error *err)
{
    return err->text[0] == '/' ? err->text + 1 : err->text;
}

static bool tell(const struct form *form, struct response *res, const struct error *failed,
                 struct error *err)
{
    if (!form_can_tell(failed)) {
        *err = *failed;
        return false;
    }
    return form_show(form, res, error_http_status(failed->code), message_of(failed), err);
}

static bool go_in(struct call *call, struct response *res, char token[TOKEN_TEXT], struct str next,
                  struct error *err)
{
    bool ok = session_set_cookie(call, res, token, err) &&
              page_redirect(res, session_next(call, next), err);
    bytes_wipe(token, TOKEN_TEXT);
    return ok;
}

static bool query_text(struct call *call, const char *name, struct str *value, struct error *err)
{
    bool found = false;
    *value = (struct str){0};
    return call_query(call, name, value, &found, err);
}

static const char *oidc_link(struct call *call, struct str next)
{
    AUTO(buf_finish) struct buf link = {.max = LINK_MAX};
    struct error err;
    bool ok = buf_append(&link, STR("/api/auth/oidc/start?next="), &err) &&
              percent_append(&link, str_of(session_next(call, next)), &err);
    return ok ? arena_text(call->arena, buf_str(&link)) : "/api/auth/oidc/start";
}

static struct form login_form(struct call *call, struct str next, struct str email)
{
    struct form form = {
        .title = "Sign in",
        .text = "With the account you were invited to or set up.",
        .action = "/login",
        .inputs = {{"next", NULL, NULL, NULL, next},
                   {"email", "E-mail", "email", "username", email},
                   {"password", "Password", "password", "current-password", {0}}},
        .buttons = {{"Sign in", NULL}},
    };
    if (server_of(call)->config->oidc_issuer) {
        form.other_link = oidc_link(call, next);
        form.other_label = "Sign in with single sign-on";
    } else if (caller_is_local(call)) {
        form.other_link = "/dev/login";
        form.other_label = "Sign in as the local owner";
    }
    return form;
}

bool page_login(struct call *call, struct response *res, struct error *err)
{
    struct str next;
    if (!query_text(call, "next", &next, err))
        return false;
    struct form form = login_form(call, next, (struct str){0});
    return form_show(&form, res, 200, NULL, err);
}

static bool login_inside(struct call *call, struct response *res, struct error *err)
{
    struct str next, email, password;
    struct error failed;
    char token[TOKEN_TEXT];
    if (!session_check_origin(call, true, err) || !form_field(call, "next", &next, err) ||
        !form_field(call, "email", &email, err) || !form_field(call, "password", &password, err))
        return false;
    if (account_login(call, res, email, password, token, &failed))
        return go_in(call, res, token, next, err);
    struct form form = login_form(call, next, email);
    return tell(&form, res, &failed, err);
}

bool page_login_post(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, login_inside, err);
}

static struct form setup_form(struct str setup_token, struct str email)
{
    return (struct form){
        .title = "Set up",
        .text = "Make the first owner of this server. A password has at least 12 characters.",
        .action = "/setup",
        .inputs = {{"token", setup_token.len ? NULL : "Setup token", "text", "off", setup_token},
                   {"email", "E-mail", "email", "username", email},
                   {"display_name", "Name", "text", "name", {0}},
                   {"password", "Password", "password", "new-password", {0}}},
        .buttons = {{"Make the owner", NULL}},
    };
}

bool page_setup(struct call *call, struct response *res, struct error *err)
{
    struct str token;
    if (!query_text(call, "token", &token, err))
        return false;
    struct form form = setup_form(token, (struct str){0});
    return form_show(&form, res, 200, NULL, err);
}

static bool setup_inside(struct call *call, struct response *res, struct error *err)
{
    struct setup_input input = {0};
    struct error failed;
    char token[TOKEN_TEXT];
    if (!session_check_origin(call, true, err) ||
        !form_field(call, "token", &input.setup_token, err) ||
        !form_field(call, "email", &input.email, err) ||
        !form_field(call, "display_name", &input.display_name, err) ||
        !form_field(call, "password", &input.password, err))
        return false;
    if (account_setup(call, res, &input, token, &failed))
        return go_in(call, res, token, (struct str){0}, err);
    struct form form = setup_form(input.setup_token, input.email);
    return tell(&form, res, &failed, err);
}

bool page_setup_post(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, setup_inside, err);
}

static struct form invite_form(struct str invitation, struct str name)
{
    return (struct form){
        .title = "Join",
        .text = "You were invited. A password has at least 12 characters.",
        .action = "/invite",
        .inputs = {{"token", invitation.len ? NULL : "Invitation", "text", "off", invitation},
                   {"display_name", "Name", "text", "name", name},
                   {"password", "Password", "password", "new-password", {0}}},
        .buttons = {{"Join", NULL}},
    };
}

bool page_invite(struct call *call, struct response *res, struct error *err)
{
    struct str token;
    if (!query_text(call, "token", &token, err))
        return false;
    struct form form = invite_form(token, (struct str){0});
    return form_show(&form, res, 200, NULL, err);
}

static bool invite_inside(struct call *call, struct response *res, struct error *err)
{
    struct str invitation, name, password;
    struct error failed;
    char token[TOKEN_TEXT];
    if (!session_check_origin(call, true, err) || !form_field(call, "token", &invitation, err) ||
        !form_field(call, "display_name", &name, err) ||
        !form_field(call, "password", &password, err))
        return false;
    if (account_accept(call, res, invitation, name, password, token, &failed))
        return go_in(call, res, token, (struct str){0}, err);
    struct form form = invite_form(invitation, name);
    return tell(&form, res, &failed, err);
}

bool page_invite_post(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, invite_inside, err);
}

static struct form reset_form(struct str reset)
{
    return (struct form){
        .title = "New password",
        .text = "It has at least 12 characters. Everybody who is signed in as you is signed out.",
        .action = "/reset",
        .inputs = {{"token", reset.len ? NULL : "Token of the link", "text", "off", reset},
                   {"password", "New password", "password", "new-password", {0}}},
        .buttons = {{"Set it", NULL}},
    };
}

bool page_reset(struct call *call, struct response *res, struct error *err)
{
    struct str token;
    if (!query_text(call, "token", &token, err))
        return false;
    struct form form = reset_form(token);
    return form_show(&form, res, 200, NULL, err);
}

static bool reset_inside(struct call *call, struct response *res, struct error *err)
{
    struct str reset, password;
    struct error failed;
    char token[TOKEN_TEXT];
    if (!session_check_origin(call, true, err) || !form_field(call, "token", &reset, err) ||
        !form_field(call, "password", &password, err))
        return false;
    if (account_reset(call, res, reset, password, token, &failed))
        return go_in(call, res, token, (struct str){0}, err);
    struct form form = reset_form(reset);
    return tell(&form, res, &failed, err);
}

bool page_reset_post(struct call *call, struct response *res, struct error *err)
{
    return password_guarded(call, res, reset_inside, err);
}

bool page_sign_in_first(struct call *call, struct response *res, struct error *err)
{
    AUTO(buf_finish) struct buf to = {.max = LINK_MAX};
    struct str here = call->request->target;
    return buf_append(&to, caller_is_local(call) ? STR("/dev/login") : STR("/login"), err) &&
           (str_equal(here, STR("/")) ||
            (buf_append(&to, STR("?next="), err) && percent_append(&to, here, err))) &&
           page_redirect(res, arena_text(call->arena, buf_str(&to)), err);
}

static struct form code_form(struct str code)
{
    return (struct form){
        .title = "Sign a device in",
        .text = "Type the code that the terminal shows.",
        .action = "/auth/device",
        .is_get = true,
        .inputs = {{"user_code", "Code", "text", "off", code}},
        .buttons = {{"Go on", NULL}},
    };
}

static struct form decision_form(struct call *call, const struct caller *caller, struct str code)
{
    return (struct form){
        .title = "Sign a device in",
        .text = arena_printf(call->arena,
                             "A terminal with the code %s wants to act as %s. Approve it only if "
                             "you have just started this yourself and see the same code there.",
                             arena_text(call->arena, code), caller->email),
        .action = "/auth/device",
        .inputs = {{"user_code", NULL, NULL, NULL, code}},
        .buttons = {{"Approve", "approved"}, {"Deny", "denied"}},
    };
}

static bool find_code(struct call *call, struct response *res, const struct caller *caller,
                      struct str code, struct error *failed)
{
    const char *status = NULL;
    int64_t expires;
    if (!rate_check(call, res, str_of(caller->user_id), failed) ||
        !device_code_status(call, code, &status, &expires, failed))
        return false;
    return strcmp(status, "pending") == 0 ||
           error_set(failed, ERR_CONFLICT, "the code is %s: start again in the terminal", status);
}

bool page_device(struct call *call, struct response *res, struct error *err)
{
    struct caller caller;
    struct error failed;
    struct str code;
    if (!caller_find(call, &caller))
        return page_sign_in_first(call, res, err);
    if (!query_text(call, "user_code", &code, err))
        return false;
    struct form form = code_form(code);
    if (code.len == 0)
        return form_show(&form, res, 200, NULL, err);
    if (!find_code(call, res, &caller, code, &failed))
        return tell(&form, res, &failed, err);
    form = decision_form(call, &caller, code);
    return form_show(&form, res, 200, NULL, err);
}

bool page_device_post(struct call *call, struct response *res, struct error *err)
{
    struct caller caller;
    struct error failed;
    struct str code, decision;
    const char *status = NULL;
    if (!session_check_origin(call, true, err) || !form_field(call, "user_code", &code, err) ||
        !form_field(call, "decision", &decision, err))
        return false;
    if (!caller_find(call, &caller))
        return error_set(err, ERR_UNAUTHENTICATED, "sign in first");
    bool is_approved = str_equal(decision, STR("approved"));
    if (!is_approved && !str_equal(decision, STR("denied")))
        return error_set(err, ERR_INVALID, "decision must be approved or denied");
    if (!rate_check(call, res, str_of(caller.user_id), &failed) ||
        !device_code_settle(call, code, is_approved ? "approved" : "denied", caller.user_id,
                            &status, &failed)) {
        struct form form = code_form(code);
        return tell(&form, res, &failed, err);
    }
    const struct form done = {
        .title = is_approved ? "Approved" : "Denied",
        .text = is_approved ? "The terminal is signed in within seconds. You may close this page."
                            : "The terminal was turned away. You may close this page.",
    };
    return form_show(&done, res, 200, NULL, err);
}
