/* Whatever is silent comes to an end: leases, workers, cancels, ttls and deployments. */
#include "server/sweep.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/time.h"
#include "model/lease_state.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

/* Time passes by moving what is written down about it. */

CHANGE(silence, "UPDATE leases SET expires_ms = expires_ms - 70000 WHERE id = $1");
CHANGE(linger, "UPDATE leases SET state_deadline_ms = granted_ms - 1 WHERE id = $1");
CHANGE(exhaust, "UPDATE leases SET hard_deadline_ms = granted_ms - 1 WHERE id = $1");
CHANGE(checkpoint, "UPDATE leases SET state = 'checkpointing' WHERE id = $1");
CHANGE(impatience, "UPDATE runs SET cancel_deadline_ms = 1 WHERE id = $1");
CHANGE(lateness, "UPDATE ready SET ttl_ms = 1 WHERE subject_id = $1");
CHANGE(minute, "UPDATE workers SET heartbeat_ms = heartbeat_ms - 61000 WHERE id = $1");
CHANGE(minutes, "UPDATE workers SET heartbeat_ms = heartbeat_ms - 301000 WHERE id = $1");
CHANGE(day, "UPDATE deployments SET created_ms = created_ms - 86500000 WHERE id = $1");
CHANGE(hour, "UPDATE deployments SET building_ms = building_ms - 3700000 WHERE id = $1");

static bool pass(struct service *service, const struct query *query, const char *id)
{
    return service_change(service, query, &V_TEXT(id), 1, 1);
}

struct stage {
    struct test_worker worker;
    const char *key, *run;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    return worker_join(&stage->worker, service, "one") &&
           service_build(service, &stage->worker, stage->key);
}

/* Puts a new run's lease into this live state. */
static bool reach(struct stage *stage, enum lease_state state)
{
    struct service *service = stage->worker.service;
    stage->run = service_start_run(service, stage->key, "hello", NULL);
    return *stage->run && worker_take(&stage->worker, "run") &&
           (state < LEASE_STARTING || lease_begin(&stage->worker) == 200) &&
           (state < LEASE_RUNNING || lease_start(&stage->worker) == 200) &&
           (state < LEASE_CHECKPOINTING || pass(service, &checkpoint, stage->worker.lease));
}

static const char *lease_text(struct service *service, const char *lease, const char *column)
{
    static const char sql[] = "SELECT state, CAST(live AS TEXT) FROM leases WHERE id = $1";
    static const struct query query = {"test_lease_state", 1, 2, SAME_ON_BOTH(sql)};
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(service->server->store, &tx, &err) ||
        !STORE(tx, &query, &service->arena, &rows, &err, V_TEXT(lease)) || rows.n_rows != 1)
        return "";
    return row_text(&rows, 0, strcmp(column, "live") == 0);
}

static const char *state_of(struct stage *stage)
{
    return run_text(stage->worker.service, stage->key, stage->run, "execution_status");
}

/* Swept again, nothing more happens. */
static bool sweep_twice(struct stage *stage)
{
    struct service *service = stage->worker.service;
    const char *path = arena_printf(&service->arena, "/api/runs/%s/events", stage->run);
    sweep_once(service->server);
    if (service_ask(service, stage->key, "GET", path, NULL) != 200)
        return false;
    size_t n = json_count(buf_str(&service->answer.body), "events");
    sweep_once(service->server);
    return service_ask(service, stage->key, "GET", path, NULL) == 200 &&
           json_count(buf_str(&service->answer.body), "events") == n;
}

SERVICE_TEST(every_live_lease_state_ends_without_its_worker)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    for (enum lease_state state = 0; state < LEASE_STATE_COUNT; state++) {
        if (lease_state_is_final(state))
            continue;
        CHECK(reach(&stage, state));
        CHECK_STR(lease_text(service, stage.worker.lease, "state"), lease_state_name(state));
        CHECK(pass(service, &silence, stage.worker.lease));
        CHECK(sweep_twice(&stage));

        bool was_started = state >= LEASE_RUNNING;
        CHECK_STR(lease_text(service, stage.worker.lease, "state"),
                  was_started ? "lost" : "expired");
        CHECK_STR(state_of(&stage), "queued");
        CHECK(service_int(service, "attempt_number") == (was_started ? 1 : -1));
        CHECK(run_events_of(service, stage.key, stage.run, "run.execution_lost") == was_started);
        CHECK(run_events_of(service, stage.key, stage.run, "run.dispatch_requeued") == 1);

        /* The same attempt is delivered again, and what the lost one still says is stale. */
        struct test_worker lost = stage.worker;
        CHECK(worker_take(&stage.worker, "run"));
        CHECK_STR(stage.worker.subject, stage.run);
        CHECK(stage.worker.attempt == 1 && stage.worker.sequence == lost.sequence + 1);
        CHECK_STATUS(service, lease_post(&lost, "begin", ""), 409);
        CHECK_STR(service_text(service, "code"), "lease_stale");
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
        CHECK_STATUS(service, lease_start(&stage.worker), 200);
        CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 200);
    }
}

SERVICE_TEST(a_state_that_lasts_too_long_ends)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    for (enum lease_state state = LEASE_ASSIGNED; state <= LEASE_STARTING; state++) {
        CHECK(reach(&stage, state) && pass(service, &linger, stage.worker.lease));
        CHECK(sweep_twice(&stage));
        CHECK_STR(lease_text(service, stage.worker.lease, "state"), "expired");
        CHECK_STR(state_of(&stage), "queued");
        CHECK(worker_take(&stage.worker, "run"));
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
        CHECK_STATUS(service, lease_start(&stage.worker), 200);
        CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 200);
    }
}

SERVICE_TEST(a_run_past_its_hard_deadline_fails)
{
    struct stage stage;
    CHECK(set_stage(service, &stage) && reach(&stage, LEASE_RUNNING));
    CHECK(pass(service, &exhaust, stage.worker.lease));
    CHECK(sweep_twice(&stage));
    CHECK_STR(lease_text(service, stage.worker.lease, "state"), "lost");
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "failed");
    CHECK_STR(service_text(service, "error.layer"), "timeout");
    CHECK_STR(service_text(service, "error.failure_kind"), "max_duration_exceeded");
    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 409);
}

SERVICE_TEST(a_cancel_that_nobody_obeys_ends_after_its_grace)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    for (enum lease_state state = LEASE_ASSIGNED; state <= LEASE_RUNNING; state++) {
        CHECK(reach(&stage, state));
        const char *cancel = arena_printf(&service->arena, "/api/runs/%s/cancel", stage.run);
        CHECK_STATUS(service, service_ask(service, stage.key, "POST", cancel, "{}"), 200);
        CHECK(sweep_twice(&stage));
        CHECK_STR(state_of(&stage), "pending_cancel");
        CHECK(pass(service, &impatience, stage.run));
        CHECK(sweep_twice(&stage));
        CHECK_STR(lease_text(service, stage.worker.lease, "state"), "cancelled");
        CHECK_STR(run_text(service, stage.key, stage.run, "status"), "cancelled");
        CHECK(run_events_of(service, stage.key, stage.run, "run.cancelled") == 1);
    }
}

SERVICE_TEST(a_second_cancel_with_force_shortens_the_first)
{
    struct stage stage;
    CHECK(set_stage(service, &stage) && reach(&stage, LEASE_RUNNING));
    const char *cancel = arena_printf(&service->arena, "/api/runs/%s/cancel", stage.run);
    CHECK_STATUS(service,
                 service_ask(service, stage.key, "POST", cancel, "{\"reason\":\"enough\"}"), 200);
    CHECK(sweep_twice(&stage));
    CHECK_STR(state_of(&stage), "pending_cancel");
    CHECK_STATUS(service,
                 service_ask(service, stage.key, "POST", cancel,
                             "{\"reason\":\"at once\",\"force\":true}"),
                 200);
    /* Another one without force takes nothing back. */
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", cancel, "{}"), 200);
    CHECK(sweep_twice(&stage));
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "cancelled");
    CHECK(run_events_of(service, stage.key, stage.run, "run.cancelled") == 1);
    CHECK(service_says(service, "\"reason\":\"enough\",\"force\":true"));
}

SERVICE_TEST(a_cancelled_run_whose_worker_is_silent_ends_cancelled)
{
    struct stage stage;
    CHECK(set_stage(service, &stage) && reach(&stage, LEASE_RUNNING));
    const char *cancel = arena_printf(&service->arena, "/api/runs/%s/cancel", stage.run);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", cancel, "{}"), 200);
    CHECK(pass(service, &silence, stage.worker.lease));
    CHECK(sweep_twice(&stage));
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "cancelled");
}

SERVICE_TEST(a_run_that_nobody_starts_in_time_expires)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    stage.run = service_start_run(service, stage.key, "hello", "{\"ttl\":\"1h\"}");
    CHECK(sweep_twice(&stage));
    CHECK_STR(state_of(&stage), "queued");
    CHECK(pass(service, &lateness, stage.run));
    CHECK_STATUS(service, worker_poll(&stage.worker, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 0);
    CHECK(sweep_twice(&stage));
    CHECK_STR(run_text(service, stage.key, stage.run, "status"), "expired");
    CHECK(run_events_of(service, stage.key, stage.run, "run.expired") == 1);
}

static const char *worker_state(struct service *service, size_t at)
{
    if (service_ask(service, service->session, "GET", "/api/workers", NULL) != 200)
        return "";
    return service_text(service, arena_printf(&service->arena, "workers.%zu.state", at));
}

SERVICE_TEST(a_worker_that_is_silent_for_a_minute_is_lost)
{
    struct stage stage;
    CHECK(set_stage(service, &stage) && reach(&stage, LEASE_RUNNING));
    sweep_once(service->server);
    CHECK_STR(worker_state(service, 0), "active");
    CHECK(pass(service, &minute, stage.worker.id));
    CHECK(sweep_twice(&stage));
    CHECK_STR(worker_state(service, 0), "lost");
    CHECK_STR(state_of(&stage), "queued");
    CHECK_STR(lease_text(service, stage.worker.lease, "state"), "lost");
    CHECK_STATUS(service, worker_beat_now(&stage.worker, "[]"), 409);
    CHECK_STR(service_text(service, "code"), "epoch_superseded");
    CHECK_STATUS(service, worker_poll(&stage.worker, "[\"run\"]", &large_room, 0, "[]"), 409);

    CHECK_STATUS(service, worker_open(&stage.worker), 200);
    CHECK_STR(worker_state(service, 0), "registering");
    CHECK_STATUS(service, worker_activate_as(&stage.worker, "user-kernel"), 200);
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STR(stage.worker.subject, stage.run);
}

SERVICE_TEST(a_worker_has_five_minutes_to_become_active)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK_STATUS(service, worker_open(&stage.worker), 200);
    CHECK(pass(service, &minute, stage.worker.id));
    sweep_once(service->server);
    CHECK_STR(worker_state(service, 0), "registering");
    CHECK(pass(service, &minutes, stage.worker.id));
    sweep_once(service->server);
    CHECK_STR(worker_state(service, 0), "lost");
}

static const char *deployment_text(struct stage *stage, const char *id, const char *path)
{
    struct service *service = stage->worker.service;
    const char *address = arena_printf(&service->arena, "/api/deployments/%s", id);
    return service_ask(service, stage->key, "GET", address, NULL) == 200
               ? service_text(service, path)
               : "";
}

SERVICE_TEST(a_deployment_that_nobody_builds_in_time_fails)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *waiting = service_upload(service, stage.key);
    CHECK(pass(service, &day, waiting));
    sweep_once(service->server);
    sweep_once(service->server);
    CHECK_STR(deployment_text(&stage, waiting, "status"), "failed");
    CHECK_STATUS(service, worker_poll(&stage.worker, "[\"build\"]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 0);

    const char *slow = service_upload(service, stage.key);
    CHECK(worker_take(&stage.worker, "build"));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    CHECK_STR(deployment_text(&stage, slow, "status"), "building");
    CHECK(pass(service, &hour, slow));
    sweep_once(service->server);
    CHECK_STR(deployment_text(&stage, slow, "status"), "failed");
    /* The worker is told, and cannot finish it any more. */
    CHECK_STR(lease_text(service, stage.worker.lease, "state"), "cancelled");
    CHECK_STATUS(service, worker_poll(&stage.worker, "[]", &large_room, 0, "[]"), 200);
    CHECK_STR(service_text(service, "messages.0.type"), "cancel");
    CHECK_STATUS(service, build_end(&stage.worker, test_manifest), 409);
    CHECK_STR(service_text(service, "code"), "lease_stale");
}

SERVICE_TEST(a_build_lost_three_times_fails)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *id = service_upload(service, stage.key);
    for (int i = 1; i <= 3; i++) {
        CHECK(worker_take(&stage.worker, "build"));
        CHECK(stage.worker.sequence == i);
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
        CHECK_STATUS(service, lease_start(&stage.worker), 200);
        CHECK_STR(deployment_text(&stage, id, "status"), "building");
        CHECK(pass(service, &silence, stage.worker.lease));
        sweep_once(service->server);
        CHECK_STR(deployment_text(&stage, id, "status"), i < 3 ? "queued" : "failed");
    }
    CHECK_STR(deployment_text(&stage, id, "error.failure_kind"), "worker_lost");
}

TEST_MAIN()
