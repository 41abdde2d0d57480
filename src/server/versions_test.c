/* Versions as results bring them: whole or not at all, current only after a success. */
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define VERSION_ID  "0190a000-0000-7000-8000-0000000000aa"
#define TREE_DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct stage {
    struct test_worker worker;
    const char *key, *run;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    if (!worker_join(&stage->worker, service, "one") ||
        !service_build(service, &stage->worker, stage->key))
        return false;
    stage->run = service_start_run(service, stage->key, "hello", NULL);
    return *stage->run && worker_take(&stage->worker, "run") &&
           lease_begin(&stage->worker) == 200 && lease_start(&stage->worker) == 200;
}

static const char *version_of(struct stage *stage, const char *manifest, const char *objects)
{
    return arena_printf(&stage->worker.service->arena,
                        ",\"version\":{\"id\":\"" VERSION_ID "\",\"manifest\":\"%s\","
                        "\"tree_digest\":\"" TREE_DIGEST "\",\"objects\":[%s],"
                        "\"size_bytes\":7,\"entries\":2}",
                        manifest, objects);
}

static const char *object_of(struct stage *stage, const char *id)
{
    return arena_printf(&stage->worker.service->arena, "{\"digest\":\"%s\",\"size\":1}", id);
}

/* 1 when the workspace of the run has the version as its current one. */
static int64_t is_current(struct stage *stage)
{
    static const char sql[] = "SELECT count(*) FROM workspaces w JOIN runs r ON "
                              "r.workspace_id = w.id WHERE r.id = $1 AND "
                              "w.current_version_id = '" VERSION_ID "'";
    static const struct query query = {"test_current", 1, 1, SAME_ON_BOTH(sql)};
    struct service *service = stage->worker.service;
    struct rows rows;
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin_read(service->server->store, &tx, &err) ||
        !STORE(tx, &query, &service->arena, &rows, &err, V_TEXT(stage->run)))
        return -1;
    return row_int(&rows, 0, 0);
}

SERVICE_TEST(a_success_makes_its_version_the_current_one)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *manifest = worker_put(&stage.worker, "a manifest");
    CHECK_STATUS(service,
                 lease_report(&stage.worker, "succeeded",
                              version_of(&stage, manifest, object_of(&stage, manifest))),
                 200);
    CHECK_STR(run_text(service, stage.key, stage.run, "result_version_id"), VERSION_ID);
    CHECK(is_current(&stage) == 1);
    CHECK(run_events_of(service, stage.key, stage.run, "workspace.version_captured") == 1);
}

SERVICE_TEST(a_failure_leaves_the_current_version_alone)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *manifest = worker_put(&stage.worker, "a manifest");
    CHECK_STATUS(service,
                 lease_report(&stage.worker, "failed",
                              arena_printf(&service->arena, "%s" TASK_FAILED,
                                           version_of(&stage, manifest,
                                                      object_of(&stage, manifest)))),
                 200);
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "failed");
    CHECK_STR(service_text(service, "result_version_id"), VERSION_ID);
    CHECK(is_current(&stage) == 0);
}

SERVICE_TEST(a_version_with_a_missing_object_is_refused_and_may_be_sent_again)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *manifest = worker_put(&stage.worker, "a manifest");
    const char *pack = object_id(service, "a pack");
    const char *objects = arena_printf(&service->arena, "%s,%s", object_of(&stage, manifest),
                                       object_of(&stage, pack));
    CHECK_STATUS(service,
                 lease_report(&stage.worker, "succeeded", version_of(&stage, manifest, objects)),
                 409);
    CHECK_STR(service_text(service, "code"), "object_gone");
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "running");

    CHECK_STR(worker_put(&stage.worker, "a pack"), pack);
    CHECK_STATUS(service,
                 lease_report(&stage.worker, "succeeded", version_of(&stage, manifest, objects)),
                 200);
    CHECK(is_current(&stage) == 1);
}

SERVICE_TEST(a_version_must_name_its_manifest_among_its_objects)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *manifest = worker_put(&stage.worker, "a manifest");
    CHECK_STATUS(service,
                 lease_report(&stage.worker, "succeeded", version_of(&stage, manifest, "")), 400);
}

TEST_MAIN()
