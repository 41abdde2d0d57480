/* Stored secrets: kept sealed, told to nobody but a build that is under way. */
#include <stdlib.h>

#include "server/service_suite.h"
#include "server/worker_testing.h"

#define VALUE "correct-horse-battery-staple"

static const char everything[] = "\"secrets:write\",\"tasks:deploy\",\"runs:create\",\"runs:read\"";

static int put(struct service *service, const char *key, const char *name, const char *value)
{
    return service_ask(service, key, "PUT", arena_printf(&service->arena, "/api/secrets/%s", name),
                       arena_printf(&service->arena, "{\"value\":\"%s\"}", value));
}

SERVICE_TEST(a_secret_is_stored_changed_listed_and_forgotten_but_never_shown)
{
    const char *key = service_make_key(service, everything);
    CHECK_STATUS(service, put(service, key, "TOKEN", VALUE), 201);
    CHECK_STR(service_text(service, "name"), "TOKEN");
    CHECK_STR(service_text(service, "environment_id"), service->environment_id);
    CHECK(!service_says(service, VALUE));
    CHECK_STATUS(service, put(service, key, "TOKEN", VALUE "2"), 200);
    CHECK(!service_says(service, VALUE));
    CHECK_STATUS(service, put(service, key, "OTHER", VALUE), 201);

    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/secrets?limit=1", NULL), 200);
    CHECK_STR(service_text(service, "secrets.0.name"), "OTHER");
    const char *next = arena_printf(&service->arena, "/api/secrets?limit=1&cursor=%s",
                                    service_text(service, "next_cursor"));
    CHECK_STATUS(service, service_ask(service, key, "GET", next, NULL), 200);
    CHECK_STR(service_text(service, "secrets.0.name"), "TOKEN");
    CHECK(!service_says(service, VALUE) && !service_says(service, "next_cursor"));
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/secrets/TOKEN", NULL), 200);
    CHECK(!service_says(service, VALUE));

    CHECK_STATUS(service, service_ask(service, key, "DELETE", "/api/secrets/TOKEN", NULL), 204);
    CHECK_STATUS(service, service_ask(service, key, "DELETE", "/api/secrets/TOKEN", NULL), 404);
    CHECK_STR(service_text(service, "code"), "secret_not_found");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/secrets/TOKEN", NULL), 404);
    CHECK_STR(service_text(service, "code"), "secret_not_found");
}

SERVICE_TEST(names_and_values_have_limits)
{
    const char *key = service_make_key(service, everything);
    char *large = arena_alloc(&service->arena, 65538);
    CHECK_STATUS(service, put(service, key, ".env", VALUE), 400);
    CHECK_STATUS(service, put(service, key, "nul", VALUE), 400);
    CHECK_STATUS(service, put(service, key, "TOKEN", ""), 400);
    CHECK_STATUS(service, put(service, key, "TOKEN", "a\\u0000b"), 400);
    CHECK_STATUS(service, service_ask(service, key, "PUT", "/api/secrets/TOKEN", "{}"), 400);
    memset(large, 'x', 65537);
    large[65537] = '\0';
    CHECK_STATUS(service, put(service, key, "TOKEN", large), 400);
    large[65536] = '\0';
    CHECK_STATUS(service, put(service, key, "TOKEN", large), 201);
}

SERVICE_TEST(secrets_need_their_permission_and_stay_in_their_environment)
{
    const char *key = service_make_key(service, everything);
    const char *reader = service_make_key(service, "\"runs:read\",\"tasks:deploy\"");
    CHECK_STATUS(service, put(service, key, "TOKEN", VALUE), 201);
    CHECK_STATUS(service, put(service, reader, "TOKEN", VALUE), 403);
    CHECK_STATUS(service, service_ask(service, reader, "GET", "/api/secrets", NULL), 403);
    CHECK_STATUS(service, service_ask(service, NULL, "GET", "/api/secrets/TOKEN", NULL), 401);

    CHECK(service_sign_in(service));
    static const char path[] = "/api/projects/main/environments/staging/secrets/TOKEN";
    CHECK_STATUS(service, service_ask(service, service->session, "GET", path, NULL), 404);
    CHECK_STR(service_text(service, "code"), "secret_not_found");
    CHECK_STATUS(service, service_ask(service, service->session, "PUT", path, "{\"value\":\"x\"}"),
                 201);
    CHECK_STR(service_text(service, "environment_id"), service->staging_id);
}

struct stage {
    struct test_worker worker;
    const char *key;
};

static bool set_building(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, everything)};
    return worker_join(&stage->worker, service, "one") && *service_upload(service, stage->key) &&
           worker_take(&stage->worker, "build") && lease_begin(&stage->worker) == 200 &&
           lease_start(&stage->worker) == 200;
}

SERVICE_TEST(a_build_under_way_gets_the_secrets_it_names)
{
    struct stage stage;
    CHECK(set_building(service, &stage));
    CHECK_STATUS(service, put(service, stage.key, "TOKEN", VALUE), 201);
    CHECK_STATUS(service, put(service, stage.key, "OTHER", "two"), 201);
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ",\"names\":[\"TOKEN\"]"), 200);
    CHECK_STR(service_text(service, "secrets.0.value"), VALUE);
    CHECK(!service_says(service, "OTHER"));
    CHECK_STATUS(service,
                 lease_post(&stage.worker, "secrets", ",\"names\":[\"TOKEN\",\"A\",\"B\"]"), 422);
    CHECK_STR(service_text(service, "code"), "secret_missing");
    CHECK(service_says(service, "A, B") && !service_says(service, VALUE));

    CHECK_STATUS(service, build_end(&stage.worker, test_manifest), 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ",\"names\":[\"TOKEN\"]"), 409);
    CHECK_STR(service_text(service, "code"), "lease_stale");
}

SERVICE_TEST(a_run_gets_no_secret)
{
    struct stage stage;
    CHECK(set_building(service, &stage) && build_end(&stage.worker, test_manifest) == 200);
    CHECK_STATUS(service, put(service, stage.key, "TOKEN", VALUE), 201);
    const char *promote =
        arena_printf(&service->arena, "/api/deployments/%s/promote", stage.worker.subject);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", promote, ""), 200);
    CHECK(*service_start_run(service, stage.key, "hello", NULL) &&
          worker_take(&stage.worker, "run"));
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ",\"names\":[\"TOKEN\"]"), 400);
    CHECK(!service_says(service, VALUE));
}

SERVICE_TEST(a_task_that_declares_a_secret_is_refused_as_before)
{
    struct error err;
    const char *key = service_make_key(service, everything);
    CHECK(service_deploy(service, &err));
    CHECK_STATUS(service, put(service, key, "TOKEN", VALUE), 201);
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", "/api/runs",
                             "{\"task_id\":\"secretive\",\"payload\":{}}"),
                 422);
    CHECK_STR(service_text(service, "code"), "secret_missing");
}

static const struct query swap = {
    "test_swap", 0, 0,
    SAME_ON_BOTH("UPDATE secrets SET sealed = (SELECT o.sealed FROM secrets o WHERE o.name = "
                 "'OTHER') WHERE name = 'TOKEN'")};

SERVICE_TEST(a_sealed_value_opens_only_under_its_own_name)
{
    struct stage stage;
    CHECK(set_building(service, &stage));
    CHECK_STATUS(service, put(service, stage.key, "TOKEN", VALUE), 201);
    CHECK_STATUS(service, put(service, stage.key, "OTHER", "two"), 201);
    CHECK(service_change(service, &swap, NULL, 0, 1));
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ",\"names\":[\"TOKEN\"]"), 500);
    CHECK(!service_says(service, "two"));
}

TEST(a_value_is_in_no_file_of_the_server)
{
    const char *skip = NULL;
    struct service *service = service_start(ON_SQLITE, &skip);
    struct stage stage;
    CHECK(set_building(service, &stage));
    CHECK_STATUS(service, put(service, stage.key, "TOKEN", VALUE), 201);
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ",\"names\":[\"TOKEN\"]"), 200);
    /* The database with its log lies beside the data directory. */
    const char *database = strchr(service->fixture.url, ':') + 1;
    const char *files = arena_printf(&service->arena, "%s* %s", database, service->data_dir);
    const char *find = arena_printf(&service->arena, "grep -rqF %s %s", VALUE, files);
    const char *control = arena_printf(&service->arena, "grep -rqF TOKEN %s", files);
    CHECK(system(control) == 0);
    CHECK(system(find) != 0);
    service_stop(service);
}

TEST_MAIN()
