#include "base/encode.h"
#include "server/account.h"
#include "server/service_suite.h"
#include "server/session.h"

#define PASSWORD "correct horse battery"

static const char *token_of(struct service *service)
{
    const char *at = strchr(service->set_cookie, '=');
    return at ? arena_printf(&service->arena, "%.*s", (int)strcspn(at + 1, ";"), at + 1) : "";
}

static const char *body_of(struct service *service)
{
    return arena_text(&service->arena, buf_str(&service->answer.body));
}

static char location[512];

static void note_location(void *arg, struct str name, struct str value)
{
    struct service *service = arg;
    if (str_equal_nocase(name, STR("location")))
        snprintf(location, sizeof location, "%.*s", (int)value.len, value.ptr);
    if (str_equal_nocase(name, STR("set-cookie")))
        snprintf(service->set_cookie, sizeof service->set_cookie, "%.*s", (int)value.len,
                 value.ptr);
}

/* As a browser sends it; without a body it only looks. An origin of NULL is our own. */
static int visit(struct service *service, const char *path, const char *body, const char *session,
                 const char *origin)
{
    struct error err;
    const char *const headers[] = {
        arena_printf(&service->arena, "Origin: %s", origin ? origin : service->url),
        arena_printf(&service->arena, "Cookie: " SESSION_COOKIE "=%s", session),
        NULL,
    };
    const struct http_request request = {
        .method = body ? "POST" : "GET",
        .path = path,
        .body = body ? str_of(body) : (struct str){0},
        .content_type = body ? "application/x-www-form-urlencoded" : NULL,
        .headers = headers,
        .timeout_ms = 30000,
        .on_header = note_location,
        .on_header_arg = service,
    };
    buf_finish(&service->answer.body);
    service->answer = (struct http_answer){.body.max = 65536};
    service->set_cookie[0] = location[0] = '\0';
    return http_client_send(service->client, &request, &service->answer, &err)
               ? service->answer.status
               : -1;
}

static bool offer_setup(struct service *service)
{
    struct error err;
    service->config.setup_token = secret_create(STR("token+of/this=test"));
    return account_offer_setup(service->server, &err);
}

static const char setup_form[] = "token=token%2Bof%2Fthis%3Dtest&email=ada%40example.test&"
                                 "display_name=Ada+L&password=correct+horse+battery";

SERVICE_TEST(a_browser_sets_up_signs_in_and_is_told_what_is_wrong)
{
    CHECK(offer_setup(service));
    CHECK_STATUS(service, visit(service, "/setup?token=%22%3E%3Cb%3E", NULL, "", NULL), 200);
    CHECK(strstr(body_of(service), "value=\"&quot;&gt;&lt;b&gt;\""));
    CHECK_STATUS(service, visit(service, "/setup", "token=x&email=a%40b&password=short", "", NULL),
                 401);
    CHECK(strstr(body_of(service), "role=\"alert\""));
    CHECK_STATUS(service, visit(service, "/setup", setup_form, "", NULL), 303);
    CHECK_STR(location, "/");
    const char *session = token_of(service);
    CHECK_STATUS(service, visit(service, "/", NULL, session, NULL), 200);
    CHECK_STATUS(service, visit(service, "/setup", setup_form, "", NULL), 409);

    CHECK_STATUS(service, visit(service, "/login?next=%2Fruns%2F1", NULL, "", NULL), 200);
    CHECK(strstr(body_of(service), "name=\"next\" value=\"/runs/1\""));
    CHECK_STATUS(service,
                 visit(service, "/login", "email=ada%40example.test&password=not+this+one", "",
                       NULL),
                 401);
    CHECK(strstr(body_of(service), "value=\"ada@example.test\""));
    CHECK(!strstr(body_of(service), "not this one"));
    CHECK_STATUS(service,
                 visit(service, "/login",
                       "next=%2Fruns%2F1&email=ada%40example.test&password=correct+horse+battery",
                       "", NULL),
                 303);
    CHECK_STR(location, "/runs/1");
}

SERVICE_TEST(forms_of_other_sites_and_ways_out_are_refused)
{
    CHECK(offer_setup(service));
    CHECK_STATUS(service, visit(service, "/setup", setup_form, "", "https://evil.example"), 403);
    CHECK_STATUS(service, visit(service, "/setup", setup_form, "", "null"), 403);
    CHECK_STATUS(service, visit(service, "/setup", setup_form, "", NULL), 303);
    CHECK_STATUS(service,
                 visit(service, "/login", "email=ada%40example.test&password=correct+horse+battery",
                       "", "https://evil.example"),
                 403);
    CHECK_STR(token_of(service), "");
    CHECK_STATUS(service,
                 visit(service, "/login",
                       "next=%2F%2Fevil.example&email=ada%40example.test&"
                       "password=correct+horse+battery",
                       "", NULL),
                 303);
    CHECK_STR(location, "/");
    CHECK_STATUS(service, visit(service, "/dev/login", "next=https%3A%2F%2Fevil.example", "", NULL),
                 303);
    CHECK_STR(location, "/");
    CHECK_STATUS(service, visit(service, "/login", "email=%ZZ&password=x", "", NULL), 400);
}

SERVICE_TEST(an_invitation_and_a_reset_work_in_a_browser)
{
    CHECK(service_sign_in(service));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "POST", "/api/invitations",
                             "{\"email\":\"b@example.test\",\"role\":\"viewer\"}"),
                 201);
    const char *url = service_text(service, "invite_url");
    const char *token = strstr(url, "token=");
    CHECK(token && strncmp(url, service->url, strlen(service->url)) == 0);
    CHECK_STATUS(service, visit(service, url + strlen(service->url), NULL, "", NULL), 200);
    CHECK(strstr(body_of(service), token + 6));
    const char *form =
        arena_printf(&service->arena, "%s&display_name=B&password=correct+horse+battery", token);
    CHECK_STATUS(service, visit(service, "/invite", form, "", NULL), 303);
    const char *session = token_of(service);
    CHECK_STATUS(service, visit(service, "/invite", form, "", NULL), 409);
    CHECK_STATUS(service, service_ask(service, session, "GET", "/api/me", NULL), 200);
    const char *path = arena_printf(&service->arena, "/api/members/%s/password-reset",
                                    service_text(service, "user.id"));
    CHECK_STATUS(service, service_ask(service, service->session, "POST", path, "{}"), 201);
    token = strstr(service_text(service, "reset_url"), "token=");
    CHECK(token);
    form = arena_printf(&service->arena, "%s&password=another+long+one", token);
    CHECK_STATUS(service, visit(service, "/reset", form, "", NULL), 303);
    CHECK_STATUS(service, visit(service, "/reset", form, "", NULL), 410);
}

SERVICE_TEST(a_device_is_approved_on_a_page_by_who_is_signed_in)
{
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/device/start", NULL), 201);
    const char *code = service_text(service, "user_code");
    const char *device = arena_printf(&service->arena, "{\"device_code\":\"%s\"}",
                                      service_text(service, "device_code"));
    const char *page = arena_printf(&service->arena, "/auth/device?user_code=%s", code);
    CHECK_STATUS(service, visit(service, page, NULL, "", NULL), 303);
    CHECK(strncmp(location, "/dev/login?next=%2Fauth%2Fdevice%3Fuser_code%3D", 47) == 0);
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, visit(service, page, NULL, service->session, NULL), 200);
    CHECK(strstr(body_of(service), code) && strstr(body_of(service), "value=\"approved\""));
    const char *form = arena_printf(&service->arena, "user_code=%s&decision=approved", code);
    CHECK_STATUS(service, visit(service, "/auth/device", form, service->session, "null"), 403);
    CHECK_STATUS(service, visit(service, "/auth/device", form, "", NULL), 401);
    CHECK_STATUS(service, visit(service, "/auth/device", form, service->session, NULL), 200);
    CHECK_STATUS(service, visit(service, "/auth/device", form, service->session, NULL), 409);
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/device/token", device),
                 200);
    CHECK_STATUS(service,
                 visit(service, "/auth/device?user_code=BBBB-BBBB", NULL, service->session, NULL),
                 404);
}

TEST_MAIN()
