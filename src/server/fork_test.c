/* Branches of a run: each its own, the source as it was. */
#include <poll.h>
#include <pthread.h>

#include "base/json.h"
#include "server/park_testing.h"
#include "server/service_suite.h"
#include "store/queries.h"

static int fork_run_with(struct stage *stage, const char *body)
{
    struct service *service = stage->worker.service;
    const char *path = arena_printf(&service->arena, "/api/runs/%s/fork", stage->run);

    return service_ask(service, stage->key, "POST", path, body);
}

SERVICE_TEST(two_branches_with_two_answers_leave_the_run_answerable)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, PARKED));
    char branches[2][ID_TEXT];
    for (int i = 0; i < 2; i++) {
        const char *body =
            arena_printf(&service->arena, "{\"data\":{\"n\":%d},\"external_id\":\"b%d\"}", i, i);
        CHECK_STATUS(service, fork_run_with(&stage, body), 201);
        snprintf(branches[i], ID_TEXT, "%s", service_text(service, "run.id"));
        CHECK_STR(service_text(service, "run.forked_from.run_id"), stage.run);
        CHECK_STR(service_text(service, "run.forked_from.wait_id"), stage.wait);
        CHECK_STR(service_text(service, "run.execution_status"), "queued");
        CHECK_STR(service_text(service, "session.current_run_id"), branches[i]);
        CHECK_STR(service_text(service, "wait.condition"), "completed");
        CHECK_STR(service_text(service, "token.status"), "completed");
        CHECK(run_events_of(service, stage.key, branches[i], "run.created") == 1);
    }
    CHECK_STATUS(service, fork_run_with(&stage, "{\"external_id\":\"b0\"}"), 409);
    CHECK(stage_events(&stage, "run.forked") == 2);
    CHECK_STR(stage_suspension(&stage), "parked");
    CHECK_STR(stage_state(&stage), "waiting");

    for (int i = 0; i < 2; i++) {
        CHECK(worker_take(&stage.worker, "resume"));
        CHECK_STR(stage.worker.subject, branches[i]);
        CHECK_STR(service_text(service, "grants.0.resume.forked_from"), stage.run);
        CHECK(service_int(service, "grants.0.resume.decision.data.n") == i);
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
        CHECK_STATUS(service, lease_start(&stage.worker), 200);
        CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
        CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 200);
        CHECK_STR(run_text(service, stage.key, branches[i], "status"), "succeeded");
    }
    CHECK(stage_settle(&stage) && stage_start(&stage, "resume"));
    CHECK_STR(stage.worker.subject, stage.run);
    CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
    CHECK(stage_finish(&stage));
    /* And once more, now that it is over. */
    CHECK_STATUS(service, fork_run_with(&stage, "{}"), 201);
    CHECK_STR(service_text(service, "run.status"), "waiting");
}

SERVICE_TEST(a_branch_that_is_left_waiting_has_a_token_of_its_own)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, PARKED));
    CHECK_STATUS(service, fork_run_with(&stage, "{\"idempotency_key\":\"k\"}"), 201);
    const char *branch = service_text(service, "run.id"),
               *token = service_text(service, "token.id");
    CHECK_STR(service_text(service, "wait.suspension"), "parked");
    CHECK(*service_text(service, "token.public_access_token"));
    CHECK_STATUS(service,
                 fork_run_with(&stage, "{\"idempotency_key\":\"k\","
                                       "\"idempotency_key_options\":{\"scope\":\"global\"}}"),
                 200);
    CHECK_STR(service_text(service, "run.id"), branch);
    CHECK(service_says(service, "\"is_cached\":true"));

    const char *path = arena_printf(&service->arena, "/api/tokens/%s/complete", token);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", path, "{\"data\":1}"), 200);
    CHECK_STR(run_text(service, stage.key, branch, "execution_status"), "queued");
    CHECK_STR(stage_state(&stage), "waiting");
    CHECK(stage_start(&stage, "resume"));
    CHECK_STR(stage.worker.subject, branch);
}

SERVICE_TEST(a_branch_keeps_the_objects_when_its_source_lets_go)
{
    CHANGE(end, "UPDATE runs SET finished_ms = finished_ms - 90000000 WHERE id = $1");
    CHANGE(age, "UPDATE checkpoints SET ready_ms = ready_ms - 90000000 WHERE id = $1");
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, RESUMED) && stage_finish(&stage));
    CHECK_STATUS(service, fork_run_with(&stage, "{}"), 201);
    char copy[ID_TEXT];
    snprintf(copy, ID_TEXT, "%s", service_text(service, "wait.checkpoint.id"));
    CHECK(service_change(service, &end, &V_TEXT(stage.run), 1, 1) &&
          service_change(service, &age, &V_TEXT(stage.worker.checkpoint), 1, 1));
    stage_sweep(service);
    CHECK_STR(stage_checkpoint(&stage, stage.worker.checkpoint), "deleted");
    CHECK_STR(stage_checkpoint(&stage, copy), "ready");
    CHECK_STR(stage_refs(&stage, copy), "2");
    CHECK_STATUS(service, fork_run_with(&stage, "{}"), 409);
    CHECK_STR(service_text(service, "code"), "checkpoint_unavailable");
}

SERVICE_TEST(what_cannot_be_forked_says_why)
{
    CHANGE(blind, "UPDATE checkpoints SET can_fork = 0 WHERE id = $1");
    struct stage stage;
    CHECK(stage_set(service, &stage));
    stage.run = service_start_run(service, stage.key, "hello", NULL);
    CHECK(stage_start(&stage, "run"));
    CHECK_STATUS(service, fork_run_with(&stage, "{}"), 409);
    CHECK_STR(service_text(service, "code"), "wait_not_forkable");
    CHECK(stage_open_wait(&stage) && stage_park(&stage));
    CHECK(service_change(service, &blind, &V_TEXT(stage.worker.checkpoint), 1, 1));
    CHECK_STATUS(service, fork_run_with(&stage, "{}"), 409);
    CHECK_STR(service_text(service, "code"), "wait_not_forkable");
    CHECK_STR(service_text(service, "details.reason"), "shared_entropy");

    struct test_worker plain = {0};
    CHECK(worker_join(&plain, service, "two"));
    stage.worker = plain;
    CHECK(stage_wait(&stage));
    CHECK_STATUS(service, fork_run_with(&stage, "{}"), 501);
    CHECK_STR(service_text(service, "code"), "engine_without_checkpoints");
}

/* A fork that waits for its source to be parked, on a thread of its own. */
struct patient {
    struct stage stage;
    pthread_t thread;
    int status;
};

static void *fork_slowly(void *arg)
{
    struct patient *patient = arg;

    patient->status = fork_run_with(&patient->stage, "{\"data\":true}");
    return NULL;
}

SERVICE_TEST(a_run_in_memory_is_parked_before_it_is_forked)
{
    struct stage stage;
    struct patient patient;
    CHECK(stage_set(service, &stage) && stage_wait(&stage));
    patient = (struct patient){.stage = stage};
    patient.stage.worker.service = service_view(service);
    CHECK(pthread_create(&patient.thread, NULL, fork_slowly, &patient) == 0);
    while (!stage_hears(&stage.worker, "park_now", stage.wait))
        poll(NULL, 0, 10);
    CHECK(stage_park(&stage));
    pthread_join(patient.thread, NULL);
    service_view_end(patient.stage.worker.service);
    CHECK(patient.status == 201);
    CHECK(stage_events(&stage, "run.forked") == 1);
}

TEST_MAIN()
