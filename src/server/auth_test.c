#include "base/json.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/service_suite.h"
#include "server/session.h"

SERVICE_TEST(without_a_credential_only_public_routes_answer)
{
    static const struct {
        const char *method, *path;
        int status;
    } cases[] = {
        {"GET",    "/healthz",          200},
        {"GET",    "/readyz",           200},
        {"GET",    "/api/openapi.json", 200},
        {"GET",    "/api/me",           401},
        {"GET",    "/api/runs",         401},
        {"POST",   "/api/runs",         401},
        {"GET",    "/api/deployments",  401},
        {"POST",   "/api/deployments",  401},
        {"GET",    "/api/api-keys",     401},
        {"GET",    "/api/projects",     401},
        {"GET",    "/api/nothing",      404},
        {"DELETE", "/api/runs",         405},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK_STATUS(service, service_ask(service, NULL, cases[i].method, cases[i].path, NULL),
                     cases[i].status);
    CHECK_STATUS(service, service_ask(service, "hlmr_sk_nonsense", "GET", "/api/runs", NULL), 401);
    CHECK_STR(service_text(service, "code"), "authentication_required");
    CHECK_STATUS(service, service_ask(service, "hlmr_wb_nonsense", "GET", "/api/runs", NULL), 401);
}

SERVICE_TEST(the_local_owner_signs_in_and_sees_who_they_are)
{
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/me", NULL), 200);
    CHECK_STR(service_text(service, "auth"), "session");
    CHECK_STR(service_text(service, "user.email"), "owner@localhost");
    CHECK_STR(service_text(service, "role"), "owner");
    CHECK_STR(service_text(service, "public_url"), service->url);
    CHECK_STR(service_text(service, "organization.slug"), "default");

    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/projects", NULL),
                 200);
    CHECK_STR(service_text(service, "projects.0.slug"), "main");
    CHECK_STR(service_text(service, "projects.0.environments.0.slug"), "production");
    CHECK_STR(service_text(service, "projects.0.environments.1.slug"), "staging");
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET",
                             "/api/projects/main/environments/staging", NULL),
                 200);
    CHECK_STR(service_text(service, "worker_group"), "default");
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET",
                             "/api/projects/main/environments/none", NULL),
                 404);

    CHECK_STATUS(service, service_ask(service, service->session, "POST", "/api/auth/logout", ""),
                 204);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/me", NULL), 401);
}

SERVICE_TEST(a_key_may_do_what_it_was_granted_and_no_more)
{
    struct error err;
    CHECK(service_deploy(service, &err));
    const char *reader = service_make_key(service, "\"runs:read\"");
    const char *starter = service_make_key(service, "\"runs:create\"");
    CHECK(*reader && *starter);

    CHECK_STATUS(service, service_ask(service, reader, "GET", "/api/runs", NULL), 200);
    CHECK_STATUS(service,
                 service_ask(service, reader, "POST", "/api/runs", "{\"task_id\":\"hello\"}"), 403);
    CHECK_STR(service_text(service, "code"), "permission_required");
    CHECK_STATUS(service,
                 service_ask(service, starter, "POST", "/api/runs", "{\"task_id\":\"hello\"}"),
                 201);
    CHECK_STATUS(service, service_ask(service, starter, "GET", "/api/runs", NULL), 403);
    CHECK_STATUS(service, service_ask(service, starter, "GET", "/api/api-keys", NULL), 403);
    CHECK_STATUS(service, service_ask(service, starter, "GET", "/api/projects", NULL), 403);
    CHECK_STATUS(service, service_ask(service, reader, "GET", "/api/tasks", NULL), 200);
    CHECK_STATUS(service, service_ask(service, starter, "GET", "/api/tasks", NULL), 403);
    CHECK_STATUS(service, service_ask(service, reader, "GET", "/api/me", NULL), 200);
    CHECK_STR(service_text(service, "auth"), "api_key");
    CHECK_STR(service_text(service, "environment.slug"), "production");
}

SERVICE_TEST(a_key_is_shown_once_and_ends_at_once_when_revoked)
{
    const char *key = service_make_key(service, "\"runs:read\"");
    CHECK(strncmp(key, "hlmr_sk_", 8) == 0 && strlen(key) == 51);
    const char *id = service_text(service, "id");
    CHECK(strncmp(key, service_text(service, "key_prefix"), 16) == 0);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 200);

    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/api-keys", NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "api_keys") == 1);
    CHECK_STR(service_text(service, "api_keys.0.raw_key"), "");
    CHECK_STR(service_text(service, "api_keys.0.status"), "active");
    CHECK_STR(service_text(service, "api_keys.0.permissions.0.scopes.0"), "runs:read");

    char path[128];
    snprintf(path, sizeof path, "/api/api-keys/%s", id);
    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", path, NULL), 204);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 401);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET", "/api/api-keys?filter=revoked",
                             NULL),
                 200);
    CHECK_STR(service_text(service, "api_keys.0.status"), "revoked");
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/api-keys", NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "api_keys") == 0);
}

SERVICE_TEST(keys_are_refused_with_unknown_permissions_or_odd_expiry)
{
    static const struct {
        const char *body, *code;
    } cases[] = {
        {"{\"name\":\"k\",\"permissions\":[{\"scopes\":[\"runs:fly\"]}]}",                         "unknown_permission"},
        {"{\"name\":\"k\",\"permissions\":[{\"scopes\":[\"api-keys:manage\"]}]}",
         "unknown_permission"                                                                                          },
        {"{\"name\":\"k\",\"permissions\":[]}",                                                    "invalid_request"   },
        {"{\"name\":\"\",\"permissions\":[{\"scopes\":[\"runs:read\"]}]}",                         "invalid_request"   },
        {"{\"name\":\"k\",\"expires_in_days\":31,\"permissions\":[{\"scopes\":[\"runs:read\"]}]}",
         "invalid_request"                                                                                             },
        {"{\"name\":\"k\",\"colour\":1,\"permissions\":[{\"scopes\":[\"runs:read\"]}]}",
         "unknown_field"                                                                                               },
    };
    CHECK(service_sign_in(service));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_STATUS(service,
                     service_ask(service, service->session, "POST", "/api/api-keys", cases[i].body),
                     400);
        CHECK_STR(service_text(service, "code"), cases[i].code);
    }
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/api-keys", NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "api_keys") == 0);
}

SERVICE_TEST(another_environment_is_not_found_for_a_key)
{
    struct error err;
    CHECK(service_deploy(service, &err));
    const char *key = service_make_key(service, "\"runs:create\",\"runs:read\"");
    const char *run = service_create_run(service, key);
    char path[256];
    snprintf(path, sizeof path, "/api/projects/main/environments/production/runs/%s", run);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    snprintf(path, sizeof path, "/api/projects/main/environments/%s/runs/%s",
             service->environment_id, run);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    snprintf(path, sizeof path, "/api/projects/main/environments/staging/runs/%s", run);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 404);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", path, NULL), 404);
    CHECK_STATUS(service,
                 service_ask(service, key, "GET",
                             "/api/projects/other/environments/production/runs", NULL),
                 404);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET",
                             "/api/projects/main/environments/staging/runs", NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 0);
}

SERVICE_TEST(a_cookie_changes_things_only_from_our_own_pages)
{
    CHECK(service_sign_in(service));
    char cookie[128], origin[96];
    snprintf(cookie, sizeof cookie, "Cookie: " SESSION_COOKIE "=%s", service->session);
    snprintf(origin, sizeof origin, "Origin: %s", service->url);
    const char *const bare[] = {cookie, NULL}, *const ours[] = {cookie, origin, NULL},
                      *const theirs[] = {cookie, "Origin: http://evil.example", NULL};
    struct http_request request = {.method = "GET", .path = "/api/me", .headers = bare};
    CHECK_STATUS(service, service_send(service, NULL, &request), 200);

    request = (struct http_request){.method = "POST",
                                    .path = "/api/api-keys",
                                    .body = STR("{}"),
                                    .headers = bare};
    CHECK_STATUS(service, service_send(service, NULL, &request), 403);
    CHECK_STR(service_text(service, "code"), "origin_refused");
    request.headers = theirs;
    CHECK_STATUS(service, service_send(service, NULL, &request), 403);
    request.headers = ours;
    CHECK_STATUS(service, service_send(service, NULL, &request), 400);
}

SERVICE_TEST(another_site_cannot_sign_the_owner_in)
{
    const char *const evil[] = {"Origin: http://evil.example", NULL};
    const char *const rebound[] = {"Host: evil.example", NULL};
    const char *const proxied[] = {"X-Forwarded-For: 198.51.100.7", NULL};
    struct http_request request = {.method = "POST",
                                   .path = "/api/auth/dev/login",
                                   .headers = evil};
    CHECK_STATUS(service, service_send(service, NULL, &request), 403);
    request.headers = rebound;
    CHECK_STATUS(service, service_send(service, NULL, &request), 404);
    request.headers = proxied;
    CHECK_STATUS(service, service_send(service, NULL, &request), 404);
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/dev/login", ""), 403);
}

SERVICE_TEST(the_api_version_is_checked_and_the_pages_need_a_session)
{
    const char *const other[] = {"Helmr-API-Version: 2020-01-01", NULL},
                      *const same[] = {"Helmr-API-Version: " API_VERSION, NULL};
    struct http_request request = {.method = "GET", .path = "/readyz", .headers = other};
    CHECK_STATUS(service, service_send(service, NULL, &request), 400);
    CHECK_STR(service_text(service, "code"), "unsupported_api_version");
    request.headers = same;
    CHECK_STATUS(service, service_send(service, NULL, &request), 200);

    CHECK_STATUS(service, service_ask(service, NULL, "GET", "/", NULL), 303);
    CHECK_STATUS(service, service_ask(service, NULL, "GET", "/dev/login", NULL), 200);
    CHECK_STATUS(service, service_ask(service, NULL, "GET", "/style.css", NULL), 200);
}

TEST(a_revocation_on_one_server_reaches_the_other_within_a_second)
{
    const char *skip = NULL;
    struct service *first = service_start(ON_POSTGRES, &skip);
    if (!first)
        SKIP(skip);
    struct service *second = service_start_beside(first);
    const char *key = service_make_key(first, "\"runs:read\"");
    const char *path = arena_printf(&first->arena, "/api/api-keys/%s", service_text(first, "id"));
    int before = service_ask(second, key, "GET", "/api/runs", NULL);
    int revoked = service_ask(first, first->session, "DELETE", path, NULL);

    /* Asking all the time keeps it in memory there, which must not keep it alive. */
    int64_t end = time_boot_ms() + 1000;
    int after = 200;
    while (after == 200 && time_boot_ms() <= end)
        after = service_ask(second, key, "GET", "/api/runs", NULL);
    service_stop(second);
    service_stop(first);
    CHECK(before == 200 && revoked == 204);
    CHECK(after == 401);
}

TEST_MAIN()
