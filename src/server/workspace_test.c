/* The life of workspaces: made, branched, restored, archived, deleted; what they may take, and what
 * is kept of them. */
#include "base/time.h"
#include "server/collect.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/sweep_pass.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define KEEPER                                                                                \
    OPERATOR ",\"workspace-lifecycle:manage\",\"workspace-versions:read\",\"workspace-files:" \
             "write\""
#define TREE_DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

CHANGE(age_versions, "UPDATE versions SET created_ms = created_ms - $1");
CHANGE(limit_storage, "UPDATE environments SET storage_bytes_max = $1 WHERE is_default = 1");
CHANGE(limit_workspaces, "UPDATE environments SET workspaces_max = $1 WHERE is_default = 1");
static const struct query age_objects = {"test_age_objects", 0, 0,
                                         SAME_ON_BOTH(
                                             "UPDATE objects SET ready_ms = ready_ms - 90000000")};
static const struct query age_dead = {
    "test_age_dead", 0, 0,
    SAME_ON_BOTH("UPDATE objects SET dead_ms = dead_ms - 3700000 WHERE dead_ms IS NOT NULL")};

struct stage {
    struct service *service;
    struct test_worker worker;
    const char *key, *run, *session;
};

/* What the sweeper and the collector do is done by the test, when it wants it. */
static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.service = service, .key = service_make_key(service, KEEPER)};
    collector_stop(service->server->collector);
    sweeper_stop(service->server->sweeper);
    service->server->collector = NULL;
    service->server->sweeper = NULL;
    return worker_join(&stage->worker, service, "one") &&
           service_build(service, &stage->worker, stage->key);
}

static int ask(struct stage *stage, const char *method, const char *path, const char *body)
{
    return service_ask(stage->service, stage->key, method, path, body);
}

static const char *path_of(struct stage *stage, const char *id, const char *rest)
{
    return arena_printf(&stage->service->arena, "/api/workspaces/%s%s", id, rest);
}

static const char *text(struct stage *stage, const char *name)
{
    return arena_text(&stage->service->arena, str_of(service_text(stage->service, name)));
}

/* The id of a new workspace, or "". */
static const char *create(struct stage *stage, const char *more)
{
    const char *body = arena_printf(&stage->service->arena, "{\"sandbox_id\":\"box\"%s}", more);

    return ask(stage, "POST", "/api/workspaces", body) == 201 ? text(stage, "workspace.id") : "";
}

static const char *column(struct stage *stage, const char *workspace, const char *name)
{
    return ask(stage, "GET", path_of(stage, workspace, ""), NULL) == 200 ? text(stage, name) : "";
}

static const char *new_id(struct stage *stage)
{
    char id[ID_TEXT];

    id_make(id);
    return arena_text(&stage->service->arena, str_of(id));
}

/* A run in the workspace that ends so, with a version of one object that holds the text. */
static int run_with(struct stage *stage, const char *workspace, const char *outcome,
                    const char *version, const char *content)
{
    struct arena *arena = &stage->service->arena;
    const char *failure = strcmp(outcome, "failed") == 0 ? TASK_FAILED : "";

    if (ask(stage, "POST", "/api/sessions",
            arena_printf(arena, "{\"task_id\":\"hello\",\"workspace_id\":\"%s\"}", workspace)) !=
        201)
        return -1;
    stage->run = text(stage, "run.id");
    stage->session = text(stage, "session.id");
    if (!worker_take(&stage->worker, "run") || lease_begin(&stage->worker) != 200 ||
        lease_start(&stage->worker) != 200)
        return -1;
    const char *manifest = worker_put(&stage->worker, content);
    return lease_report(&stage->worker, outcome,
                        arena_printf(arena,
                                     ",\"version\":{\"id\":\"%s\",\"manifest\":\"%s\","
                                     "\"tree_digest\":\"" TREE_DIGEST "\",\"objects\":["
                                     "{\"digest\":\"%s\",\"size\":1}],\"size_bytes\":7,"
                                     "\"entries\":2}%s",
                                     version, manifest, manifest, failure));
}

static void sweep(struct stage *stage)
{
    struct pass pass = {.server = stage->service->server, .now = time_now_ms()};

    sweep_workspaces(&pass);
    arena_finish(&pass.arena);
}

static bool change(struct stage *stage, const struct query *query, int64_t number)
{
    struct error err;
    AUTO_TX tx = NULL;

    return store_begin(stage->service->server->store, &tx, &err) &&
           STORE(tx, query, NULL, NULL, &err, V_INT(number)) && store_commit(&tx, &err);
}

static bool pass(struct stage *stage, const struct query *query)
{
    struct error err;
    AUTO_TX tx = NULL;

    return store_begin(stage->service->server->store, &tx, &err) &&
           store_run(tx, query, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err);
}

/* All the time there is: whatever may go, goes. */
static bool collect_all(struct stage *stage)
{
    struct server *server = stage->service->server;

    return pass(stage, &age_objects) && !collect_some(server) && pass(stage, &age_dead) &&
           !collect_some(server);
}

static int64_t used_bytes(struct stage *stage)
{
    static const struct query query = {
        "test_used", 0, 1,
        SAME_ON_BOTH("SELECT CAST(coalesce(sum(storage_bytes), 0) AS BIGINT) FROM "
                     "environment_usage")};
    struct rows rows;
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin_read(stage->service->server->store, &tx, &err) ||
        !store_run(tx, &query, NULL, 0, &stage->service->arena, &rows, &err))
        return -1;
    return row_int(&rows, 0, 0);
}

static bool has_file(struct stage *stage, const char *content)
{
    return blob_has(stage->service->server->blobs, object_id(stage->service, content));
}

SERVICE_TEST(a_workspace_is_made_without_a_run_and_found_again)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *id = create(&stage, ",\"external_id\":\"ticket-1\",\"metadata\":{\"a\":1},"
                                    "\"tags\":[\"review\",\"x\"]");
    CHECK(*id);
    CHECK_STR(service_text(service, "workspace.state"), "active");
    CHECK_STR(service_text(service, "workspace.sandbox_id"), "box");
    CHECK_STR(column(&stage, id, "external_id"), "ticket-1");
    const char *plain = create(&stage, "");
    CHECK(*plain);

    CHECK_STATUS(service, ask(&stage, "GET", "/api/workspaces", NULL), 200);
    CHECK_STR(service_text(service, "workspaces.0.id"), plain);
    CHECK_STR(service_text(service, "workspaces.1.id"), id);
    static const char *const narrow[] = {"?tag=review", "?external_id=ticket-1",
                                         "?state=active&tag=x"};
    for (size_t i = 0; i < COUNT_OF(narrow); i++) {
        const char *path = arena_printf(&service->arena, "/api/workspaces%s", narrow[i]);
        CHECK_STATUS(service, ask(&stage, "GET", path, NULL), 200);
        CHECK_STR(service_text(service, "workspaces.0.id"), id);
        CHECK_STR(service_text(service, "workspaces.1.id"), "");
    }
    CHECK_STATUS(service, ask(&stage, "GET", "/api/workspaces?limit=1", NULL), 200);
    const char *next = arena_printf(&service->arena, "/api/workspaces?limit=1&cursor=%s",
                                    text(&stage, "next_cursor"));
    CHECK_STATUS(service, ask(&stage, "GET", next, NULL), 200);
    CHECK_STR(service_text(service, "workspaces.0.id"), id);
    CHECK_STATUS(service, ask(&stage, "GET", "/api/workspaces?state=gone", NULL), 400);
}

SERVICE_TEST(the_same_request_makes_one_workspace_and_another_is_refused)
{
    static const char named[] = "{\"sandbox_id\":\"box\",\"external_id\":\"one\"}";
    static const char keyed[] = "{\"sandbox_id\":\"box\",\"idempotency_key\":\"k\"}";
    struct stage stage;
    CHECK(set_stage(service, &stage));
    for (int i = 0; i < 2; i++) {
        const char *body = i ? keyed : named;
        CHECK_STATUS(service, ask(&stage, "POST", "/api/workspaces", body), 201);
        const char *id = text(&stage, "workspace.id");
        CHECK_STATUS(service, ask(&stage, "POST", "/api/workspaces", body), 200);
        CHECK_STR(service_text(service, "workspace.id"), id);
        CHECK(service_says(service, "\"is_cached\":true"));
    }
    CHECK_STATUS(service,
                 ask(&stage, "POST", "/api/workspaces",
                     "{\"sandbox_id\":\"box\",\"external_id\":\"one\",\"tags\":[\"t\"]}"),
                 409);
    CHECK_STR(service_text(service, "code"), "idempotency_fingerprint_mismatch");
    CHECK_STATUS(service,
                 ask(&stage, "POST", "/api/workspaces",
                     "{\"sandbox_id\":\"box\",\"idempotency_key\":\"k\",\"tags\":[\"t\"]}"),
                 409);
    CHECK_STATUS(service, ask(&stage, "POST", "/api/workspaces", "{\"sandbox_id\":\"none\"}"), 409);
    CHECK_STR(service_text(service, "code"), "sandbox_not_deployed");
    CHECK_STATUS(service,
                 ask(&stage, "POST", "/api/workspaces",
                     arena_printf(&service->arena,
                                  "{\"sandbox_id\":\"box\",\"from_version_id\":\"%s\"}",
                                  new_id(&stage))),
                 404);
    CHECK_STR(service_text(service, "code"), "workspace_version_not_found");
}

SERVICE_TEST(an_archived_workspace_is_read_and_not_written_to)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *id = create(&stage, "");
    const char *version = new_id(&stage);
    CHECK_STATUS(service, run_with(&stage, id, "succeeded", version, "content"), 200);
    CHECK_STATUS(service,
                 ask(&stage, "PATCH", path_of(&stage, id, ""),
                     "{\"state\":\"archived\",\"tags\":[\"old\"]}"),
                 200);
    CHECK_STR(service_text(service, "state"), "archived");
    CHECK_STR(service_text(service, "tags.0"), "old");
    CHECK(run_with(&stage, id, "succeeded", new_id(&stage), "more") == -1);
    CHECK_STR(service_text(service, "code"), "workspace_not_active");
    const char *back =
        path_of(&stage, id, arena_printf(&service->arena, "/versions/%s/restore", version));
    CHECK_STATUS(service, ask(&stage, "POST", back, "{}"), 409);
    CHECK_STR(service_text(service, "code"), "workspace_not_active");
    CHECK_STATUS(service, ask(&stage, "GET", path_of(&stage, id, "/versions"), NULL), 200);
    CHECK_STR(service_text(service, "versions.0.id"), version);

    CHECK_STATUS(service, ask(&stage, "PATCH", path_of(&stage, id, ""), "{\"state\":\"active\"}"),
                 200);
    CHECK_STATUS(service, run_with(&stage, id, "succeeded", new_id(&stage), "more"), 200);
    CHECK_STATUS(service, ask(&stage, "PATCH", path_of(&stage, id, ""), "{\"state\":\"deleted\"}"),
                 400);
}

SERVICE_TEST(a_restored_version_is_a_new_one_with_the_old_content)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *id = create(&stage, ""), *first = new_id(&stage), *second = new_id(&stage);
    CHECK_STATUS(service, run_with(&stage, id, "succeeded", first, "old"), 200);
    CHECK_STATUS(service, run_with(&stage, id, "succeeded", second, "new"), 200);
    int64_t used = used_bytes(&stage);
    const char *back =
        path_of(&stage, id, arena_printf(&service->arena, "/versions/%s/restore", first));
    CHECK_STATUS(service, ask(&stage, "POST", back, "{}"), 200);
    const char *third = text(&stage, "version_id");
    CHECK(*third && strcmp(third, first) != 0);
    CHECK_STR(column(&stage, id, "current_version_id"), third);
    CHECK(used_bytes(&stage) == used);

    CHECK_STATUS(service, ask(&stage, "GET", path_of(&stage, id, "/versions?kind=user"), NULL),
                 200);
    CHECK_STR(service_text(service, "versions.0.id"), third);
    CHECK_STR(service_text(service, "versions.0.parent_id"), second);
    CHECK(service_says(service, "\"is_current\":true"));
    CHECK_STR(service_text(service, "versions.1.parent_id"), first);
    CHECK_STR(service_text(service, "versions.1.run_id"), stage.run);

    const char *missing =
        path_of(&stage, id, arena_printf(&service->arena, "/versions/%s/restore", new_id(&stage)));
    CHECK_STATUS(service, ask(&stage, "POST", missing, "{}"), 404);
}

SERVICE_TEST(the_collector_never_removes_what_a_branch_shares)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *source = create(&stage, ""), *version = new_id(&stage);
    CHECK_STATUS(service, run_with(&stage, source, "succeeded", version, "shared"), 200);
    int64_t used = used_bytes(&stage);
    CHECK(used > 0);
    const char *branch =
        create(&stage, arena_printf(&service->arena, ",\"from_version_id\":\"%s\"", version));
    CHECK(*branch);
    CHECK_STR(service_text(service, "workspace.forked_from"), source);
    const char *own = column(&stage, branch, "current_version_id");
    CHECK(*own && strcmp(own, version) != 0);
    CHECK(used_bytes(&stage) == used);

    CHECK_STATUS(service, ask(&stage, "DELETE", path_of(&stage, source, ""), NULL), 202);
    CHECK_STR(service_text(service, "state"), "deleting");
    sweep(&stage);
    CHECK_STR(column(&stage, source, "state"), "deleted");
    CHECK(collect_all(&stage) && collect_all(&stage));
    CHECK(has_file(&stage, "shared"));
    CHECK(used_bytes(&stage) == used);

    CHECK_STATUS(service, ask(&stage, "DELETE", path_of(&stage, branch, ""), NULL), 202);
    sweep(&stage);
    CHECK(used_bytes(&stage) == 0);
    CHECK(collect_all(&stage));
    CHECK(!has_file(&stage, "shared"));
}

SERVICE_TEST(a_deleted_workspace_is_gone_and_its_runs_stay)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *id = create(&stage, ",\"external_id\":\"again\",\"tags\":[\"t\"]");
    CHECK_STATUS(service, run_with(&stage, id, "succeeded", new_id(&stage), "files"), 200);
    CHECK_STATUS(service,
                 ask(&stage, "POST", "/api/sessions",
                     arena_printf(&service->arena,
                                  "{\"task_id\":\"hello\",\"workspace_id\":\"%s\"}", id)),
                 201);
    const char *live = text(&stage, "run.id");
    CHECK_STATUS(service, ask(&stage, "DELETE", path_of(&stage, id, ""), NULL), 409);
    CHECK_STR(service_text(service, "code"), "workspace_writer_active");
    CHECK_STATUS(service,
                 ask(&stage, "POST", arena_printf(&service->arena, "/api/runs/%s/cancel", live),
                     "{}"),
                 200);

    CHECK_STATUS(service, ask(&stage, "DELETE", path_of(&stage, id, ""), NULL), 202);
    const char *again = create(&stage, ",\"external_id\":\"again\",\"tags\":[\"t\"]");
    CHECK(*again && strcmp(again, id) != 0);
    sweep(&stage);
    CHECK_STR(column(&stage, id, "state"), "deleted");
    CHECK_STATUS(service, ask(&stage, "DELETE", path_of(&stage, id, ""), NULL), 202);
    CHECK_STATUS(service, ask(&stage, "GET", path_of(&stage, id, "/versions"), NULL), 200);
    CHECK_STR(service_text(service, "versions.0.id"), "");
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "succeeded");
    CHECK_STATUS(service, ask(&stage, "GET", "/api/workspaces?tag=t", NULL), 200);
    CHECK_STR(service_text(service, "workspaces.0.id"), again);
    CHECK_STR(service_text(service, "workspaces.1.id"), "");
    CHECK_STATUS(service, ask(&stage, "GET", "/api/workspaces?state=deleted", NULL), 200);
    CHECK_STR(service_text(service, "workspaces.0.id"), id);
}

SERVICE_TEST(an_environment_has_no_more_workspaces_than_it_may)
{
    struct stage stage;
    CHECK(set_stage(service, &stage) && change(&stage, &limit_workspaces, 2));
    const char *first = create(&stage, "");
    CHECK(*first && *create(&stage, ""));
    CHECK(!*create(&stage, ""));
    CHECK_STR(service_text(service, "code"), "quota_exceeded");
    CHECK(service_says(service, "2 of at most 2 workspaces"));

    /* Those of runs are none that anybody made. */
    CHECK(*service_start_run(service, stage.key, "hello", NULL));
    CHECK_STATUS(service, ask(&stage, "DELETE", path_of(&stage, first, ""), NULL), 202);
    sweep(&stage);
    CHECK(*create(&stage, ""));
}

SERVICE_TEST(a_run_whose_files_do_not_fit_fails_and_says_so)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *id = create(&stage, ""), *first = new_id(&stage);
    CHECK_STATUS(service, run_with(&stage, id, "succeeded", first, "small"), 200);
    CHECK(change(&stage, &limit_storage, used_bytes(&stage)));
    CHECK_STATUS(service, run_with(&stage, id, "succeeded", new_id(&stage), "larger"), 200);
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "failed");
    CHECK_STR(service_text(service, "error.layer"), "guest_runtime");
    CHECK_STR(service_text(service, "error.failure_kind"), "quota_exceeded");
    CHECK_STR(service_text(service, "result_version_id"), "");
    CHECK_STR(column(&stage, id, "current_version_id"), first);

    /* What is there already costs nothing more. */
    CHECK_STATUS(service, run_with(&stage, id, "succeeded", new_id(&stage), "small"), 200);
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "succeeded");
    CHECK_STATUS(service, run_with(&stage, id, "failed", new_id(&stage), "largest"), 200);
    CHECK_STR(run_text(service, stage.key, stage.run, "error.failure_kind"), "task_failed");
    CHECK_STR(service_text(service, "result_version_id"), "");
}

SERVICE_TEST(what_does_not_fit_is_not_written_and_nothing_that_would_write_is_mounted)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *id = create(&stage, "");
    const char *first = path_of(&stage, id, "/files/content?path=a");
    CHECK_STATUS(service, ask(&stage, "PUT", first, "some content"), 200);
    const char *version = text(&stage, "version_id");
    int64_t used = used_bytes(&stage);
    CHECK(used > 0 && change(&stage, &limit_storage, used));

    CHECK_STATUS(service, ask(&stage, "PUT", path_of(&stage, id, "/files/content?path=b"), "more"),
                 409);
    CHECK_STR(service_text(service, "code"), "quota_exceeded");
    CHECK(service_says(service, "raise limits.storage_bytes"));
    CHECK_STATUS(service, ask(&stage, "POST", path_of(&stage, id, "/materialize"), "{}"), 409);
    CHECK_STR(service_text(service, "code"), "quota_exceeded");
    CHECK(used_bytes(&stage) == used);
    CHECK_STR(column(&stage, id, "current_version_id"), version);

    /* What shares everything costs nothing. */
    const char *back =
        path_of(&stage, id, arena_printf(&service->arena, "/versions/%s/restore", version));
    CHECK_STATUS(service, ask(&stage, "POST", back, "{}"), 200);
    CHECK(*create(&stage, arena_printf(&service->arena, ",\"from_version_id\":\"%s\"", version)));
    CHECK(change(&stage, &limit_storage, used + 65536));
    CHECK_STATUS(service, ask(&stage, "PUT", path_of(&stage, id, "/files/content?path=b"), "more"),
                 200);
    CHECK(used_bytes(&stage) > used);
}

SERVICE_TEST(versions_go_after_their_time_unless_something_needs_them)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    service->config.version_retention_ms = 86400000;
    service->config.versions_kept = 2;
    const char *id = create(&stage, ""), *failed = new_id(&stage), *versions[4];
    CHECK_STATUS(service, run_with(&stage, id, "failed", failed, "what failed"), 200);
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        versions[i] = new_id(&stage);
        CHECK_STATUS(service,
                     run_with(&stage, id, "succeeded", versions[i],
                              arena_printf(&service->arena, "content %zu", i)),
                     200);
    }
    /* A run that is not over began with the current one. */
    CHECK_STATUS(service,
                 ask(&stage, "POST", "/api/sessions",
                     arena_printf(&service->arena,
                                  "{\"task_id\":\"hello\",\"workspace_id\":\"%s\"}", id)),
                 201);
    sweep(&stage);
    CHECK_STATUS(service, ask(&stage, "GET", path_of(&stage, id, "/versions"), NULL), 200);
    CHECK_STR(service_text(service, "versions.4.id"), failed);

    CHECK(change(&stage, &age_versions, 2 * (int64_t)86400000));
    sweep(&stage);
    CHECK_STATUS(service, ask(&stage, "GET", path_of(&stage, id, "/versions"), NULL), 200);
    CHECK_STR(service_text(service, "versions.0.id"), versions[3]);
    CHECK_STR(service_text(service, "versions.1.id"), versions[2]);
    CHECK_STR(service_text(service, "versions.2.id"), "");
    CHECK(collect_all(&stage));
    CHECK(has_file(&stage, "content 3") && has_file(&stage, "content 2"));
    CHECK(!has_file(&stage, "content 1") && !has_file(&stage, "what failed"));
}

TEST_MAIN()
