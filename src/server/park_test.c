/* A run that waits gives up its sandbox and goes on from a checkpoint: nothing is lost at any
 * step, nothing happens twice, and only who can read it gets it. */
#include "base/json.h"
#include "base/time.h"
#include "server/park_testing.h"
#include "server/queue.h"
#include "server/resume.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "store/queries.h"

CHANGE(silence, "UPDATE leases SET expires_ms = expires_ms - 70000 WHERE id = $1");

SERVICE_TEST(a_parked_run_goes_on_with_its_answer)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_wait(&stage));
    CHECK_STR(stage_state(&stage), "waiting");
    CHECK(stage_park(&stage));
    CHECK_STR(stage_suspension(&stage), "parked");
    CHECK_STR(stage_checkpoint(&stage, stage.worker.checkpoint), "ready");
    CHECK_STR(stage_refs(&stage, stage.worker.checkpoint), "2");
    CHECK_STR(stage_state(&stage), "waiting");
    CHECK(stage_takes_nothing(&stage.worker, "[\"run\",\"resume\"]"));

    CHECK(stage_settle(&stage));
    CHECK_STR(stage_state(&stage), "queued");
    CHECK_STR(stage_suspension(&stage), "resume_pending");
    CHECK(stage_takes_nothing(&stage.worker, "[\"run\"]"));
    CHECK(worker_take(&stage.worker, "resume"));
    CHECK_STR(stage.worker.subject, stage.run);
    CHECK(stage.worker.attempt == 1 && stage.worker.resume_version == 1);
    CHECK_STR(service_text(service, "grants.0.resume.checkpoint_id"), stage.worker.checkpoint);
    CHECK_STR(service_text(service, "grants.0.resume.key_id"), KEY_ID);
    CHECK_STR(service_text(service, "grants.0.resume.decision.condition"), "completed");
    CHECK(service_int(service, "grants.0.resume.op") == 1);
    CHECK(service_int(service, "grants.0.resume.settled_ms") > 0);
    CHECK_STR(stage_suspension(&stage), "resuming");

    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
    CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
    CHECK_STR(stage_suspension(&stage), "released");
    CHECK(stage_finish(&stage));
    const char *const kinds[] = {"checkpoint.started", "checkpoint.ready", "run.wait_resume_queued",
                                 "run.resumed"};
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        CHECK(stage_events(&stage, kinds[i]) == 1);
}

/* By a new epoch of the worker, or by its silence. */
static bool kill_worker(struct stage *stage, bool is_silent)
{
    struct service *service = stage->worker.service;

    if (!is_silent)
        return worker_open(&stage->worker) == 200 &&
               worker_activate_as(&stage->worker, "user-kernel") == 200;
    struct error err;
    AUTO_TX tx = NULL;
    if (!store_begin(service->server->store, &tx, &err) ||
        !STORE(tx, &silence, NULL, NULL, &err, V_TEXT(stage->worker.lease)) ||
        !store_commit(&tx, &err))
        return false;
    sweep_once(service->server);
    return true;
}

/* Brings the run to its end, from whatever the loss has left. */
static bool go_on(struct stage *stage, enum step step)
{
    struct test_worker *worker = &stage->worker;

    if (step < STAGED)
        return stage_start(stage, "run") && stage_open_wait(stage) && stage_settle(stage) &&
               snprintf(worker->wait, ID_TEXT, "%s", stage->wait) > 0 &&
               lease_resumed(worker, "hot") == 200;
    return (step >= ANSWERED || stage_settle(stage)) && stage_start(stage, "resume") &&
           lease_resumed(worker, "restored") == 200;
}

SERVICE_TEST(kill_at_each_park_step_loses_nothing)
{
    static const char *const suspensions[STEPS] = {
        [HOT] = "cancelled",           [BEGUN] = "cancelled",         [STAGED] = "parked",
        [PARKED] = "parked",           [ANSWERED] = "resume_pending", [TAKEN] = "resume_pending",
        [PREPARED] = "resume_pending", [STARTED] = "resume_pending",  [RESUMED] = "resume_pending",
    };
    struct stage stage;
    CHECK(stage_set(service, &stage));
    for (int i = 0; i < 2 * STEPS; i++) {
        enum step step = i / 2;
        stage.worker.resume_version = 0;
        printf("# step %d, %s\n", step, i % 2 ? "silent" : "superseded");
        CHECK(stage_reach(&stage, step));
        CHECK(kill_worker(&stage, i % 2));
        CHECK_STR(stage_suspension(&stage), suspensions[step]);
        CHECK_STR(stage_state(&stage), step == STAGED || step == PARKED ? "waiting" : "queued");
        struct test_worker dead = stage.worker;
        CHECK(go_on(&stage, step));
        if (step != PARKED && step != ANSWERED)
            CHECK(lease_post(&dead, "release", ",\"reason\":\"late\"") == 200 ||
                  service->answer.status == 409);
        CHECK(stage_finish(&stage));
        CHECK(stage_events(&stage, "run.resumed") == (step == RESUMED ? 2 : 1));
        CHECK(stage_events(&stage, "checkpoint.ready") == (step >= STAGED));
    }
}

SERVICE_TEST(a_lost_attempt_goes_back_to_its_newest_checkpoint)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, RESUMED));
    CHECK(lease_op(&stage.worker, 2, "wait.open", "{\"kind\":\"token\"}"));
    CHECK_STATUS(service, lease_post(&stage.worker, "release", ",\"reason\":\"guest died\""), 200);
    CHECK_STR(stage_suspension(&stage), "resume_pending");
    CHECK(stage_events(&stage, "run.execution_lost") == 1);
    CHECK(stage_events(&stage, "run_wait.cancelled") == 1);
    CHECK(stage_start(&stage, "resume"));
    CHECK(stage.worker.resume_version == 2);
    CHECK_STR(stage.worker.wait, stage.wait);
    CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
    CHECK(stage_finish(&stage));
}

SERVICE_TEST(a_staged_checkpoint_survives_its_worker)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, STAGED));
    /* Answered before anybody knows that the worker is gone. */
    CHECK(stage_settle(&stage));
    CHECK_STR(stage_suspension(&stage), "checkpointing");
    CHECK(kill_worker(&stage, true));
    CHECK_STR(stage_suspension(&stage), "resume_pending");
    CHECK_STR(stage_checkpoint(&stage, stage.worker.checkpoint), "ready");
    CHECK_STR(stage_state(&stage), "queued");
    CHECK(stage_events(&stage, "run.execution_lost") == 0);
    CHECK(stage_start(&stage, "resume"));
    CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
    CHECK(stage_finish(&stage));
}

SERVICE_TEST(every_step_of_a_park_may_be_told_twice)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_wait(&stage));
    struct test_worker *worker = &stage.worker;
    CHECK_STATUS(service, checkpoint_begin(worker, stage.wait), 200);
    CHECK(service_says(service, "true"));
    const char *again =
        arena_printf(&service->arena, ",\"wait_id\":\"%s\",\"checkpoint_id\":\"%s\"", stage.wait,
                     worker->checkpoint);
    CHECK_STATUS(service, lease_post(worker, "checkpoint/begin", again), 200);
    CHECK(service_says(service, "true"));

    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service, checkpoint_abort(worker), 200);
        CHECK(service_int(service, "retry_after_ms") == 10000);
    }
    CHECK_STR(stage_suspension(&stage), "hot");
    CHECK_STR(stage_checkpoint(&stage, worker->checkpoint), "invalid");
    CHECK_STATUS(service, checkpoint_begin(worker, stage.wait), 200);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service, checkpoint_abort(worker), 200);
        CHECK(service_int(service, "retry_after_ms") == 20000);
    }
    CHECK(stage_events(&stage, "run.wait_checkpoint_failed") == 2);

    CHECK_STATUS(service, checkpoint_begin(worker, stage.wait), 200);
    CHECK_STATUS(service, checkpoint_stage(worker), 200);
    CHECK_STATUS(service, checkpoint_stage(worker), 200);
    CHECK_STATUS(service, checkpoint_ready(worker), 200);
    CHECK_STATUS(service, checkpoint_ready(worker), 200);
    CHECK(stage_events(&stage, "checkpoint.ready") == 1);
    CHECK_STR(stage_suspension(&stage), "parked");
}

SERVICE_TEST(a_checkpoint_without_its_objects_is_refused)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, BEGUN));
    const char *missing = object_id(service, "never stored");
    const char *more = arena_printf(
        &service->arena,
        ",\"checkpoint_id\":\"%s\",\"manifest\":\"%s\",\"key_id\":\"k\",\"compat\":\"c\","
        "\"objects\":[{\"digest\":\"%s\",\"size\":1}],\"logical_bytes\":1,\"stored_bytes\":1,"
        "\"op\":1,\"ms\":1",
        stage.worker.checkpoint, missing, missing);
    CHECK_STATUS(service, lease_post(&stage.worker, "checkpoint/stage", more), 409);
    CHECK_STR(service_text(service, "code"), "object_gone");
    CHECK_STR(stage_checkpoint(&stage, stage.worker.checkpoint), "creating");
    CHECK_STATUS(service, checkpoint_ready(&stage.worker), 409);
    CHECK_STATUS(service, checkpoint_stage(&stage.worker), 200);
    CHECK_STATUS(service, checkpoint_ready(&stage.worker), 200);
}

SERVICE_TEST(an_answer_at_each_moment_is_delivered_once)
{
    struct stage stage;
    CHECK(stage_set(service, &stage));
    for (enum step step = HOT; step <= PARKED; step++) {
        struct test_worker *worker = &stage.worker;
        printf("# answered at step %d\n", step);
        worker->resume_version = 0;
        CHECK(stage_reach(&stage, step) && stage_settle(&stage));
        if (step == BEGUN) {
            CHECK_STATUS(service, checkpoint_abort(worker), 200);
            CHECK(service_int(service, "retry_after_ms") == 0);
        }
        if (step == STAGED)
            CHECK_STATUS(service, checkpoint_ready(worker), 200);
        if (step <= BEGUN) {
            CHECK(stage_hears(worker, "wait_settled", stage.wait));
            CHECK_STR(service_text(service, "messages.0.decision.condition"), "completed");
            snprintf(worker->wait, ID_TEXT, "%s", stage.wait);
            CHECK_STATUS(service, lease_resumed(worker, "hot"), 200);
        } else {
            CHECK(stage_start(&stage, "resume"));
            CHECK_STATUS(service, lease_resumed(worker, "restored"), 200);
        }
        CHECK_STR(stage_suspension(&stage), "released");
        CHECK(stage_events(&stage, "run_wait.completed") == 1);
        CHECK(stage_events(&stage, "run.resumed") == 1);
        CHECK(stage_events(&stage, "run.wait_checkpoint_failed") == 0);
        CHECK(stage_finish(&stage));
    }
}

SERVICE_TEST(two_workers_cannot_resume_one_wait)
{
    struct stage stage;
    struct test_worker other = {.compat = COMPAT, .key_id = KEY_ID};
    CHECK(stage_set(service, &stage) && stage_reach(&stage, TAKEN) &&
          worker_join(&other, service, "two"));
    CHECK(stage_takes_nothing(&other, "[\"run\",\"resume\"]"));
    memcpy(other.lease, stage.worker.lease, sizeof other.lease);
    memcpy(other.wait, stage.wait, sizeof other.wait);
    other.sequence = stage.worker.sequence;
    other.resume_version = 1;
    CHECK_STATUS(service, lease_resumed(&other, "restored"), 409);
    CHECK_STR(service_text(service, "code"), "lease_stale");

    /* Lost and given to the other one: the first has nothing to say any more. */
    struct test_worker first = stage.worker;
    CHECK_STATUS(service, lease_begin(&first), 200);
    CHECK(kill_worker(&stage, true));
    CHECK(worker_take(&other, "resume"));
    CHECK(other.resume_version == 2);
    CHECK_STATUS(service, lease_start(&first), 409);
    CHECK_STATUS(service, lease_resumed(&first, "restored"), 409);
    CHECK_STR(stage_suspension(&stage), "resuming");
}

SERVICE_TEST(the_old_worker_cannot_complete_a_resumed_run)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, STAGED));
    struct test_worker old = stage.worker;
    CHECK(kill_worker(&stage, true) && stage_settle(&stage) && stage_start(&stage, "resume"));
    CHECK_STATUS(service, lease_report(&old, "succeeded", ""), 409);
    CHECK_STR(service_text(service, "code"), "lease_stale");
    CHECK_STATUS(service, checkpoint_abort(&old), 409);
    CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
    CHECK(stage_finish(&stage));
}

SERVICE_TEST(a_rejected_resumption_is_tried_ten_times)
{
    static const struct query at_once = {
        "test_at_once", 1, 0,
        SAME_ON_BOTH("UPDATE ready SET not_before_ms = 1 WHERE subject_id = $1")};
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, ANSWERED));
    for (int i = 0; i <= RESUMES_MAX; i++) {
        CHECK_STR(stage_state(&stage), "queued");
        CHECK(service_change(service, &at_once, &V_TEXT(stage.run), 1, 1));
        sweep_once(service->server);
        CHECK(worker_take(&stage.worker, "resume"));
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
        CHECK_STATUS(service,
                     lease_post(&stage.worker, "reject",
                                ",\"layer\":\"guest_runtime\",\"failure_kind\":\"boot_failed\","
                                "\"code\":\"x\",\"stage\":\"start\",\"text\":\"no\","
                                "\"retryable\":true"),
                     200);
    }
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "failed");
    CHECK_STR(service_text(service, "error.failure_kind"), "wait_resume_failed");
    CHECK_STR(service_text(service, "error.layer"), "parked_wait");
    CHECK_STR(stage_suspension(&stage), "failed");
    CHECK(stage_events(&stage, "run.wait_resume_timeout_requeued") == RESUMES_MAX);
}

static int reject_damaged(struct test_worker *worker)
{
    return lease_post(worker, "reject",
                      ",\"layer\":\"parked_wait\",\"failure_kind\":\"wait_resume_failed\","
                      "\"code\":\"checkpoint_invalid\",\"stage\":\"resume\",\"text\":\"damaged\","
                      "\"retryable\":false");
}

SERVICE_TEST(a_damaged_checkpoint_falls_back_to_an_older_one)
{
    struct stage stage;
    char first[ID_TEXT], newer[ID_TEXT];
    CHECK(stage_set(service, &stage) && stage_reach(&stage, RESUMED));
    memcpy(first, stage.wait, sizeof first);
    CHECK(lease_op(&stage.worker, 2, "wait.open", "{\"kind\":\"token\"}"));
    snprintf(stage.wait, ID_TEXT, "%s", service_text(service, "results.0.wait_id"));
    CHECK(stage_park(&stage) && stage_settle(&stage) && worker_take(&stage.worker, "resume"));
    memcpy(newer, stage.worker.checkpoint, sizeof newer);
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, reject_damaged(&stage.worker), 200);
    CHECK_STR(stage_checkpoint(&stage, newer), "invalid");
    CHECK_STR(stage_refs(&stage, newer), "0");
    CHECK_STR(stage_suspension(&stage), "failed");
    CHECK(worker_take(&stage.worker, "resume"));
    CHECK_STR(stage.worker.wait, first);
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, reject_damaged(&stage.worker), 200);
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "failed");
    CHECK_STR(service_text(service, "error.failure_kind"), "wait_resume_failed");
}

SERVICE_TEST(only_who_can_read_a_checkpoint_is_offered_it)
{
    struct stage stage;
    struct test_worker other_key = {.compat = COMPAT, .key_id = "ffffffffffffffff"};
    struct test_worker other_build = {.compat = "decaf", .key_id = KEY_ID}, without = {0};
    CHECK(stage_set(service, &stage) && worker_join(&other_key, service, "two") &&
          worker_join(&other_build, service, "three") && worker_join(&without, service, "four"));
    CHECK(stage_reach(&stage, ANSWERED));
    CHECK(stage_takes_nothing(&other_key, "[\"run\",\"resume\"]"));
    CHECK(stage_takes_nothing(&other_build, "[\"run\",\"resume\"]"));
    CHECK(stage_takes_nothing(&without, "[\"run\",\"resume\"]"));
    CHECK_STR(run_text(service, stage.key, stage.run, "queued_reason"), "no_capacity");
    CHECK_STR(service_text(service, "queued_detail"), "");
    CHECK(worker_take(&stage.worker, "resume"));
}

SERVICE_TEST(a_run_says_why_no_worker_can_resume_it)
{
    CHANGE(gone, "UPDATE workers SET state = 'lost' WHERE id = $1");
    struct stage stage;
    struct test_worker other_key = {.compat = COMPAT, .key_id = "ffffffffffffffff"};
    struct test_worker other_build = {.compat = "decaf", .key_id = KEY_ID}, without = {0};
    CHECK(stage_set(service, &stage) && stage_reach(&stage, ANSWERED));
    CHECK(worker_join(&other_key, service, "two"));
    CHECK(service_change(service, &gone, &V_TEXT(stage.worker.id), 1, 1));
    CHECK_STR(run_text(service, stage.key, stage.run, "queued_reason"), "no_compatible_worker");
    CHECK_STR(service_text(service, "queued_detail"), "no worker has the checkpoint's key " KEY_ID
                                                      "; worker two has another checkpoint key");
    CHECK(worker_join(&other_build, service, "three") && worker_join(&without, service, "four"));
    run_text(service, stage.key, stage.run, "queued_reason");
    CHECK_STR(service_text(service, "queued_detail"),
              "worker four makes no checkpoints; worker three has another engine_build (decaf "
              "instead of " COMPAT "); worker two has another checkpoint key");
    CHECK(stage_takes_nothing(&other_build, "[\"run\",\"resume\"]"));
}

SERVICE_TEST(a_grant_that_was_not_heard_comes_again_whole)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, TAKEN));
    CHECK_STATUS(service, worker_poll(&stage.worker, "[\"resume\"]", &large_room, 0, "[]"), 200);
    CHECK_STR(service_text(service, "grants.0.kind"), "resume");
    CHECK_STR(service_text(service, "grants.0.lease_id"), stage.worker.lease);
    CHECK_STR(service_text(service, "grants.0.resume.wait_id"), stage.wait);
    CHECK(service_int(service, "grants.0.resume.resume_version") == 1);
}

SERVICE_TEST(time_that_a_run_waits_is_not_taken_from_it)
{
    CHANGE(use, "UPDATE runs SET active_ms = active_ms + 100000 WHERE id = $1");
    static const struct query deadline = {
        "test_deadline", 1, 1,
        SAME_ON_BOTH("SELECT CAST(hard_deadline_ms AS TEXT) FROM leases WHERE subject_id = $1 "
                     "AND live = 1")};
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_wait(&stage));
    CHECK_STR(stage_column(service, &deadline, stage.run), "");
    CHECK(stage_park(&stage) && service_change(service, &use, &V_TEXT(stage.run), 1, 1));
    CHECK(stage_settle(&stage) && worker_take(&stage.worker, "resume"));
    CHECK(service_int(service, "grants.0.run.active_ms") >= 100000);
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    int64_t before = time_now_ms();
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    /* 900 s in all and a minute of grace, of which 100 s and a little are used. */
    int64_t left = service_int(service, "hard_deadline_ms") - before;
    CHECK(left > 700000 && left <= 860000 + time_now_ms() - before);
}

SERVICE_TEST(a_worker_is_told_once_to_park)
{
    CHANGE(overdue, "UPDATE waits SET park_at_ms = 1 WHERE id = $1");
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_wait(&stage));
    sweep_once(service->server);
    CHECK(stage_takes_nothing(&stage.worker, "[]") &&
          json_count(buf_str(&service->answer.body), "messages") == 0);
    CHECK(service_change(service, &overdue, &V_TEXT(stage.wait), 1, 1));
    sweep_once(service->server);
    sweep_once(service->server);
    CHECK(stage_hears(&stage.worker, "park_now", stage.wait));
}

SERVICE_TEST(a_parked_run_is_cancelled_at_once)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, PARKED));
    const char *path = arena_printf(&service->arena, "/api/runs/%s/cancel", stage.run);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", path, "{}"), 200);
    CHECK_STR(service_text(service, "run.status"), "cancelled");
    CHECK_STR(stage_suspension(&stage), "cancelled");
    CHECK(stage_takes_nothing(&stage.worker, "[\"run\",\"resume\"]"));
}

SERVICE_TEST(a_run_that_is_cancelled_while_it_parks_ends_with_its_sandbox)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, STAGED));
    const char *path = arena_printf(&service->arena, "/api/runs/%s/cancel", stage.run);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", path, "{}"), 200);
    CHECK_STR(stage_state(&stage), "pending_cancel");
    CHECK_STATUS(service, checkpoint_ready(&stage.worker), 200);
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "cancelled");
    CHECK_STR(stage_suspension(&stage), "cancelled");
}

SERVICE_TEST(a_checkpoint_is_kept_while_it_may_be_needed)
{
    CHANGE(age, "UPDATE checkpoints SET ready_ms = ready_ms - 90000000 WHERE id = $1");
    CHANGE(release, "UPDATE waits SET released_ms = released_ms - 90000000 WHERE id = $1");
    CHANGE(end, "UPDATE runs SET finished_ms = finished_ms - 90000000 WHERE id = $1");
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, PARKED));
    char first[ID_TEXT];
    memcpy(first, stage.worker.checkpoint, sizeof first);
    CHECK(service_change(service, &age, &V_TEXT(first), 1, 1));
    stage_sweep(service);
    CHECK_STR(stage_checkpoint(&stage, first), "ready");
    CHECK(stage_settle(&stage) && stage_start(&stage, "resume"));
    CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
    CHECK(service_change(service, &release, &V_TEXT(stage.wait), 1, 1));
    stage_sweep(service);
    CHECK_STR(stage_checkpoint(&stage, first), "ready");

    /* A later point of the attempt is held: the first one can go. */
    CHECK(lease_op(&stage.worker, 2, "wait.open", "{\"kind\":\"token\"}"));
    snprintf(stage.wait, ID_TEXT, "%s", service_text(service, "results.0.wait_id"));
    CHECK(stage_park(&stage));
    stage_sweep(service);
    CHECK_STR(stage_checkpoint(&stage, first), "deleted");
    CHECK_STR(stage_refs(&stage, first), "0");
    CHECK_STR(stage_checkpoint(&stage, stage.worker.checkpoint), "ready");
    CHECK(stage_settle(&stage) && stage_start(&stage, "resume"));
    CHECK_STATUS(service, lease_resumed(&stage.worker, "restored"), 200);
    CHECK(stage_finish(&stage));
    CHECK(service_change(service, &age, &V_TEXT(stage.worker.checkpoint), 1, 1));
    stage_sweep(service);
    CHECK_STR(stage_checkpoint(&stage, stage.worker.checkpoint), "ready");
    CHECK(service_change(service, &end, &V_TEXT(stage.run), 1, 1));
    stage_sweep(service);
    CHECK_STR(stage_checkpoint(&stage, stage.worker.checkpoint), "deleted");
}

SERVICE_TEST(a_thousand_runs_that_nobody_can_resume_hold_up_nobody)
{
    static const char sql[] = "SELECT lane_id FROM runs WHERE id = $1";
    static const struct query lane_of = {"test_lane_of", 1, 1, SAME_ON_BOTH(sql)};
    struct stage stage;
    struct error err;
    struct rows lane;
    AUTO_TX tx = NULL;
    CHECK(stage_set(service, &stage) && stage_reach(&stage, ANSWERED));
    CHECK(store_begin(service->server->store, &tx, &err) &&
          STORE(tx, &lane_of, &service->arena, &lane, &err, V_TEXT(stage.run)));
    for (int i = 0; i < 1000; i++) {
        char id[ID_TEXT];
        id_make(id);
        const struct queue_item item = {.kind = "resume",
                                        .subject_id = id,
                                        .lane_id = row_text(&lane, 0, 0),
                                        .environment_id = service->environment_id,
                                        .compat = STR("other"),
                                        .key_id = STR("other")};
        CHECK(queue_put(tx, &item, &err));
    }
    CHECK(store_commit(&tx, &err));
    CHECK(worker_take(&stage.worker, "resume"));
}

TEST_MAIN()
