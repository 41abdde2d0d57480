#include "server/caller.h"
#include "server/console_archive.h"
#include "server/service_suite.h"
#include "server/session.h"

static int ask_page(struct service *service, const char *path, const char *header)
{
    char cookie[128];
    snprintf(cookie, sizeof cookie, "Cookie: " SESSION_COOKIE "=%s", service->session);
    const char *const headers[] = {cookie, header, NULL};
    const struct http_request request = {.method = "GET", .path = path, .headers = headers};
    return service_send(service, NULL, &request);
}

static const char *body_of(struct service *service)
{
    return arena_text(&service->arena, buf_str(&service->answer.body));
}

/* The name of a script that the console's document asks for. */
static const char *script_of(struct service *service)
{
    const char *body = body_of(service), *at = strstr(body, "/assets/");
    return at ? arena_printf(&service->arena, "%.*s", (int)strcspn(at, "\""), at) : NULL;
}

SERVICE_TEST(pages_of_the_console_are_for_people_who_have_signed_in)
{
    static const char *const pages[] = {"/", "/runs", "/approvals", "/settings/members",
                                        "/runs/0190a000-0000-7000-8000-000000000000"};
    for (size_t i = 0; i < COUNT_OF(pages); i++)
        CHECK_STATUS(service, service_ask(service, NULL, "GET", pages[i], NULL), 303);
    CHECK(service_sign_in(service));
    for (size_t i = 0; i < COUNT_OF(pages); i++)
        CHECK_STATUS(service, ask_page(service, pages[i], NULL), console_archive_len ? 200 : 404);
    CHECK_STATUS(service, ask_page(service, "/nowhere", NULL), 404);
}

SERVICE_TEST(the_console_is_files_that_never_change_and_a_document_that_names_them)
{
    if (!console_archive_len)
        SKIP("this build has no console in it");
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, ask_page(service, "/", NULL), 200);
    CHECK(!strstr(body_of(service), "<script>"));
    const char *script = script_of(service);
    CHECK(script);
    CHECK_STATUS(service, ask_page(service, script, NULL), 200);
    size_t whole = service->answer.body.len;
    CHECK_STATUS(service, ask_page(service, script, "Accept-Encoding: gzip"), 200);
    CHECK(service->answer.body.len < whole);
    CHECK_STATUS(service, ask_page(service, "/assets/none.js", NULL), 404);
    CHECK_STATUS(service, ask_page(service, "/favicon.svg", NULL), 200);
}

TEST_MAIN()
