/* Sessions by their routes: how they end, who waits for them, and the workspaces they join. */
#include <pthread.h>

#include "base/json.h"
#include "server/park_testing.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/task_session_testing.h"
#include "store/queries.h"

CHANGE(expire_soon, "UPDATE sessions SET expires_ms = 1 WHERE id = $1");
CHANGE(enlarge, "UPDATE deployment_sandboxes SET memory_mib = 4096 WHERE deployment_id = $1 AND "
                "sandbox_id = 'box'");
CHANGE(shrink, "UPDATE deployment_sandboxes SET memory_mib = 512 WHERE deployment_id = $1 AND "
               "sandbox_id = 'box'");
CHANGE(archive, "UPDATE workspaces SET state = 'archived' WHERE id = $1");

SERVICE_TEST(a_session_expires_and_its_run_ends_with_it)
{
    const char *key = session_prepare(service);
    const char *id = session_start_hello(service, key, ""), *run = service_text(service, "run.id");
    CHECK(session_change(service, &expire_soon, id));
    sweep_once(service->server);
    CHECK_STR(session_text(service, key, id, "status"), "expired");
    CHECK_STR(service_text(service, "activity"), "idle");
    CHECK(*service_text(service, "expired_at") && service_says(service, "\"timed_out\":true"));
    CHECK_STR(run_text(service, key, run, "status"), "cancelled");
    CHECK(run_events_of(service, key, run, "run.cancel_requested") == 1);
    static const char *const verbs[] = {"/close", "/cancel"};
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        CHECK_STATUS(service, session_ask(service, key, "POST", id, verbs[i], ""), 410);
        CHECK_STR(service_text(service, "code"), "session_expired");
    }
}

SERVICE_TEST(a_session_is_closed_when_its_run_is_over)
{
    struct stage stage;
    CHECK(stage_set(service, &stage));
    const char *key = stage.key, *id = session_start_hello(service, key, "");
    stage.run = service_text(service, "run.id");
    CHECK_STATUS(service, session_ask(service, key, "POST", id, "/close", ""), 409);
    CHECK_STR(service_text(service, "code"), "close_run_active");
    CHECK(stage_start(&stage, "run"));
    CHECK_STR(session_text(service, key, id, "activity"), "running");
    CHECK(stage_open_wait(&stage));
    CHECK_STR(session_text(service, key, id, "activity"), "waiting");
    CHECK_STATUS(service, session_ask(service, key, "POST", id, "/close", ""), 409);
    CHECK(stage_settle(&stage));
    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ",\"output\":{\"a\":1}"), 200);
    CHECK_STR(session_text(service, key, id, "activity"), "idle");
    CHECK(service_int(service, "result.a") == 1 && service_says(service, "\"can_close\":true"));
    CHECK_STATUS(service, session_ask(service, key, "POST", id, "/close", "{\"reason\":\"done\"}"),
                 200);
    CHECK_STR(service_text(service, "status"), "closed");
    CHECK_STR(service_text(service, "terminal_reason"), "done");
    CHECK(service_says(service, "\"can_close\":false"));
    CHECK_STATUS(service, session_ask(service, key, "POST", id, "/close", ""), 409);
    CHECK_STR(service_text(service, "code"), "session_terminal");
}

SERVICE_TEST(a_failed_run_leaves_the_session_open)
{
    struct stage stage;
    CHECK(stage_set(service, &stage));
    const char *id = session_start_hello(service, stage.key, "");
    CHECK(stage_start(&stage, "run"));
    CHECK_STATUS(service, lease_report(&stage.worker, "failed", TASK_FAILED), 200);
    CHECK_STR(session_text(service, stage.key, id, "status"), "open");
    CHECK_STR(service_text(service, "error.failure_kind"), "task_failed");
}

SERVICE_TEST(cancelling_a_session_cancels_its_run)
{
    struct stage stage;
    CHECK(stage_set(service, &stage));
    const char *key = stage.key, *id = session_start_hello(service, key, "");
    const char *run = service_text(service, "run.id");
    CHECK(stage_start(&stage, "run"));
    CHECK_STATUS(service,
                 session_ask(service, key, "POST", id, "/cancel", "{\"reason\":\"enough\"}"), 200);
    CHECK_STR(service_text(service, "status"), "cancelled");
    CHECK_STR(service_text(service, "activity"), "idle");
    CHECK_STR(run_text(service, key, run, "execution_status"), "pending_cancel");
    CHECK_STATUS(service, lease_report(&stage.worker, "cancelled", ""), 200);
    CHECK_STR(run_text(service, key, run, "status"), "cancelled");
    CHECK_STATUS(service, session_ask(service, key, "POST", id, "/cancel", ""), 409);
    CHECK_STR(service_text(service, "code"), "session_terminal");
}

/* The worker that ends what the waiting call has started. */
struct finisher {
    struct test_worker worker;
    pthread_t thread;
    bool is_fine;
};

static void *finish(void *arg)
{
    struct finisher *finisher = arg;
    struct test_worker *worker = &finisher->worker;
    struct service *service = worker->service;

    while (worker_poll(worker, "[\"run\"]", &large_room, 1000, "[]") == 200) {
        if (json_count(buf_str(&service->answer.body), "grants") == 0)
            continue;
        snprintf(worker->lease, ID_TEXT, "%s", service_text(service, "grants.0.lease_id"));
        worker->sequence = service_int(service, "grants.0.sequence");
        finisher->is_fine = lease_begin(worker) == 200 && lease_start(worker) == 200 &&
                            lease_report(worker, "succeeded", ",\"output\":7") == 200;
        break;
    }
    return NULL;
}

SERVICE_TEST(a_start_waits_for_its_run)
{
    struct stage stage;
    CHECK(stage_set(service, &stage));
    static const char path[] = "/api/sessions/start-and-wait";
    struct finisher finisher = {.worker = stage.worker};
    finisher.worker.service = service_view(service);
    CHECK(pthread_create(&finisher.thread, NULL, finish, &finisher) == 0);
    int status =
        service_ask(service, stage.key, "POST", path,
                    "{\"task_id\":\"hello\",\"external_id\":\"w\",\"timeout_seconds\":300}");
    pthread_join(finisher.thread, NULL);
    service_view_end(finisher.worker.service);
    CHECK(finisher.is_fine);
    CHECK_STATUS(service, status, 200);
    CHECK_STR(service_text(service, "run.status"), "succeeded");
    CHECK(service_int(service, "run.output") == 7 && service_int(service, "session.result") == 7);
    CHECK(service_says(service, "\"timed_out\":false}") &&
          service_says(service, "\"is_cached\":false"));

    /* What is there already is waited for, too; here it is over. */
    CHECK_STATUS(service,
                 service_ask(service, stage.key, "POST", path,
                             "{\"task_id\":\"hello\",\"external_id\":\"w\"}"),
                 200);
    CHECK(service_says(service, "\"is_cached\":true") &&
          service_says(service, "\"timed_out\":false}"));
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", "/api/runs?status=all", NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 1);
}

SERVICE_TEST(a_start_does_not_wait_for_ever)
{
    const char *key = session_prepare(service);
    static const char path[] = "/api/sessions/start-and-wait";
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", path,
                             "{\"task_id\":\"hello\",\"timeout_seconds\":1}"),
                 200);
    CHECK_STR(service_text(service, "run.status"), "queued");
    CHECK(service_says(service, "\"timed_out\":true}") &&
          service_says(service, "\"is_cached\":false"));
    static const char *const wrong[] = {"0", "301", "\"1\""};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        const char *body = arena_printf(&service->arena,
                                        "{\"task_id\":\"hello\",\"timeout_seconds\":%s}", wrong[i]);
        CHECK_STATUS(service, service_ask(service, key, "POST", path, body), 400);
    }
    CHECK_STATUS(service, service_ask(service, key, "POST", path, "{\"task_id\":\"secretive\"}"),
                 422);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/sessions", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "sessions") == 1);
}

SERVICE_TEST(a_workspace_has_one_writer)
{
    struct stage stage;
    CHECK(stage_set(service, &stage));
    const char *key = stage.key, *first = session_start_hello(service, key, "");
    const char *workspace = service_text(service, "session.workspace_id");
    const char *join =
        arena_printf(&service->arena, "{\"task_id\":\"hello\",\"workspace_id\":\"%s\"}", workspace);
    CHECK_STATUS(service, session_start(service, key, join), 409);
    CHECK_STR(service_text(service, "code"), "workspace_writer_active");
    CHECK(stage_start(&stage, "run") && stage_open_wait(&stage) && stage_park(&stage));
    CHECK_STATUS(service, session_start(service, key, join), 409);
    CHECK_STR(service_text(service, "code"), "workspace_writer_active");
    CHECK_STATUS(service, session_ask(service, key, "POST", first, "/cancel", ""), 200);
    CHECK_STATUS(service, session_start(service, key, join), 201);
    CHECK_STR(service_text(service, "session.workspace_id"), workspace);
    CHECK_STR(service_text(service, "run.workspace_id"), workspace);
    const char *second = service_text(service, "session.id");
    CHECK_STATUS(service, session_ask(service, key, "POST", second, "/cancel", ""), 200);

    const char *large =
        arena_printf(&service->arena, "{\"task_id\":\"large\",\"workspace_id\":\"%s\"}", workspace);
    CHECK_STATUS(service, session_start(service, key, join), 201);
    CHECK_STATUS(service,
                 session_ask(service, key, "POST", service_text(service, "session.id"), "/cancel",
                             ""),
                 200);
    CHECK(session_change(service, &archive, workspace));
    CHECK_STATUS(service, session_start(service, key, large), 409);
    CHECK_STR(service_text(service, "code"), "workspace_not_active");
}

CHANGE(other_print, "UPDATE workspaces SET fingerprint = 'other' WHERE id = $1");
CHANGE(other_sandbox, "UPDATE workspaces SET sandbox_id = 'gone' WHERE id = $1");

SERVICE_TEST(a_workspace_is_joined_only_where_it_fits)
{
    struct stage stage;
    CHECK(stage_set(service, &stage));
    const char *key = stage.key, *old = arena_text(&service->arena, str_of(service->deployment_id));
    CHECK(session_change(service, &enlarge, old));
    const char *first = session_start_hello(service, key, "");
    const char *workspace = service_text(service, "session.workspace_id");
    CHECK_STATUS(service, session_ask(service, key, "POST", first, "/cancel", ""), 200);

    CHECK(service_build(service, &stage.worker, key) &&
          session_change(service, &shrink, service->deployment_id));
    const char *join =
        arena_printf(&service->arena, "{\"task_id\":\"hello\",\"workspace_id\":\"%s\"}", workspace);
    CHECK_STATUS(service, session_start(service, key, join), 409);
    CHECK_STR(service_text(service, "code"), "workspace_resource_floor_unsatisfied");
    CHECK(session_change(service, &other_print, workspace));
    CHECK_STATUS(service, session_start(service, key, join), 409);
    CHECK_STR(service_text(service, "code"), "workspace_sandbox_incompatible");
    /* The deployment has no sandbox of that name at all. */
    CHECK(session_change(service, &other_sandbox, workspace));
    CHECK_STATUS(service, session_start(service, key, join), 409);
    CHECK_STR(service_text(service, "code"), "sandbox_not_deployed");
}

SERVICE_TEST(what_is_done_to_sessions_is_audited)
{
    const char *key = session_prepare(service);
    const char *id = session_start_hello(service, key, "");
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", "{\"tags\":[\"a\"]}"), 200);
    CHECK_STATUS(service, session_ask(service, key, "POST", id, "/cancel", ""), 200);
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/audit", NULL), 200);
    CHECK(service_says(service, "\"session.start\"") &&
          service_says(service, "\"session.update\"") &&
          service_says(service, "\"session.cancel\""));
}

TEST_MAIN()
