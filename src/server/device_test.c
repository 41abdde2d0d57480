#include "server/device.h"

#include "base/time.h"
#include "server/service_suite.h"
#include "server/session.h"
#include "store/queries.h"

static const char *device_body(struct service *service, const char *code)
{
    return arena_printf(&service->arena, "{\"device_code\":\"%s\"}", code);
}

static int decide(struct service *service, const char *token, const char *verb, const char *code)
{
    const char *path = arena_printf(&service->arena, "/api/auth/device/%s", verb);
    const char *body = arena_printf(&service->arena, "{\"user_code\":\"%s\"}", code);
    return service_ask(service, token, "POST", path, body);
}

/* As if it had been asked for, and polled, so much earlier. */
static bool set_back(struct service *service, int64_t ms)
{
    static const struct query change = {
        .name = "test_set_back",
        .n_params = 1,
        .sqlite = "UPDATE device_codes SET expires_ms = expires_ms - $1, polled_ms = 0",
        .postgres = "UPDATE device_codes SET expires_ms = expires_ms - $1, polled_ms = 0",
    };
    struct error err;
    AUTO_TX tx = NULL;
    return store_begin(service->server->store, &tx, &err) &&
           STORE(tx, &change, NULL, NULL, &err, V_INT(ms)) && store_commit(&tx, &err);
}

#define POLL(body) service_ask(service, NULL, "POST", "/api/auth/device/token", body)

SERVICE_TEST(an_approved_code_gives_one_session)
{
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/device/start", NULL), 201);
    const char *device = device_body(service, service_text(service, "device_code"));
    const char *user = service_text(service, "user_code");
    CHECK(strlen(user) == 9 && user[4] == '-');
    CHECK(service_int(service, "expires_in_seconds") == 600);
    CHECK(service_int(service, "interval_seconds") == 5);
    CHECK(strstr(service_text(service, "verification_uri_complete"), user));

    CHECK_STATUS(service, POLL(device), 202);
    CHECK_STR(service_text(service, "code"), "authorization_pending");
    CHECK_STR(service_text(service, "error"), "authorization_pending");
    CHECK_STATUS(service, POLL(device), 400);
    CHECK_STR(service_text(service, "code"), "slow_down");

    const char *status =
        arena_printf(&service->arena, "/api/auth/device/status?user_code=%s", user);
    CHECK_STATUS(service, service_ask(service, NULL, "GET", status, NULL), 401);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", status, NULL), 200);
    CHECK_STR(service_text(service, "status"), "pending");
    CHECK_STATUS(service, decide(service, NULL, "approve", user), 401);

    /* People type as they like. */
    const char *typed = arena_printf(&service->arena, "%.4s %c%s", user, user[5] | 0x20, user + 6);
    CHECK_STATUS(service, decide(service, service->session, "approve", typed), 200);
    CHECK_STR(service_text(service, "status"), "approved");
    CHECK_STATUS(service, decide(service, service->session, "deny", user), 409);
    CHECK(set_back(service, 0));
    CHECK_STATUS(service, POLL(device), 200);
    CHECK_STR(service_text(service, "token_type"), "bearer");
    const char *token = service_text(service, "access_token");
    CHECK(strcmp(token, service->session) != 0);
    CHECK_STATUS(service, POLL(device), 400);
    CHECK_STR(service_text(service, "code"), "expired_token");
    CHECK_STATUS(service, service_ask(service, token, "GET", "/api/me", NULL), 200);
    CHECK_STR(service_text(service, "user.email"), "owner@localhost");
}

SERVICE_TEST(a_denied_or_expired_code_gives_nothing)
{
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/device/start", "{}"), 201);
    const char *device = device_body(service, service_text(service, "device_code"));
    const char *user = service_text(service, "user_code");
    CHECK_STATUS(service, decide(service, service->session, "deny", user), 200);
    CHECK_STR(service_text(service, "status"), "denied");
    CHECK_STATUS(service, POLL(device), 400);
    CHECK_STR(service_text(service, "code"), "access_denied");

    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/device/start", "{}"), 201);
    device = device_body(service, service_text(service, "device_code"));
    user = service_text(service, "user_code");
    CHECK_STATUS(service, decide(service, service->session, "approve", user), 200);
    CHECK(set_back(service, INT64_C(600001)));
    CHECK_STATUS(service, POLL(device), 400);
    CHECK_STR(service_text(service, "code"), "expired_token");
    const char *status =
        arena_printf(&service->arena, "/api/auth/device/status?user_code=%s", user);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", status, NULL), 200);
    CHECK_STR(service_text(service, "status"), "expired");
    CHECK_STATUS(service, POLL(device_body(service, "hlmr_dc_unknown")), 400);
    CHECK_STR(service_text(service, "code"), "invalid_request");
    CHECK_STATUS(service, decide(service, service->session, "approve", "BBBB-BBBB"), 404);
}

SERVICE_TEST(the_two_codes_cannot_stand_for_each_other)
{
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/device/start", "{}"), 201);
    const char *user = service_text(service, "user_code");
    CHECK_STATUS(service, decide(service, service->session, "approve", user), 200);
    CHECK_STATUS(service, POLL(device_body(service, user)), 400);
    CHECK_STR(service_text(service, "code"), "invalid_request");
}

TEST(only_whole_codes_are_read)
{
    static const struct {
        const char *text, *code;
    } cases[] = {
        {"BCDF-GHJK",    "BCDF-GHJK"},
        {"bcdf ghjk",    "BCDF-GHJK"},
        {"BCDFGHJK",     "BCDF-GHJK"},
        {" b-c-dfghjk ", "BCDF-GHJK"},
        {"BCDF-GHJ",     NULL       },
        {"BCDF-GHJKL",   NULL       },
        {"ABCD-EFGH",    NULL       },
        {"",             NULL       },
        {"BCDF-GHJ1",    NULL       },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct error err;
        char code[USER_CODE_TEXT];
        bool is_read = device_code_read(str_of(cases[i].text), code, &err);
        CHECK(is_read == (cases[i].code != NULL));
        if (is_read)
            CHECK_STR(code, cases[i].code);
    }
}

TEST_MAIN()
