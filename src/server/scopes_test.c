/* Projects and environments: made, renamed, deleted; and nothing of one seen from another. */
#include "base/json.h"
#include "base/time.h"
#include "server/service_suite.h"
#include "store/queries.h"

#define IN_STAGING "/api/projects/main/environments/staging"

static int ask(struct service *service, const char *method, const char *path, const char *body)
{
    if (!service->session[0] && !service_sign_in(service))
        return -1;
    return service_ask(service, service->session, method, path, body);
}

SERVICE_TEST(a_project_begins_with_production_and_staging)
{
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Web Shop!\"}"), 201);
    CHECK_STR(service_text(service, "slug"), "web-shop");
    CHECK_STR(service_text(service, "name"), "Web Shop!");
    CHECK_STR(service_text(service, "environments.0.slug"), "production");
    CHECK_STR(service_text(service, "environments.1.slug"), "staging");
    const char *id = service_text(service, "id");
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/web-shop", NULL), 200);
    CHECK_STR(service_text(service, "id"), id);
    CHECK_STATUS(service,
                 ask(service, "GET",
                     arena_printf(&service->arena, "/api/projects/%s/environments/production", id),
                     NULL),
                 200);
    CHECK_STATUS(service,
                 ask(service, "GET", "/api/projects/web-shop/environments/staging/runs", NULL),
                 200);
}

SERVICE_TEST(bad_names_and_slugs_are_refused)
{
    static const struct {
        const char *body;
        int status;
        const char *code;
    } cases[] = {
        {"{}",                                                                 400, "invalid_request"},
        {"{\"name\":\"\"}",                                                    400, "invalid_request"},
        {"{\"name\":\"!!!\"}",                                                 400, "invalid_request"},
        {"{\"name\":\"x\",\"slug\":\"Upper\"}",                                400, "invalid_request"},
        {"{\"name\":\"x\",\"slug\":\"-x\"}",                                   400, "invalid_request"},
        {"{\"name\":\"x\",\"is_default\":true}",                               400, "unknown_field"  },
        {"{\"name\":\"x\",\"slug\":\"01981f4e-0000-7000-8000-000000000000\"}", 400,
         "invalid_request"                                                                           },
        {"{\"name\":\"Main\"}",                                                409, "slug_taken"     },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_STATUS(service, ask(service, "POST", "/api/projects", cases[i].body),
                     cases[i].status);
        CHECK_STR(service_text(service, "code"), cases[i].code);
    }
}

SERVICE_TEST(renaming_needs_a_free_slug_and_the_default_can_move)
{
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Other\"}"), 201);
    CHECK_STATUS(service, ask(service, "PATCH", "/api/projects/other", "{\"slug\":\"main\"}"), 409);
    CHECK_STR(service_text(service, "code"), "slug_taken");
    CHECK_STATUS(service,
                 ask(service, "PATCH", "/api/projects/other",
                     "{\"slug\":\"second\",\"name\":\"Second\"}"),
                 200);
    CHECK_STR(service_text(service, "slug"), "second");
    CHECK_STR(service_text(service, "name"), "Second");
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/other", NULL), 404);

    CHECK_STATUS(service, ask(service, "PATCH", "/api/projects/main", "{\"is_default\":false}"),
                 400);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/main", NULL), 409);
    CHECK_STR(service_text(service, "code"), "project_is_default");
    CHECK_STATUS(service, ask(service, "PATCH", "/api/projects/second", "{\"is_default\":true}"),
                 200);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/second", NULL), 409);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/main", NULL), 204);
    CHECK_STATUS(service, ask(service, "GET", "/api/projects", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "projects") == 1);
    CHECK_STR(service_text(service, "projects.0.slug"), "second");
}

SERVICE_TEST(an_environment_keeps_what_it_is_given)
{
    const char *path = "/api/projects/main/environments";
    CHECK_STATUS(service,
                 ask(service, "POST", path,
                     "{\"name\":\"Preview 7\",\"color_hex\":\"#1A2b3c\",\"min_grade\":\"microvm\","
                     "\"limits\":{\"workspaces\":3}}"),
                 201);
    CHECK_STR(service_text(service, "slug"), "preview-7");
    CHECK_STR(service_text(service, "color_hex"), "#1A2b3c");
    CHECK_STR(service_text(service, "min_grade"), "microvm");
    CHECK_STR(service_text(service, "worker_group"), "default");
    CHECK(service_int(service, "limits.workspaces") == 3);
    CHECK(service_int(service, "limits.storage_bytes") == -1);
    CHECK_STATUS(service, ask(service, "POST", path, "{\"name\":\"preview 7\"}"), 409);
    CHECK_STR(service_text(service, "code"), "slug_taken");

    path = "/api/projects/main/environments/preview-7";
    CHECK_STATUS(service, ask(service, "PATCH", path, "{\"min_grade\":\"best\"}"), 400);
    CHECK_STATUS(service, ask(service, "PATCH", path, "{\"color_hex\":\"red\"}"), 400);
    CHECK_STATUS(service, ask(service, "PATCH", path, "{\"worker_group\":\"none\"}"), 400);
    CHECK_STATUS(service, ask(service, "PATCH", path, "{\"slug\":\"staging\"}"), 409);
    CHECK_STATUS(service,
                 ask(service, "PATCH", path,
                     "{\"slug\":\"preview\",\"min_grade\":\"user-kernel\",\"limits\":{}}"),
                 200);
    CHECK_STR(service_text(service, "slug"), "preview");
    CHECK_STR(service_text(service, "name"), "Preview 7");
    CHECK_STR(service_text(service, "min_grade"), "user-kernel");
    CHECK_STR(service_text(service, "color_hex"), "#1A2b3c");
    CHECK(service_int(service, "limits.workspaces") == -1);
    path = "/api/projects/main/environments/preview";
    CHECK_STATUS(service, ask(service, "DELETE", path, NULL), 204);
    CHECK_STATUS(service, ask(service, "GET", path, NULL), 404);
}

SERVICE_TEST(production_and_staging_are_protected)
{
    static const char *const paths[] = {"/api/projects/main/environments/production", IN_STAGING};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        CHECK_STATUS(service, ask(service, "DELETE", paths[i], NULL), 409);
        CHECK_STR(service_text(service, "code"), "environment_protected");
        CHECK_STATUS(service, ask(service, "PATCH", paths[i], "{\"slug\":\"live\"}"), 409);
        CHECK_STR(service_text(service, "code"), "environment_protected");
        CHECK_STATUS(service, ask(service, "PATCH", paths[i], "{\"name\":\"Live\"}"), 409);
        CHECK_STATUS(service, ask(service, "PATCH", paths[i], "{\"color_hex\":\"#000000\"}"), 200);
    }
}

/* What waits is given to nobody weaker, also when it waited before. */
SERVICE_TEST(a_new_least_grade_counts_for_what_is_queued)
{
    static const char sql[] = "SELECT min_grade FROM ready";
    static const struct query least = {"test_ready", 0, 1, SAME_ON_BOTH(sql)};
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;
    CHECK(service_deploy(service, &err) && service_sign_in(service));
    CHECK(*service_create_run(service, service->session));
    CHECK_STATUS(service,
                 ask(service, "PATCH", "/api/projects/main/environments/production",
                     "{\"min_grade\":\"microvm\"}"),
                 200);
    CHECK(store_begin_read(service->server->store, &tx, &err));
    CHECK(store_run(tx, &least, NULL, 0, &service->arena, &rows, &err));
    CHECK(rows.n_rows == 1 && row_int(&rows, 0, 0) == 2);
}

static bool run_sql(struct service *service, const char *sql)
{
    const struct query query = {"test_sql", 0, 0, SAME_ON_BOTH(sql)};
    struct error err;
    AUTO_TX tx = NULL;
    return store_begin(service->server->store, &tx, &err) &&
           store_run(tx, &query, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err);
}

/* Whatever service_deploy and the API put into production is put into the other project. */
static bool move_to(struct service *service, const char *environment_id)
{
    snprintf(service->environment_id, ID_TEXT, "%s", environment_id);
    return *environment_id;
}

SERVICE_TEST(a_project_is_deleted_when_nothing_in_it_lives)
{
    struct error err;
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Shop\"}"), 201);
    CHECK(move_to(service, service_text(service, "environments.0.id")));
    CHECK(service_deploy(service, &err));
    const char *base = "/api/projects/shop/environments/production";
#define BELOW(rest) arena_printf(&service->arena, "%s" rest, base)
    CHECK_STATUS(service, ask(service, "PUT", BELOW("/secrets/TOKEN"), "{\"value\":\"v\"}"), 201);
    CHECK_STATUS(service,
                 ask(service, "POST", BELOW("/api-keys"),
                     "{\"name\":\"k\",\"expires_in_days\":null,"
                     "\"permissions\":[{\"scopes\":[\"runs:read\"]}]}"),
                 201);
    const char *key = service_text(service, "raw_key");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 200);
    CHECK_STATUS(service,
                 ask(service, "POST", BELOW("/runs"),
                     "{\"task_id\":\"hello\",\"options\":{\"idempotency_key\":\"one\"}}"),
                 201);
    const char *run = service_text(service, "id");
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/shop", NULL), 409);
    CHECK_STR(service_text(service, "code"), "project_not_empty");
    CHECK_STATUS(service,
                 ask(service, "POST", arena_printf(&service->arena, "%s/runs/%s/cancel", base, run),
                     "{}"),
                 200);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/shop", NULL), 409);
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/shop", NULL), 200);

    CHECK(run_sql(service, "UPDATE workspaces SET state = 'deleted'"));
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/shop", NULL), 204);
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/shop", NULL), 404);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 401);
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Shop\"}"), 201);
    CHECK_STATUS(service, ask(service, "GET", BELOW("/secrets"), NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "secrets") == 0);
}

TEST_MAIN()
