/* Stored secrets: kept sealed, told to nobody but a build that is under way. */
#include <stdlib.h>

#include "server/service_suite.h"
#include "server/task_secrets.h"
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

/* A deployment whose task "secretive" declares TOKEN, and a worker that has taken a run of it. */
static bool set_running(struct service *service, struct stage *stage, const char *body)
{
    struct error err;

    *stage = (struct stage){.key = service_make_key(service, everything)};
    return worker_join(&stage->worker, service, "one") && service_deploy(service, &err) &&
           put(service, stage->key, "TOKEN", VALUE) == 201 &&
           put(service, stage->key, "OTHER", "two") == 201 &&
           service_ask(service, stage->key, "POST", "/api/runs", body) == 201 &&
           worker_take(&stage->worker, "run");
}

SERVICE_TEST(a_run_that_starts_gets_what_its_task_declares)
{
    struct stage stage;
    CHECK(set_running(service, &stage, "{\"task_id\":\"secretive\"}"));
    CHECK(!service_says(service, VALUE));
    CHECK(service_says(service, "\"secret_names\":[\"TOKEN\"]"));
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ""), 409);
    CHECK(lease_begin(&stage.worker) == 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ",\"names\":[\"OTHER\"]"), 200);
    CHECK_STR(service_text(service, "secrets.0.name"), "TOKEN");
    CHECK_STR(service_text(service, "secrets.0.value"), VALUE);
    CHECK_STR(service_text(service, "secrets.0.placement"), "env");
    CHECK_STR(service_text(service, "secrets.0.target"), "TOKEN");
    CHECK(!service_says(service, "two"));
    CHECK(lease_start(&stage.worker) == 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ""), 409);
}

SERVICE_TEST(a_binding_leads_to_another_stored_secret)
{
    struct stage stage;
    CHECK(set_running(service, &stage,
                      "{\"task_id\":\"secretive\",\"secrets\":{\"TOKEN\":\"vault:OTHER\",\"X\":"
                      "\"vault:NONE\"}}"));
    CHECK(lease_begin(&stage.worker) == 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ""), 200);
    CHECK_STR(service_text(service, "secrets.0.name"), "TOKEN");
    CHECK_STR(service_text(service, "secrets.0.value"), "two");
    CHECK(!service_says(service, VALUE) && !service_says(service, "\"X\""));
}

SERVICE_TEST(a_task_that_declares_none_gets_none)
{
    struct stage stage;
    CHECK(set_running(service, &stage,
                      "{\"task_id\":\"hello\",\"secrets\":{\"TOKEN\":\"vault:TOKEN\"}}"));
    CHECK(lease_begin(&stage.worker) == 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ",\"names\":[\"TOKEN\"]"), 200);
    CHECK(!service_says(service, VALUE));
    CHECK(json_count(buf_str(&service->answer.body), "secrets") == 0);
}

SERVICE_TEST(a_secret_that_is_not_stored_refuses_the_start_by_name)
{
    struct error err;
    const char *key = service_make_key(service, everything);
    CHECK(service_deploy(service, &err));
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", "/api/runs", "{\"task_id\":\"secretive\"}"),
                 422);
    CHECK_STR(service_text(service, "code"), "secret_missing");
    CHECK_STR(service_text(service, "details.names.0"), "TOKEN");
    CHECK_STATUS(service, put(service, key, "TOKEN", VALUE), 201);
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", "/api/runs",
                             "{\"task_id\":\"secretive\",\"secrets\":{\"TOKEN\":\"vault:NONE\"}}"),
                 422);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs?status=all", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 0);
}

SERVICE_TEST(a_secret_deleted_after_the_start_is_told_to_the_worker)
{
    struct stage stage;
    CHECK(set_running(service, &stage, "{\"task_id\":\"secretive\"}"));
    CHECK(lease_begin(&stage.worker) == 200);
    CHECK_STATUS(service, service_ask(service, stage.key, "DELETE", "/api/secrets/TOKEN", NULL),
                 204);
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ""), 422);
    CHECK_STR(service_text(service, "code"), "secret_missing");
}

SERVICE_TEST(the_answer_to_begin_holds_what_the_task_declares)
{
    struct stage stage;
    CHECK(set_running(service, &stage, "{\"task_id\":\"secretive\"}"));
    for (int again = 0; again < 2; again++) {
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
        CHECK_STR(service_text(service, "secrets.0.name"), "TOKEN");
        CHECK_STR(service_text(service, "secrets.0.value"), VALUE);
        CHECK(!service_says(service, "two"));
    }
    CHECK(lease_start(&stage.worker) == 200);
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK(!service_says(service, VALUE));
}

SERVICE_TEST(a_begin_without_its_secrets_is_a_begin)
{
    struct stage stage;
    CHECK(set_running(service, &stage, "{\"task_id\":\"secretive\"}"));
    CHECK_STATUS(service, service_ask(service, stage.key, "DELETE", "/api/secrets/TOKEN", NULL),
                 204);
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK(!service_says(service, "TOKEN"));
    CHECK_STATUS(service, lease_post(&stage.worker, "secrets", ""), 422);
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

TEST(a_declaration_is_held_to_the_rules)
{
    static const struct {
        const char *rest;
        bool is_fine;
    } cases[] = {
        {"\"env\",\"target\":\"A\"",                                              true },
        {"\"env\",\"target\":\"LD_PRELOAD\"",                                     false},
        {"\"env\",\"target\":\"HELMR_X\"",                                        false},
        {"\"env\",\"target\":\"A=B\"",                                            false},
        {"\"file\",\"target\":\"conf/key\",\"mode\":\"0640\",\"owner\":\"node\"", true },
        {"\"file\",\"target\":\"/run/secrets/x\"",                                true },
        {"\"file\",\"target\":\"/proc/x\"",                                       false},
        {"\"file\",\"target\":\"/opt/helmr\"",                                    false},
        {"\"file\",\"target\":\"a/../b\"",                                        false},
        {"\"file\",\"target\":\"/\"",                                             false},
        {"\"file\",\"target\":\"a\",\"mode\":\"1777\"",                           false},
        {"\"file\",\"target\":\"a\",\"mode\":\"rw\"",                             false},
        {"\"dir\",\"target\":\"/run/creds\",\"mode\":\"750\"",                    true },
        {"\"pipe\",\"target\":\"/run/creds\"",                                    false},
        {"\"env\",\"target\":\"A\",\"broker\":[]",                                false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(arena_finish) struct arena arena = {0};
        struct json_list list;
        struct error err;
        const char *text =
            arena_printf(&arena, "[{\"name\":\"N\",\"placement\":%s}]", cases[i].rest);
        CHECK(task_secrets_read(str_of(text), &arena, &list, &err) == cases[i].is_fine);
    }
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
