#include "server/caller.h"
#include "server/service_suite.h"
#include "server/session.h"
#include "store/queries.h"

static int ask_page(struct service *service, const char *path)
{
    char cookie[128];
    snprintf(cookie, sizeof cookie, "Cookie: " SESSION_COOKIE "=%s", service->session);
    const char *const headers[] = {cookie, NULL};
    const struct http_request request = {.method = "GET", .path = path, .headers = headers};
    return service_send(service, NULL, &request);
}

static const char *body_of(struct service *service)
{
    return arena_text(&service->arena, buf_str(&service->answer.body));
}

SERVICE_TEST(what_a_run_says_is_shown_and_never_run_by_the_browser)
{
    struct error err;
    CHECK(service_deploy(service, &err) && service_sign_in(service));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "POST", "/api/runs",
                             "{\"task_id\":\"hello\",\"payload\":\"<script>1</script>\"}"),
                 201);
    const char *id = service_text(service, "id");
    {
        struct rows rows;
        AUTO_TX tx = NULL;
        struct str bytes = STR("<img onerror=x>\x1b[2J\xff\n");
        CHECK(store_begin(service->server->store, &tx, &err));
        CHECK(STORE(tx, &log_number, &service->arena, &rows, &err, V_TEXT(id), V_INT(bytes.len),
                    V_INT(0)));
        CHECK(STORE(tx, &log_chunk_insert, NULL, NULL, &err, V_TEXT(id), V_INT(1), V_INT(1),
                    V_INT(1), V_TEXT("stdout"), V_INT(0), V_BYTES(bytes), V_INT(bytes.len),
                    V_INT(1)));
        CHECK(store_commit(&tx, &err));
    }
    CHECK_STATUS(service, ask_page(service, "/"), 200);
    CHECK(strstr(body_of(service), id));
    CHECK(strstr(body_of(service), "queued"));

    const char *path = arena_printf(&service->arena, "/runs/%s", id);
    CHECK_STATUS(service, ask_page(service, path), 200);
    CHECK(strstr(body_of(service), "&lt;script&gt;1&lt;/script&gt;"));
    CHECK(strstr(body_of(service), "&lt;img onerror=x&gt;"));
    CHECK(!strstr(body_of(service), "<script") && !strstr(body_of(service), "<img"));
    CHECK(!strchr(body_of(service), '\x1b'));
    CHECK(strstr(body_of(service), "http-equiv=\"refresh\""));
    CHECK_STATUS(service, ask_page(service, "/runs/0190a000-0000-7000-8000-000000000000"), 404);
    CHECK_STATUS(service, service_ask(service, NULL, "GET", path, NULL), 303);
}

TEST_MAIN()
