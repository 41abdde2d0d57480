/* The lease of a build, and what it leaves: events, a failure, or a deployment that can run. */
#include <stdlib.h>

#include "base/json.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

struct stage {
    struct test_worker worker;
    const char *key, *deployment;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    if (!worker_join(&stage->worker, service, "one"))
        return false;
    stage->deployment = service_upload(service, stage->key);
    return *stage->deployment && worker_take(&stage->worker, "build") &&
           strcmp(stage->worker.subject, stage->deployment) == 0;
}

static bool set_building(struct service *service, struct stage *stage)
{
    return set_stage(service, stage) && lease_begin(&stage->worker) == 200 &&
           lease_start(&stage->worker) == 200;
}

static const char *text_of(struct stage *stage, const char *rest, const char *path)
{
    struct service *service = stage->worker.service;
    const char *address =
        arena_printf(&service->arena, "/api/deployments/%s%s", stage->deployment, rest);
    return service_ask(service, stage->key, "GET", address, NULL) == 200
               ? service_text(service, path)
               : "";
}

static bool has(struct service *service, const char *path, const char *json)
{
    struct str raw;

    return json_find_raw(buf_str(&service->answer.body), path, &service->arena, &raw) &&
           str_equal(raw, str_of(json));
}

SERVICE_TEST(a_build_tells_its_progress_and_brings_a_deployment)
{
    static const char progress[] =
        ",\"events\":[{\"op\":\"1\",\"kind\":\"deployment.build.step\",\"at_ms\":1,\"attributes\":{"
        "\"phase\":\"install\",\"status\":\"started\"}}]";
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK_STR(text_of(&stage, "", "status"), "queued");
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    CHECK_STR(text_of(&stage, "", "status"), "building");
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(service, lease_post(&stage.worker, "build/progress", progress), 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "logs", ",\"chunks\":[]"), 400);
    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 400);

    for (int i = 0; i < 2; i++)
        CHECK_STATUS(service, build_end(&stage.worker, test_manifest), 200);
    CHECK_STR(text_of(&stage, "", "status"), "deployed");
    const char *const kinds[] = {"deployment.queued", "deployment.building",
                                 "deployment.build.step", "deployment.deployed"};
    text_of(&stage, "/events", "");
    CHECK(json_count(buf_str(&service->answer.body), "events") == COUNT_OF(kinds));
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        CHECK_STR(service_text(service, arena_printf(&service->arena, "events.%zu.kind", i)),
                  kinds[i]);
    CHECK_STR(service_text(service, "events.1.attributes.engine"), "gvisor");
    CHECK_STR(service_text(service, "events.1.attributes.grade"), "user-kernel");
    CHECK_STR(service_text(service, "events.3.attributes.tasks.1"), "large");

    const char *promote =
        arena_printf(&service->arena, "/api/deployments/%s/promote", stage.deployment);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", promote, ""), 200);
    const char *run =
        service_start_run(service, stage.key, "hello", "{\"queue\":{\"name\":\"narrow\"}}");
    CHECK(*run && worker_take(&stage.worker, "run"));
    CHECK_STR(service_text(service, "grants.0.run.task.id"), "hello");
    CHECK_STR(service_text(service, "grants.0.run.task.module"), "tasks/a.ts");
    CHECK(has(service, "grants.0.run.task.preload", "true"));
    CHECK_STR(service_text(service, "grants.0.run.sandbox.image"),
              arena_printf(&service->arena, "sha256:%s",
                           object_id(service, "the manifest of an image")));
    CHECK_STR(service_text(service, "grants.0.run.sandbox.image_id"), "image");
    CHECK_STR(service_text(service, "grants.0.run.project"), "main");
    CHECK(service_int(service, "grants.0.run.sandbox.memory_mib") == 512);
    CHECK(service_int(service, "grants.0.run.deployment.bundle.size") == 10);
    CHECK(service_int(service, "grants.0.run.max_duration_ms") == 900000);
}

SERVICE_TEST(a_deployment_knows_which_modules_may_be_loaded_ahead)
{
    static const char result[] =
        ",\"outcome\":\"succeeded\",\"fingerprint\":\"f\",\"manifest\":%s,\"images\":[{\"id\":"
        "\"image\",\"digest\":\"sha256:%s\",\"size\":1,\"objects\":[{\"digest\":\"%s\",\"size\":"
        "24}]}],\"imports\":[{\"task_id\":\"hello\",\"preload\":true},{\"task_id\":\"large\","
        "\"preload\":false,\"reason\":\"a.ts:1 reads the clock\"}],\"bundle\":{\"digest\":\"%s\","
        "\"size\":10}";
    struct stage stage;
    CHECK(set_building(service, &stage));
    const char *image = worker_put(&stage.worker, "the manifest of an image");
    const char *bundle = worker_put(&stage.worker, "the bundle");
    const char *body = arena_printf(&service->arena, result, test_manifest, image, image, bundle);
    CHECK_STATUS(service, lease_post(&stage.worker, "build/complete", body), 200);

    CHECK_STR(text_of(&stage, "", "tasks.0.task_id"), "hello");
    CHECK(has(service, "tasks.0.preload", "true"));
    CHECK_STR(service_text(service, "tasks.0.preload_reason"), "");
    CHECK(has(service, "tasks.1.preload", "false"));
    CHECK_STR(service_text(service, "tasks.1.preload_reason"), "a.ts:1 reads the clock");

    const char *promote =
        arena_printf(&service->arena, "/api/deployments/%s/promote", stage.deployment);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", promote, ""), 200);
    CHECK(*service_start_run(service, stage.key, "large", NULL));
    CHECK(worker_take(&stage.worker, "run"));
    CHECK(has(service, "grants.0.run.task.preload", "false"));
}

SERVICE_TEST(a_failed_build_says_why)
{
    static const char failure[] =
        ",\"outcome\":\"failed\",\"fingerprint\":\"f\",\"failure\":{\"layer\":\"deployment_build\","
        "\"failure_kind\":\"task_invalid\",\"message\":\"no export\",\"details\":{\"file\":"
        "\"tasks/a.ts\",\"line\":7}}";
    struct stage stage;
    CHECK(set_building(service, &stage));
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(service, lease_post(&stage.worker, "build/complete", failure), 200);
    CHECK_STR(text_of(&stage, "", "status"), "failed");
    CHECK_STR(service_text(service, "error.failure_kind"), "task_invalid");
    CHECK_STR(service_text(service, "error.message"), "no export");
    CHECK_STR(text_of(&stage, "/events", "events.2.attributes.file"), "tasks/a.ts");
    CHECK_STATUS(service, build_end(&stage.worker, test_manifest), 200); /* a replay */
    CHECK_STR(text_of(&stage, "", "status"), "failed");
}

SERVICE_TEST(a_result_that_cannot_be_used_changes_nothing)
{
    static const char gone[] =
        ",\"outcome\":\"succeeded\",\"fingerprint\":\"g\",\"manifest\":{\"tasks\":[],"
        "\"sandboxes\":[]},\"bundle\":{\"digest\":\"%s\",\"size\":1}";
    static const char *const manifests[] = {
        "[]",
        "{}",
        "{\"tasks\":[],\"sandboxes\":[],\"queues\":[{\"name\":\"q\",\"concurrency_limit\":0}]}",
        "{\"tasks\":[],\"sandboxes\":[],\"queues\":[{\"name\":\"q\",\"concurrency_limit\":\"2\"}]}",
        "{\"tasks\":[],\"sandboxes\":[],\"queues\":[{\"name\":\"not a name\"}]}",
        "{\"tasks\":[],\"sandboxes\":[{\"id\":\"b\",\"image_id\":\"other\",\"mount_path\":\"/w\","
        "\"cpu\":1,\"memory_mib\":512,\"disk_mib\":10}]}",
        "{\"tasks\":[],\"sandboxes\":[{\"id\":\"b\",\"image_id\":\"image\",\"mount_path\":\"/w\","
        "\"cpu\":0,\"memory_mib\":512,\"disk_mib\":10}]}",
        "{\"tasks\":[{\"id\":\"t\",\"file_path\":\"a\",\"export_name\":\"t\",\"sandbox_id\":\"b\","
        "\"accepts_payload\":true,\"max_duration_seconds\":900,\"queue\":\"q\"}],"
        "\"sandboxes\":[]}",
    };
    struct stage stage;
    CHECK(set_building(service, &stage));
    static const char *const digests[] = {
        "0000000000000000000000000000000000000000000000000000000000000000", "../../keys/master",
        ""};
    for (size_t i = 0; i < COUNT_OF(digests); i++) {
        const char *body = arena_printf(&service->arena, gone, digests[i]);
        CHECK_STATUS(service, lease_post(&stage.worker, "build/complete", body), 409);
        CHECK_STR(service_text(service, "code"), "object_gone");
    }
    for (size_t i = 0; i < COUNT_OF(manifests); i++)
        CHECK_STATUS(service, build_end(&stage.worker, manifests[i]), 400);
    CHECK_STR(text_of(&stage, "", "status"), "building");
    CHECK_STATUS(service, build_end(&stage.worker, test_manifest), 200);
}

SERVICE_TEST(a_cancelled_build_is_over_at_once)
{
    struct stage stage;
    CHECK(set_building(service, &stage));
    const char *cancel =
        arena_printf(&service->arena, "/api/deployments/%s/cancel", stage.deployment);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", cancel, "{\"reason\":\"no\"}"),
                 200);
    CHECK_STR(text_of(&stage, "", "error.failure_kind"), "build_cancelled");
    CHECK_STATUS(service, worker_poll(&stage.worker, "[]", &large_room, 0, "[]"), 200);
    CHECK_STR(service_text(service, "messages.0.type"), "cancel");
    CHECK_STR(service_text(service, "messages.0.lease_id"), stage.worker.lease);
    CHECK_STATUS(service, build_end(&stage.worker, test_manifest), 409);
    CHECK_STR(service_text(service, "code"), "lease_stale");
    CHECK_STATUS(service, lease_post(&stage.worker, "build/progress", ",\"events\":[]"), 409);
}

SERVICE_TEST(a_build_given_back_is_built_again)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK_STATUS(service,
                 lease_post(&stage.worker, "reject",
                            ",\"layer\":\"guest_runtime\",\"failure_kind\":\"boot_failed\","
                            "\"text\":\"t\",\"retryable\":true"),
                 200);
    CHECK_STR(text_of(&stage, "", "status"), "queued");
    CHECK(worker_take(&stage.worker, "build"));
    CHECK(stage.worker.sequence == 2);
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "release", ",\"reason\":\"stops\""), 200);
    CHECK_STR(text_of(&stage, "", "status"), "queued");
    CHECK(worker_take(&stage.worker, "build"));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    CHECK_STATUS(service, build_end(&stage.worker, test_manifest), 200);
    CHECK_STR(text_of(&stage, "", "status"), "deployed");
}

/* "": it was started. */
static const char *start_code(struct service *service, const char *key, const char *task,
                              const char *deployment)
{
    const char *options =
        *deployment ? arena_printf(&service->arena, "{\"deployment_id\":\"%s\"}", deployment)
                    : "{}";
    const char *body =
        arena_printf(&service->arena, "{\"task_id\":\"%s\",\"payload\":{},\"options\":%s}", task,
                     options);
    int status = service_ask(service, key, "POST", "/api/runs", body);

    return status == 201                    ? ""
           : status == 409 || status == 404 ? service_text(service, "code")
                                            : "another answer";
}

SERVICE_TEST(a_task_tells_what_its_payload_looks_like)
{
    static const char told[] =
        "{\"tasks\":[{\"id\":\"told\",\"file_path\":\"a.ts\",\"export_name\":\"told\","
        "\"sandbox_id\":\"box\",\"accepts_payload\":true,\"max_duration_seconds\":900,"
        "\"queue\":\"task/told\",\"payload_schema\":{\"type\":\"object\"}}],\"sandboxes\":[{\"id\":"
        "\"box\",\"image_id\":\"image\",\"mount_path\":\"/workspace\",\"cpu\":1,"
        "\"memory_mib\":512,\"disk_mib\":1024}]}";
    struct stage stage;
    CHECK(set_building(service, &stage));
    CHECK_STATUS(service, build_end(&stage.worker, told), 200);
    const char *promote =
        arena_printf(&service->arena, "/api/deployments/%s/promote", stage.deployment);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", promote, ""), 200);
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", "/api/tasks/told", NULL), 200);
    CHECK(service_says(service, "\"payload_schema\":{\"type\":\"object\"}"));
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", "/api/tasks", NULL), 200);
    CHECK(!service_says(service, "payload_schema"));
}

/* What the current deployment lacks was there before, is yet to come, or was never there. */
SERVICE_TEST(a_task_that_is_gone_is_archived)
{
    static const char other[] =
        "{\"tasks\":[{\"id\":\"other\",\"file_path\":\"tasks/a.ts\",\"export_name\":\"other\","
        "\"sandbox_id\":\"box\",\"accepts_payload\":true,\"max_duration_seconds\":900,"
        "\"queue\":\"task/other\"}],\"sandboxes\":[{\"id\":\"box\",\"image_id\":\"image\","
        "\"mount_path\":\"/workspace\",\"cpu\":1,\"memory_mib\":512,\"disk_mib\":1024}]}";
    const char *key = service_make_key(service, OPERATOR);
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "one") && service_build(service, &worker, key));
    const char *first = arena_text(&service->arena, str_of(service->deployment_id));
    const char *second = service_upload(service, key);
    CHECK(worker_take(&worker, "build") && lease_begin(&worker) == 200 &&
          lease_start(&worker) == 200 && build_end(&worker, other) == 200);
    CHECK_STR(start_code(service, key, "hello", ""), "");
    CHECK_STR(start_code(service, key, "other", ""), "task_not_deployed");
    const char *promote = arena_printf(&service->arena, "/api/deployments/%s/promote", second);
    CHECK_STATUS(service, service_ask(service, key, "POST", promote, ""), 200);
    CHECK_STR(start_code(service, key, "other", ""), "");
    CHECK_STR(start_code(service, key, "hello", ""), "task_archived");
    CHECK_STR(start_code(service, key, "hello", second), "task_not_deployed");
    CHECK_STR(start_code(service, key, "hello", first), "");
    CHECK_STR(start_code(service, key, "unheard", ""), "task_not_found");
}

TEST_MAIN()
