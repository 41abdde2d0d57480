/* Waits as workers open them and time, people and the end of the run settle them. */
#include "base/json.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define PERMISSIONS \
    OPERATOR ",\"tokens:create\",\"tokens:read\",\"tokens:complete\",\"tokens:cancel\""

#define HUMAN "{\"kind\":\"token\",\"metadata\":{\"prompt\":\"Ship it?\"},\"tags\":[\"a\"]}"

/* Time passes by moving what is written down about it. */

CHANGE(timer_comes, "UPDATE waits SET due_ms = 1 WHERE id = $1");
CHANGE(wait_ages, "UPDATE waits SET timeout_at_ms = 1 WHERE id = $1");
CHANGE(token_ages, "UPDATE tokens SET timeout_at_ms = 1 WHERE id = $1");
CHANGE(park, "UPDATE waits SET suspension = 'parked' WHERE id = $1");

struct stage {
    struct service *service;
    struct test_worker worker;
    const char *key, *run, *wait, *token;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.service = service, .key = service_make_key(service, PERMISSIONS)};
    if (!worker_join(&stage->worker, service, "one") ||
        !service_build(service, &stage->worker, stage->key) ||
        !worker_carry(&stage->worker, stage->key))
        return false;
    stage->run = arena_text(&service->arena, str_of(stage->worker.subject));
    return true;
}

/* A wait that is still open afterwards; its id, and its token's. */
static bool open_wait(struct stage *stage, int64_t op, const char *body)
{
    struct service *service = stage->service;

    if (!lease_op(&stage->worker, op, "wait.open", body))
        return false;
    stage->wait = service_text(service, "results.0.wait_id");
    stage->token = run_text(service, stage->key, stage->run, "pending_wait.token_id");
    return *stage->wait;
}

static bool pass(struct stage *stage, const struct query *query, const char *id)
{
    return service_change(stage->service, query, &V_TEXT(id), 1, 1);
}

static size_t events(struct stage *stage, const char *kind)
{
    return run_events_of(stage->service, stage->key, stage->run, kind);
}

static const char *status_of(struct stage *stage)
{
    return run_text(stage->service, stage->key, stage->run, "status");
}

/* What the worker is told of its wait: the decision, or "" when there is no word of it. */
static const char *told(struct stage *stage)
{
    struct service *service = stage->service;
    struct str decision;

    if (worker_poll(&stage->worker, "[]", &large_room, 0, "[]") != 200 ||
        strcmp(service_text(service, "messages.0.type"), "wait_settled") != 0 ||
        strcmp(service_text(service, "messages.0.wait_id"), stage->wait) != 0 ||
        strcmp(service_text(service, "messages.0.lease_id"), stage->worker.lease) != 0 ||
        !json_find_raw(buf_str(&service->answer.body), "messages.0.decision", &service->arena,
                       &decision))
        return "";
    return arena_text(&service->arena, decision);
}

static const char *wait_text(struct stage *stage, size_t index, const char *name)
{
    struct arena *arena = &stage->service->arena;

    if (service_ask(stage->service, stage->key, "GET",
                    arena_printf(arena, "/api/runs/%s/waits", stage->run), NULL) != 200)
        return "";
    return service_text(stage->service, arena_printf(arena, "waits.%zu.%s", index, name));
}

static int answer(struct stage *stage, const char *id, const char *body)
{
    return service_ask(stage->service, stage->key, "POST",
                       arena_printf(&stage->service->arena, "/api/tokens/%s/complete", id), body);
}

static int64_t hard_deadline(struct stage *stage)
{
    static const struct query query = {"test_deadline", 1, 1,
                                       SAME_ON_BOTH(
                                           "SELECT hard_deadline_ms FROM leases WHERE id = $1")};
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(stage->service->server->store, &tx, &err) ||
        !STORE(tx, &query, &stage->service->arena, &rows, &err, V_TEXT(stage->worker.lease)) ||
        rows.n_rows != 1)
        return -1;
    return row_int(&rows, 0, 0);
}

SERVICE_TEST(a_wait_stops_the_run_and_its_clock)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(hard_deadline(&stage) > 0);
    CHECK(open_wait(&stage, 1, HUMAN));
    CHECK_STR(status_of(&stage), "waiting");
    CHECK_STR(service_text(service, "execution_status"), "waiting");
    CHECK_STR(service_text(service, "pending_wait.id"), stage.wait);
    CHECK_STR(service_text(service, "pending_wait.kind"), "token");
    CHECK_STR(service_text(service, "pending_wait.condition"), "pending");
    CHECK_STR(service_text(service, "pending_wait.suspension"), "hot");
    CHECK_STR(service_text(service, "pending_wait.metadata.prompt"), "Ship it?");
    CHECK(hard_deadline(&stage) == 0);
    int64_t active = service_int(service, "active_duration_ms");
    CHECK(run_text(service, stage.key, stage.run, "id") &&
          service_int(service, "active_duration_ms") == active);
    CHECK(events(&stage, "run_wait.created") == 1 && events(&stage, "run.waiting") == 1);
}

SERVICE_TEST(an_answer_reaches_a_hot_program)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, HUMAN));
    CHECK_STATUS(service, answer(&stage, stage.token, "{\"data\":{\"b\":2,\"a\":1}}"), 200);
    CHECK_STR(service_text(service, "status"), "completed");
    CHECK_STR(told(&stage), "{\"condition\":\"completed\",\"data\":{\"a\":1,\"b\":2}}");
    CHECK_STR(status_of(&stage), "running");
    CHECK(events(&stage, "run_wait.completed") == 1);
    CHECK_STR(wait_text(&stage, 0, "condition"), "completed");

    /* Asked again, because the message was lost: the operation has its answer now. */
    CHECK(lease_op(&stage.worker, 1, "wait.open", HUMAN));
    CHECK_STR(service_text(service, "results.0.body.condition"), "completed");
    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 200);
    CHECK_STR(status_of(&stage), "succeeded");
    CHECK_STR(service_text(service, "pending_wait.id"), "");
}

SERVICE_TEST(an_operation_is_done_once)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, HUMAN));
    CHECK(lease_op(&stage.worker, 1, "wait.open", HUMAN));
    CHECK_STR(service_text(service, "results.0.wait_id"), stage.wait);
    CHECK(events(&stage, "run_wait.created") == 1);
    /* Another one under the same number is a fault of the worker. */
    CHECK(!lease_op(&stage.worker, 1, "wait.open", "{\"kind\":\"timer\",\"duration\":\"1h\"}"));
    CHECK_STR(service_text(service, "code"), "conflict");
}

SERVICE_TEST(a_second_wait_is_refused)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, HUMAN));
    for (int i = 0; i < 2; i++) {
        CHECK(!lease_op(&stage.worker, 2, "wait.open", "{\"kind\":\"timer\",\"duration\":\"1h\"}"));
        CHECK_STR(service_text(service, "results.0.body.code"), "concurrent_wait");
    }
    CHECK(events(&stage, "run_wait.created") == 1);
}

SERVICE_TEST(what_cannot_be_waited_for_is_refused)
{
    static const struct {
        const char *body, *code;
    } cases[] = {
        {"{\"kind\":\"timer\"}",                                                        "invalid_request"},
        {"{\"kind\":\"timer\",\"duration\":\"soon\"}",                                  "invalid_request"},
        {"{\"kind\":\"timer\",\"duration\":\"1h\",\"until\":\"2030-01-01T00:00:00Z\"}",
         "invalid_request"                                                                               },
        {"{\"kind\":\"timer\",\"duration\":\"1h\",\"timeout\":\"1h\"}",                 "invalid_request"},
        {"{\"kind\":\"token\",\"timeout\":\"366d\"}",                                   "invalid_request"},
        {"{\"kind\":\"token\",\"metadata\":[]}",                                        "invalid_request"},
        {"{\"kind\":\"token\",\"idle_timeout\":\"2h\"}",                                "invalid_request"},
        {"{\"kind\":\"token\",\"wish\":1}",                                             "unknown_field"  },
        {"{\"kind\":\"token\",\"token_id\":\"0190a000-0000-7000-8000-000000000001\"}",
         "token_not_found"                                                                               },
        {"{\"kind\":\"stream\"}",                                                       "invalid_request"},
        {"{\"kind\":\"rain\"}",                                                         "invalid_request"},
    };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK(!lease_op(&stage.worker, (int64_t)i + 1, "wait.open", cases[i].body));
        CHECK_STR(service_text(service, "results.0.body.code"), cases[i].code);
    }
    CHECK(!lease_op(&stage.worker, 99, "metadata.update", "{}"));
    CHECK_STR(service_text(service, "results.0.body.code"), "unsupported");
    CHECK_STR(status_of(&stage), "running");
    CHECK(events(&stage, "run_wait.created") == 0);
}

SERVICE_TEST(a_timer_comes_due_after_any_downtime)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, "{\"kind\":\"timer\",\"duration\":\"2d\"}"));
    CHECK_STR(service_text(service, "pending_wait.params.duration"), "2d");
    CHECK(*service_text(service, "pending_wait.params.until"));
    sweep_once(service->server);
    CHECK_STR(status_of(&stage), "waiting");
    CHECK(pass(&stage, &timer_comes, stage.wait));
    sweep_once(service->server);
    sweep_once(service->server);
    CHECK_STR(told(&stage), "{\"condition\":\"completed\",\"data\":null}");
    CHECK_STR(status_of(&stage), "running");
    CHECK(events(&stage, "run_wait.completed") == 1);
}

SERVICE_TEST(a_past_instant_resolves_at_once)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(lease_op(&stage.worker, 1, "wait.open",
                   "{\"kind\":\"timer\",\"until\":\"2020-01-01T00:00:00Z\"}"));
    CHECK_STR(service_text(service, "results.0.body.condition"), "completed");
    CHECK(lease_op(&stage.worker, 2, "wait.open", "{\"kind\":\"timer\",\"duration\":0}"));
    CHECK_STR(service_text(service, "results.0.body.condition"), "completed");
    CHECK_STR(status_of(&stage), "running");
    CHECK(events(&stage, "run_wait.created") == 2 && events(&stage, "run_wait.completed") == 2);
    CHECK(events(&stage, "run.waiting") == 0);
    CHECK_STR(wait_text(&stage, 0, "suspension"), "released");
}

SERVICE_TEST(a_wait_that_ends_soon_stays_hot)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    /* The hot time of the tests is 5 s, and 3 more are not worth a checkpoint. */
    CHECK(lease_op(&stage.worker, 1, "wait.open", "{\"kind\":\"timer\",\"duration\":\"7s\"}"));
    CHECK(service_int(service, "results.0.park_at_ms") <= 0);
    CHECK(pass(&stage, &timer_comes, service_text(service, "results.0.wait_id")));
    sweep_once(service->server);
    /* The first has not been taken yet. */
    CHECK(!lease_op(&stage.worker, 2, "wait.open", "{\"kind\":\"timer\",\"duration\":\"9s\"}"));
}

SERVICE_TEST(a_wait_with_nobody_to_answer_expires)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, "{\"kind\":\"token\",\"timeout\":\"7d\"}"));
    CHECK(pass(&stage, &token_ages, stage.token));
    CHECK_STATUS(service, answer(&stage, stage.token, "{}"), 410);
    CHECK_STR(service_text(service, "code"), "token_expired");
    sweep_once(service->server);
    CHECK_STR(told(&stage), "{\"condition\":\"expired\"}");
    CHECK(events(&stage, "run_wait.timed_out") == 1);
    CHECK_STATUS(service, answer(&stage, stage.token, "{}"), 410);
    CHECK_STR(wait_text(&stage, 0, "timeout"), "7d");
}

SERVICE_TEST(the_timeout_of_a_wait_leaves_its_token_alone)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(lease_op(&stage.worker, 1, "token.create", "{\"timeout\":\"3d\"}"));
    const char *token = service_text(service, "results.0.body.id");
    CHECK(open_wait(&stage, 2,
                    arena_printf(&service->arena,
                                 "{\"kind\":\"token\",\"token_id\":\"%s\",\"timeout\":\"1h\"}",
                                 token)));
    CHECK_STR(stage.token, token);
    CHECK(pass(&stage, &wait_ages, stage.wait));
    /* Too late for the wait, in time for the token. */
    CHECK_STATUS(service, answer(&stage, token, "{\"data\":1}"), 200);
    CHECK_STR(status_of(&stage), "waiting");
    sweep_once(service->server);
    CHECK_STR(told(&stage), "{\"condition\":\"expired\"}");
}

SERVICE_TEST(a_token_may_be_answered_before_it_is_waited_for)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(lease_op(&stage.worker, 1, "token.create", "{}"));
    const char *token = service_text(service, "results.0.body.id");
    CHECK(strstr(service_text(service, "results.0.body.callback_url"), token));
    const char *bearer = service_text(service, "results.0.body.public_access_token");
    CHECK(lease_op(&stage.worker, 1, "token.create", "{}"));
    CHECK_STR(service_text(service, "results.0.body.public_access_token"), bearer);
    CHECK_STATUS(service, answer(&stage, token, "{\"data\":\"early\"}"), 200);
    CHECK(
        lease_op(&stage.worker, 2, "wait.open",
                 arena_printf(&service->arena, "{\"kind\":\"token\",\"token_id\":\"%s\"}", token)));
    CHECK_STR(service_text(service, "results.0.body.data"), "early");
    CHECK_STR(status_of(&stage), "running");
}

SERVICE_TEST(a_cancelled_token_cancels_the_wait)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, HUMAN));
    const char *path = arena_printf(&service->arena, "/api/tokens/%s/cancel", stage.wait);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service,
                     service_ask(service, stage.key, "POST", path, "{\"reason\":\"not today\"}"),
                     200);
        CHECK_STR(service_text(service, "status"), "cancelled");
    }
    CHECK_STR(told(&stage), "{\"condition\":\"cancelled\",\"reason\":\"not today\"}");
    CHECK(events(&stage, "run_wait.cancelled") == 1);
    CHECK_STATUS(service, answer(&stage, stage.token, "{}"), 409);
    CHECK_STR(service_text(service, "code"), "token_cancelled");
}

SERVICE_TEST(a_run_that_ends_takes_its_wait_with_it)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, HUMAN));
    /* The program exits while it waits. */
    CHECK_STATUS(service,
                 lease_report(&stage.worker, "failed",
                              ",\"failure\":{\"layer\":\"user_code\",\"failure_kind\":"
                              "\"task_failed\",\"message\":\"exit\"}"),
                 200);
    CHECK_STR(status_of(&stage), "failed");
    CHECK_STR(wait_text(&stage, 0, "condition"), "cancelled");
    CHECK_STR(wait_text(&stage, 0, "suspension"), "cancelled");
    CHECK_STATUS(service, answer(&stage, stage.token, "{}"), 409);
    CHECK_STR(service_text(service, "code"), "token_cancelled");
    CHECK(events(&stage, "run.failed") == 1);
}

SERVICE_TEST(a_parked_run_is_cancelled_at_once)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, HUMAN));
    CHECK(pass(&stage, &park, stage.wait));
    CHECK_STATUS(service,
                 service_ask(service, stage.key, "POST",
                             arena_printf(&service->arena, "/api/runs/%s/cancel", stage.run), "{}"),
                 200);
    CHECK_STR(service_text(service, "operation.status"), "applied");
    CHECK_STR(service_text(service, "run.status"), "cancelled");
    CHECK_STR(wait_text(&stage, 0, "suspension"), "cancelled");
    CHECK(events(&stage, "run_wait.cancelled") == 1 && events(&stage, "run.cancelled") == 1);
}

SERVICE_TEST(a_wait_is_answered_by_its_own_id)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, HUMAN));
    CHECK_STATUS(service, answer(&stage, stage.wait, ""), 200);
    CHECK_STR(service_text(service, "token.wait_id"), stage.wait);
    CHECK_STR(service_text(service, "token.run_id"), stage.run);
    CHECK_STR(told(&stage), "{\"condition\":\"completed\",\"data\":null}");
}

SERVICE_TEST(a_token_of_a_human_wait_is_nobody_elses)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(open_wait(&stage, 1, HUMAN));
    CHECK(worker_carry(&stage.worker, stage.key));
    CHECK(!lease_op(&stage.worker, 1, "wait.open",
                    arena_printf(&service->arena, "{\"kind\":\"token\",\"token_id\":\"%s\"}",
                                 stage.token)));
    CHECK_STR(service_text(service, "results.0.body.code"), "invalid_request");
}

SERVICE_TEST(one_answer_wakes_every_run_that_waits_for_the_token)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", "/api/tokens", "{}"), 201);
    const char *token = service_text(service, "id"), *runs[3];
    const char *body =
        arena_printf(&service->arena, "{\"kind\":\"token\",\"token_id\":\"%s\"}", token);
    for (size_t i = 0; i < COUNT_OF(runs); i++) {
        CHECK(i == 0 || worker_carry(&stage.worker, stage.key));
        runs[i] = arena_text(&service->arena, str_of(stage.worker.subject));
        CHECK(lease_op(&stage.worker, 1, "wait.open", body));
        CHECK_STR(run_text(service, stage.key, runs[i], "status"), "waiting");
    }
    CHECK_STATUS(service, answer(&stage, token, "{\"data\":true}"), 200);
    for (size_t i = 0; i < COUNT_OF(runs); i++) {
        CHECK_STR(run_text(service, stage.key, runs[i], "status"), "running");
        CHECK(run_events_of(service, stage.key, runs[i], "run_wait.completed") == 1);
    }
}

TEST_MAIN()
