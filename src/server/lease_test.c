/* The life of a lease through the workers' API: fences, the release gate, results, output, builds.
 */
#include <stdlib.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/time.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/worker_testing.h"
#include "store/queries.h"

/* A worker with a run in its hands. */
struct stage {
    struct test_worker worker;
    const char *key, *run;
};

static bool set_stage(struct service *service, struct stage *stage, const char *options)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    if (!worker_join(&stage->worker, service, "one") ||
        !service_build(service, &stage->worker, stage->key))
        return false;
    stage->run = service_start_run(service, stage->key, "hello", options);
    return *stage->run && worker_take(&stage->worker, "run");
}

static bool set_running(struct service *service, struct stage *stage, const char *options)
{
    return set_stage(service, stage, options) && lease_begin(&stage->worker) == 200 &&
           lease_start(&stage->worker) == 200;
}

#define CHECK_CODE(service, got, want)                  \
    do {                                                \
        CHECK_STATUS(service, got, 409);                \
        CHECK_STR(service_text(service, "code"), want); \
    } while (0)

static const char *status_of(struct stage *stage)
{
    return run_text(stage->worker.service, stage->key, stage->run, "status");
}

static const char *state_of(struct stage *stage)
{
    return run_text(stage->worker.service, stage->key, stage->run, "execution_status");
}

SERVICE_TEST(a_run_goes_from_the_queue_to_its_result)
{
    struct stage stage;
    CHECK(set_stage(service, &stage, NULL));
    struct test_worker *worker = &stage.worker;
    CHECK_STR(worker->subject, stage.run);
    CHECK(worker->sequence == 1 && worker->attempt == 1);
    CHECK_STR(state_of(&stage), "leased");
    CHECK(service_int(service, "attempt_number") == -1);
    CHECK_STATUS(service, lease_begin(worker), 200);
    CHECK_STR(status_of(&stage), "queued");

    CHECK_STATUS(service, lease_start(worker), 200);
    CHECK(service_int(service, "hard_deadline_ms") > time_now_ms() + 900000);
    CHECK_STR(status_of(&stage), "running");
    CHECK_STR(service_text(service, "isolation.engine"), "gvisor");
    CHECK_STR(service_text(service, "isolation.grade"), "user-kernel");
    CHECK(service_int(service, "attempt_number") == 1);
    CHECK_STATUS(service,
                 lease_post(worker, "renew",
                            arena_printf(&service->arena, ",\"expires_ms\":%lld,\"active_ms\":1",
                                         (long long)worker->expires_ms)),
                 200);
    CHECK_STATUS(
        service,
        lease_post(worker, "logs",
                   ",\"chunks\":[{\"stream\":\"stdout\",\"offset\":0,\"data\":\"aGVsbG8=\","
                   "\"observed_ms\":1}]"),
        200);
    CHECK(service_int(service, "stdout") == 5 && service_int(service, "stderr") == 0);
    CHECK_STATUS(service,
                 lease_post(worker, "events",
                            ",\"events\":[{\"op\":\"1\",\"kind\":\"run.log\",\"at_ms\":1,"
                            "\"attributes\":{\"level\":\"warn\",\"message\":\"m\"}}]"),
                 200);
    CHECK_STATUS(service,
                 lease_report(worker, "succeeded",
                              ",\"stdout\":5,\"stderr\":0,\"output\":{\"answer\":42}"),
                 200);
    CHECK_STR(service_text(service, "run_status"), "succeeded");
    CHECK_STR(status_of(&stage), "succeeded");
    CHECK(service_int(service, "output.answer") == 42 && service_int(service, "exit_code") == 0);
    const char *const kinds[] = {"run.created",        "run.lease_assigned", "run.lease_started",
                                 "run.prepare",        "log.stdout",         "run.log",
                                 "run.lease_released", "run.completed"};
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        CHECK(run_events_of(service, stage.key, stage.run, kinds[i]) == 1);
}

SERVICE_TEST(a_write_without_the_right_fence_is_stale)
{
    struct stage stage;
    struct test_worker other = {0};
    CHECK(set_running(service, &stage, NULL) && worker_join(&other, service, "two"));
    struct test_worker wrong = stage.worker;
    wrong.sequence++;
    CHECK_CODE(service, lease_begin(&wrong), "lease_stale");
    CHECK_CODE(service, lease_post(&wrong, "release", ",\"reason\":\"r\""), "lease_stale");

    memcpy(other.lease, stage.worker.lease, sizeof other.lease);
    other.sequence = stage.worker.sequence;
    CHECK_CODE(service, lease_report(&other, "succeeded", ""), "lease_stale");
    snprintf(wrong.lease, sizeof wrong.lease, "0190a000-0000-7000-8000-000000000000");
    CHECK_CODE(service, lease_begin(&wrong), "lease_stale");
    CHECK_STATUS(service,
                 worker_post(&stage.worker,
                             arena_printf(&service->arena, "leases/%s/begin", wrong.lease),
                             arena_printf(&service->arena,
                                          "{\"fence\":{\"epoch\":1,\"lease_id\":\"%s\","
                                          "\"sequence\":1}}",
                                          stage.worker.lease)),
                 400);
    CHECK_STR(status_of(&stage), "running");

    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 200);
    CHECK_CODE(service, lease_start(&stage.worker), "lease_stale");
    CHECK_CODE(service, lease_post(&stage.worker, "logs", ",\"chunks\":[]"), "lease_stale");
    CHECK_CODE(service, lease_post(&stage.worker, "renew", ",\"expires_ms\":1,\"active_ms\":1"),
               "lease_stale");
}

static int renew(struct stage *stage, int64_t held)
{
    struct service *service = stage->worker.service;
    return lease_post(&stage->worker, "renew",
                      arena_printf(&service->arena, ",\"expires_ms\":%lld,\"active_ms\":1",
                                   (long long)held));
}

SERVICE_TEST(a_renewal_replaces_the_expiry_the_worker_holds)
{
    static const char sql[] = "UPDATE leases SET expires_ms = expires_ms - 30000 WHERE id = $1";
    static const struct query age = {"test_age_lease", 1, 0, SAME_ON_BOTH(sql)};
    struct stage stage;
    CHECK(set_running(service, &stage, NULL));
    CHECK(service_change(service, &age, &V_TEXT(stage.worker.lease), 1, 1));
    int64_t first = stage.worker.expires_ms - 30000;
    CHECK_STATUS(service, renew(&stage, first), 200);
    int64_t second = service_int(service, "expires_ms");
    CHECK(second > first);

    /* The answer was lost: asked again nothing moves. */
    CHECK_STATUS(service, renew(&stage, first), 200);
    CHECK(service_int(service, "expires_ms") == second);
    CHECK_CODE(service, renew(&stage, first - 1), "lease_stale");
    CHECK(service_change(service, &age, &V_TEXT(stage.worker.lease), 1, 1));
    CHECK_STATUS(service, renew(&stage, second - 30000), 200);
    CHECK_CODE(service, renew(&stage, first), "lease_stale");
}

SERVICE_TEST(a_renewal_never_passes_the_hard_deadline)
{
    static const char sql[] = "UPDATE leases SET hard_deadline_ms = $2 WHERE id = $1";
    static const struct query set = {"test_set_hard", 2, 0, SAME_ON_BOTH(sql)};
    struct stage stage;
    int64_t hard = time_now_ms() + 20000;
    CHECK(set_running(service, &stage, NULL));
    const struct value params[] = {V_TEXT(stage.worker.lease), V_INT(hard)};
    CHECK(service_change(service, &set, params, 2, 1));
    CHECK_STATUS(service, renew(&stage, stage.worker.expires_ms), 200);
    CHECK(service_int(service, "expires_ms") == hard);
}

SERVICE_TEST(what_was_answered_before_is_answered_the_same)
{
    struct stage stage;
    CHECK(set_stage(service, &stage, NULL));
    struct test_worker *worker = &stage.worker;
    /* Not before it has begun. */
    CHECK_CODE(service, lease_start(worker), "lease_stale");
    CHECK_CODE(service, lease_report(worker, "succeeded", ""), "lease_stale");
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(service, lease_begin(worker), 200);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(service, lease_start(worker), 200);
    CHECK(run_events_of(service, stage.key, stage.run, "run.lease_started") == 1);
    CHECK_STR(service_text(service, "events.2.attributes.start"), "standby");
    CHECK_STR(service_text(service, "events.2.attributes.level"), "b");
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service, lease_report(worker, "succeeded", ",\"output\":1"), 200);
        CHECK_STR(service_text(service, "run_status"), "succeeded");
    }
    CHECK(run_events_of(service, stage.key, stage.run, "run.completed") == 1);
    CHECK_CODE(service, lease_report(worker, "failed", TASK_FAILED), "lease_stale");
    CHECK_STR(status_of(&stage), "succeeded");
}

SERVICE_TEST(a_result_is_believed_only_as_it_was_finalized)
{
    static const char operation[] = ",\"operation_id\":\"0190a000-0000-7000-8000-000000000001\","
                                    "\"exit_code\":0,\"active_ms\":1,\"stdout\":0,\"stderr\":0";
    struct stage stage;
    CHECK(set_running(service, &stage, NULL));
    const char *one = arena_printf(&service->arena,
                                   "%s,\"outcome\":\"succeeded\",\"fingerprint\":\"a\"", operation);
    CHECK_CODE(service, lease_post(&stage.worker, "complete", one), "lease_stale");
    CHECK_STATUS(service,
                 lease_post(&stage.worker, "finalize",
                            ",\"operation_id\":\"0190a000-0000-7000-8000-000000000001\","
                            "\"outcome\":\"succeeded\",\"fingerprint\":\"a\""),
                 200);
    CHECK_CODE(service, lease_report(&stage.worker, "failed", TASK_FAILED), "lease_stale");
    const struct {
        const char *more;
        int status;
    } wrong[] = {
        {",\"outcome\":\"succeeded\",\"fingerprint\":\"b\"",             409},
        {",\"outcome\":\"perfect\",\"fingerprint\":\"a\"",               400},
        {",\"outcome\":\"failed\",\"fingerprint\":\"a\"",                400},
        {",\"outcome\":\"succeeded\",\"fingerprint\":\"a\"" TASK_FAILED, 400},
        {",\"outcome\":\"cancelled\",\"fingerprint\":\"a\"",             409},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK_STATUS(service,
                     lease_post(&stage.worker, "complete",
                                arena_printf(&service->arena, "%s%s", operation, wrong[i].more)),
                     wrong[i].status);
    CHECK_STR(status_of(&stage), "running");
    CHECK_STATUS(service, lease_post(&stage.worker, "complete", one), 200);
}

SERVICE_TEST(a_result_after_a_cancel_ends_cancelled)
{
    struct stage stage;
    CHECK(set_running(service, &stage, NULL));
    const char *cancel = arena_printf(&service->arena, "/api/runs/%s/cancel", stage.run);
    char reason[4096];
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    const char *body = arena_printf(&service->arena, "{\"reason\":\"%s\"}", reason);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", cancel, body), 200);
    CHECK_STATUS(service, worker_poll(&stage.worker, "[]", &large_room, 25000, "[]"), 200);
    CHECK_STR(service_text(service, "messages.0.type"), "cancel");
    CHECK_STR(service_text(service, "messages.0.lease_id"), stage.worker.lease);
    /* As much of the reason as a worker reads. */
    CHECK(strlen(service_text(service, "messages.0.reason")) == 1024);
    CHECK_STATUS(service,
                 lease_post(&stage.worker, "finalize",
                            ",\"operation_id\":\"0190a000-0000-7000-8000-000000000001\","
                            "\"outcome\":\"succeeded\",\"fingerprint\":\"f-succeeded\""),
                 200);
    CHECK(service_says(service, "\"cancelled\":true"));
    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ",\"output\":1"), 200);
    CHECK_STR(service_text(service, "run_status"), "cancelled");
    CHECK_STR(status_of(&stage), "cancelled");
    CHECK(!service_says(service, "\"output\":1"));
}

SERVICE_TEST(a_cancelled_run_is_not_let_go)
{
    struct stage stage;
    CHECK(set_stage(service, &stage, NULL));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    const char *cancel = arena_printf(&service->arena, "/api/runs/%s/cancel", stage.run);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", cancel, "{}"), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 409);
    CHECK_STATUS(service,
                 lease_post(&stage.worker, "reject",
                            ",\"layer\":\"guest_runtime\",\"failure_kind\":\"boot_failed\","
                            "\"text\":\"t\",\"retryable\":true"),
                 200);
    CHECK_STR(status_of(&stage), "cancelled");
}

/* A chunk with this text at an offset. */
static const char *chunk(struct service *service, const char *stream, int64_t offset,
                         const char *text)
{
    char *data = arena_alloc(&service->arena, 2 * strlen(text) + 8);
    base64_encode(str_of(text), data);
    data[base64_encoded_len(strlen(text))] = '\0';
    return arena_printf(&service->arena,
                        "{\"stream\":\"%s\",\"offset\":%lld,\"data\":\"%s\",\"observed_ms\":1}",
                        stream, (long long)offset, data);
}

static int send_logs(struct test_worker *worker, const char *chunks)
{
    return lease_post(worker, "logs",
                      arena_printf(&worker->service->arena, ",\"chunks\":[%s]", chunks));
}

SERVICE_TEST(output_is_stored_once_and_in_order)
{
    struct stage stage;
    CHECK(set_running(service, &stage, NULL));
    struct test_worker *worker = &stage.worker;
    CHECK_STATUS(service, send_logs(worker, chunk(service, "stdout", 0, "one ")), 200);
    CHECK_STATUS(service, send_logs(worker, chunk(service, "stdout", 0, "one ")), 200);
    CHECK(service_int(service, "stdout") == 4);
    /* Half of it is known already. */
    CHECK_STATUS(service, send_logs(worker, chunk(service, "stdout", 2, "e two ")), 200);
    CHECK(service_int(service, "stdout") == 8);
    CHECK_STATUS(service, send_logs(worker, chunk(service, "stdout", 20, "gap")), 409);
    CHECK_STATUS(service, send_logs(worker, chunk(service, "stdout", 1, "XX")), 409);
    CHECK_STATUS(service, send_logs(worker, chunk(service, "other", 0, "x")), 400);
    CHECK_STATUS(service,
                 send_logs(worker, arena_printf(&service->arena, "%s,%s,%s",
                                                chunk(service, "stderr", 0, "bad"),
                                                chunk(service, "stdout", 8, "three"),
                                                chunk(service, "stderr", 3, "!"))),
                 200);
    CHECK(service_int(service, "stdout") == 13 && service_int(service, "stderr") == 4);

    CHECK_STATUS(service, lease_report(worker, "succeeded", ",\"stdout\":14,\"stderr\":4"), 409);
    CHECK_STR(service_text(service, "code"), "conflict");
    CHECK_STATUS(service, lease_report(worker, "succeeded", ",\"stdout\":13,\"stderr\":4"), 200);
    const char *logs = arena_printf(&service->arena, "/api/runs/%s/logs", stage.run);
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", logs, NULL), 200);
    /* "one two three" and "bad!" */
    CHECK(service_says(service, "b25lIHR3byB0aHJlZQ=="));
    CHECK(service_says(service, "YmFkIQ=="));
}

SERVICE_TEST(fifty_chunks_come_in_one_call)
{
    AUTO(buf_finish) struct buf chunks = {.max = KIB(64)};
    struct stage stage;
    struct error err;
    CHECK(set_running(service, &stage, NULL));
    for (int i = 0; i < 50; i++) {
        const char *text = arena_printf(&service->arena, "%02d\n", i);
        const char *piece = chunk(service, i % 2 ? "stderr" : "stdout", (int64_t)i / 2 * 3, text);
        CHECK((i == 0 || buf_append(&chunks, STR(","), &err)) &&
              buf_append(&chunks, str_of(piece), &err));
    }
    const char *all = arena_text(&service->arena, buf_str(&chunks));
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service, send_logs(&stage.worker, all), 200);
        CHECK(service_int(service, "stdout") == 75 && service_int(service, "stderr") == 75);
    }
    CHECK(run_events_of(service, stage.key, stage.run, "log.stdout") == 1);
}

SERVICE_TEST(an_event_is_stored_once_whoever_asks_how_often)
{
    static const char two[] = ",\"events\":["
                              "{\"op\":\"a\",\"kind\":\"run.log\",\"attributes\":{},\"at_ms\":1},"
                              "{\"op\":\"b\",\"kind\":\"run.log\",\"attributes\":{},\"at_ms\":2}]";
    struct stage stage;
    CHECK(set_running(service, &stage, NULL));
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(service, lease_post(&stage.worker, "events", two), 200);
    CHECK(run_events_of(service, stage.key, stage.run, "run.log") == 2);
    CHECK_STATUS(service,
                 lease_post(&stage.worker, "events",
                            ",\"events\":[{\"op\":\"c\",\"kind\":\"run.completed\","
                            "\"attributes\":{},\"at_ms\":1}]"),
                 400);
    CHECK_STATUS(service,
                 lease_post(&stage.worker, "build/progress",
                            ",\"events\":[{\"op\":\"c\",\"kind\":\"deployment.build.log\","
                            "\"attributes\":{},\"at_ms\":1}]"),
                 400);
}

static int reject(struct stage *stage, const char *retryable)
{
    return lease_post(&stage->worker, "reject",
                      arena_printf(&stage->worker.service->arena,
                                   ",\"layer\":\"guest_runtime\",\"failure_kind\":\"boot_failed\","
                                   "\"text\":\"no boot\",\"retryable\":%s",
                                   retryable));
}

static bool hurry(struct service *service)
{
    static const char sql[] = "UPDATE ready SET not_before_ms = 0";
    static const struct query query = {"test_hurry", 0, 0, SAME_ON_BOTH(sql)};
    if (!service_change(service, &query, NULL, 0, 1))
        return false;
    sweep_once(service->server);
    return true;
}

SERVICE_TEST(a_run_rejected_ten_times_is_given_up)
{
    struct stage stage;
    CHECK(set_stage(service, &stage, NULL));
    for (int i = 1; i < 10; i++) {
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
        CHECK_STATUS(service, reject(&stage, "true"), 200);
        CHECK_STATUS(service, reject(&stage, "true"), 200); /* told twice */
        CHECK_STR(state_of(&stage), "queued");
        /* Not at once: the delay doubles. */
        CHECK_STATUS(service, worker_poll(&stage.worker, "[\"run\"]", &large_room, 0, "[]"), 200);
        CHECK(json_count(buf_str(&service->answer.body), "grants") == 0);
        CHECK(hurry(service) && worker_take(&stage.worker, "run"));
        CHECK(stage.worker.attempt == 1 && stage.worker.sequence == i + 1);
    }
    CHECK_STATUS(service, reject(&stage, "true"), 200);
    CHECK_STR(status_of(&stage), "failed");
    CHECK_STR(service_text(service, "terminal_outcome"), "dead_lettered");
    CHECK_STR(service_text(service, "error.failure_kind"), "boot_failed");
    CHECK(run_events_of(service, stage.key, stage.run, "run.dispatch_requeued") == 10);
    CHECK(run_events_of(service, stage.key, stage.run, "run.dead_lettered") == 1);
}

SERVICE_TEST(a_final_rejection_fails_the_run_with_its_cause)
{
    struct stage stage;
    CHECK(set_stage(service, &stage, "{\"retry\":{\"max_attempts\":3}}"));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service,
                 lease_post(&stage.worker, "reject",
                            ",\"layer\":\"image_preparation\",\"failure_kind\":\"node_missing\","
                            "\"text\":\"no node\",\"retryable\":false"),
                 200);
    CHECK_STR(status_of(&stage), "failed");
    CHECK_STR(service_text(service, "error.layer"), "image_preparation");
    CHECK_STR(service_text(service, "error.failure_kind"), "node_missing");
    CHECK_STR(service_text(service, "error.message"), "no node");
}

SERVICE_TEST(a_released_run_is_delivered_again_at_once)
{
    struct stage stage;
    CHECK(set_running(service, &stage, NULL));
    struct test_worker old = stage.worker;
    CHECK_STATUS(service, lease_post(&stage.worker, "release", ",\"reason\":\"guest died\""), 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "release", ",\"reason\":\"guest died\""), 200);
    CHECK_STR(state_of(&stage), "queued");
    CHECK(worker_take(&stage.worker, "run"));
    CHECK(stage.worker.attempt == 1 && stage.worker.sequence == 2);
    CHECK_CODE(service, lease_report(&old, "succeeded", ""), "lease_stale");
}

SERVICE_TEST(a_failed_attempt_is_tried_again_by_its_policy)
{
    struct stage stage;
    CHECK(set_running(service, &stage,
                      "{\"retry\":{\"max_attempts\":2,\"backoff\":{\"min_ms\":60000,"
                      "\"max_ms\":60000,\"jitter\":\"none\"}}}"));
    CHECK_STATUS(service, lease_report(&stage.worker, "failed", TASK_FAILED), 200);
    CHECK_STR(service_text(service, "run_status"), "queued");
    CHECK_STR(state_of(&stage), "queued");
    CHECK_STATUS(service, worker_poll(&stage.worker, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 0);
    CHECK(run_events_of(service, stage.key, stage.run, "run.retry_scheduled") == 1);

    CHECK(hurry(service) && worker_take(&stage.worker, "run"));
    CHECK(stage.worker.attempt == 2);
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    CHECK_STATUS(service, lease_report(&stage.worker, "failed", TASK_FAILED), 200);
    CHECK_STR(status_of(&stage), "failed");
    CHECK(service_int(service, "attempt_number") == 2);
    CHECK(run_events_of(service, stage.key, stage.run, "run.lease_started") == 2);
}

SERVICE_TEST(what_another_try_cannot_change_is_not_tried_again)
{
    static const struct {
        const char *layer, *kind;
    } cases[] = {
        {"task_process", "payload_invalid"      },
        {"task_process", "output_invalid"       },
        {"timeout",      "max_duration_exceeded"},
    };
    struct stage stage;
    CHECK(set_running(service, &stage, NULL));
    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 200);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        stage.run =
            service_start_run(service, stage.key, "hello", "{\"retry\":{\"max_attempts\":3}}");
        CHECK(worker_take(&stage.worker, "run"));
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
        CHECK_STATUS(service, lease_start(&stage.worker), 200);
        CHECK_STATUS(service,
                     lease_report(&stage.worker, "failed",
                                  arena_printf(&service->arena,
                                               ",\"failure\":{\"layer\":\"%s\",\"failure_kind\":"
                                               "\"%s\",\"message\":\"m\"}",
                                               cases[i].layer, cases[i].kind)),
                     200);
        CHECK_STR(status_of(&stage), "failed");
        CHECK_STR(service_text(service, "error.failure_kind"), cases[i].kind);
    }
}

TEST_MAIN()
