/* Waits for records, and what programs do with the streams of their session. */
#include "base/json.h"
#include "server/stream_testing.h"
#include "server/sweep.h"
#include "store/queries.h"

#define CHAT   "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\"}}"
#define CHAT_A "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"correlation_id\":\"a\"}}"
#define LIVE   "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"live\":true}}"

CHANGE(wait_ages, "UPDATE waits SET timeout_at_ms = 1 WHERE id = $1");

static bool ask(struct scene *scene, int64_t op, const char *body)
{
    return lease_op(&scene->worker, op, "wait.open", body);
}

/* The id of a wait that is still open. */
static const char *open_wait(struct scene *scene, int64_t op, const char *body)
{
    return ask(scene, op, body) ? service_text(scene->service, "results.0.wait_id") : "";
}

static int64_t answered_with(struct scene *scene)
{
    return service_int(scene->service, "results.0.body.data.sequence");
}

static int send_as(struct scene *scene, const char *correlation_id)
{
    return scene_post(scene, "inputs/chat",
                      arena_printf(&scene->service->arena,
                                   "{\"data\":true,\"correlation_id\":\"%s\"}", correlation_id));
}

/* The one message there is: the sequence of the record that settled this wait, else -1. */
static int64_t told(struct scene *scene, const char *wait)
{
    struct service *service = scene->service;

    if (worker_poll(&scene->worker, "[]", &large_room, 0, "[]") != 200 ||
        json_count(buf_str(&service->answer.body), "messages") != 1 ||
        strcmp(service_text(service, "messages.0.type"), "wait_settled") != 0 ||
        strcmp(service_text(service, "messages.0.wait_id"), wait) != 0)
        return -1;
    return service_int(service, "messages.0.decision.data.sequence");
}

static int resumed(struct scene *scene, const char *wait)
{
    snprintf(scene->worker.wait, ID_TEXT, "%s", wait);
    return lease_resumed(&scene->worker, "hot");
}

SERVICE_TEST(a_record_answers_the_wait_that_is_open_once)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *wait = open_wait(&scene, 1, CHAT);
    CHECK(*wait);
    CHECK_STR(run_text(service, scene.key, scene.run, "status"), "waiting");
    CHECK_STR(service_text(service, "pending_wait.kind"), "stream");
    CHECK_STR(service_text(service, "pending_wait.params.stream"), "chat");
    CHECK(service_int(service, "pending_wait.params.cursor") == 0);
    CHECK_STATUS(service, scene_send(&scene, 7), 201);
    CHECK_STR(service_text(service, "continuation_status"), "");
    CHECK_STATUS(service, scene_send(&scene, 8), 201);
    CHECK(told(&scene, wait) == 1);
    CHECK(service_int(service, "messages.0.decision.data.data.n") == 7);
    CHECK_STR(run_text(service, scene.key, scene.run, "status"), "running");
    CHECK(run_events_of(service, scene.key, scene.run, "run_wait.completed") == 1);
    CHECK_STATUS(service, resumed(&scene, wait), 200);
    CHECK(ask(&scene, 2, "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"cursor\":1}}"));
    CHECK(answered_with(&scene) == 2);
}

SERVICE_TEST(a_wait_with_a_correlation_id_takes_no_other_record)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK_STATUS(service, send_as(&scene, "b"), 201);
    const char *wait = open_wait(&scene, 1, CHAT_A);
    CHECK(*wait);
    CHECK_STATUS(service, send_as(&scene, "b"), 201);
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK(told(&scene, wait) == -1);
    CHECK_STATUS(service,
                 scene_post(&scene, "outputs/log", "{\"data\":1,\"correlation_id\":\"a\"}"), 201);
    CHECK(told(&scene, wait) == -1);
    CHECK_STATUS(service, send_as(&scene, "a"), 201);
    CHECK(told(&scene, wait) == 4);
    CHECK_STATUS(service, resumed(&scene, wait), 200);
    /* Without one, any record is right: the first. */
    CHECK(ask(&scene, 2, CHAT));
    CHECK(answered_with(&scene) == 1);
}

SERVICE_TEST(records_that_are_there_settle_a_wait_at_once)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK_STATUS(service, scene_send(&scene, 2), 201);
    CHECK(ask(&scene, 1, CHAT) && answered_with(&scene) == 1);
    CHECK_STR(service_text(service, "results.0.wait_id"), "");
    CHECK_STR(run_text(service, scene.key, scene.run, "status"), "running");
    /* The same operation again is the same answer. */
    CHECK(ask(&scene, 1, CHAT) && answered_with(&scene) == 1);
    CHECK(ask(&scene, 2, "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"cursor\":1}}"));
    CHECK(answered_with(&scene) == 2);
    /* A program that says nothing of its position has read nothing, whatever its run had. */
    CHECK(ask(&scene, 3, CHAT) && answered_with(&scene) == 1);
    /* One that is ahead of the stream waits until it comes. */
    const char *wait =
        open_wait(&scene, 4, "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"cursor\":3}}");
    CHECK(*wait);
    CHECK_STATUS(service, scene_send(&scene, 3), 201);
    CHECK(told(&scene, wait) == -1);
    CHECK_STATUS(service, scene_send(&scene, 4), 201);
    CHECK(told(&scene, wait) == 4);
}

SERVICE_TEST(what_a_stream_wait_cannot_be_is_refused)
{
    struct scene scene;
    const struct {
        const char *body, *code;
    } cases[] = {
        {"{\"kind\":\"stream\"}",                                                      "invalid_request"          },
        {"{\"kind\":\"stream\",\"params\":{}}",                                        "invalid_request"          },
        {"{\"kind\":\"stream\",\"params\":{\"stream\":\"nope\"}}",                     "stream_not_found"         },
        {"{\"kind\":\"stream\",\"params\":{\"stream\":\"log\"}}",                      "stream_direction_mismatch"},
        {"{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"cursor\":-1}}",       "invalid_request"          },
        {"{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\"},\"duration\":\"1s\"}",
         "invalid_request"                                                                                        },
        {"{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"x\":1}}",             "unknown_field"            },
    };
    CHECK(scene_set(service, &scene));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK(!ask(&scene, (int64_t)i + 1, cases[i].body));
        CHECK_STR(service_text(service, "results.0.body.code"), cases[i].code);
    }
    CHECK_STR(run_text(service, scene.key, scene.run, "status"), "running");
}

SERVICE_TEST(a_record_resumes_a_parked_run)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *wait = open_wait(&scene, 1, CHAT);
    CHECK_STATUS(service, checkpoint_begin(&scene.worker, wait), 200);
    CHECK_STATUS(service, checkpoint_stage(&scene.worker), 200);
    CHECK_STATUS(service, checkpoint_ready(&scene.worker), 200);
    CHECK_STATUS(service, scene_send(&scene, 5), 201);
    CHECK(worker_take(&scene.worker, "resume"));
    CHECK_STR(scene.worker.subject, scene.run);
    CHECK(service_int(service, "grants.0.resume.decision.data.data.n") == 5);
}

SERVICE_TEST(a_live_wait_keeps_its_sandbox_and_can_be_given_up)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *wait = open_wait(&scene, 1, LIVE);
    CHECK(*wait);
    CHECK(service_says(service, "\"is_live\":true"));
    CHECK_STATUS(service, checkpoint_begin(&scene.worker, wait), 200);
    CHECK(service_says(service, "\"proceed\":false"));
    CHECK_STATUS(service,
                 service_ask(service, scene.key, "POST",
                             arena_printf(&service->arena, "/api/runs/%s/fork", scene.run), "{}"),
                 409);
    CHECK_STR(service_text(service, "code"), "wait_not_forkable");
    CHECK(lease_op(&scene.worker, 2, "wait.cancel", "{}"));
    CHECK_STR(run_text(service, scene.key, scene.run, "status"), "running");
    CHECK(run_events_of(service, scene.key, scene.run, "run_wait.cancelled") == 1);
    CHECK_STATUS(service, resumed(&scene, wait), 200);
    /* What nobody waits for any more is there for the next who does. */
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK(ask(&scene, 3, LIVE) && answered_with(&scene) == 1);
    /* Only one that is live can be given up. */
    CHECK(*open_wait(&scene, 4, CHAT_A));
    CHECK(lease_op(&scene.worker, 5, "wait.cancel", "{}"));
    CHECK_STR(run_text(service, scene.key, scene.run, "status"), "waiting");
}

SERVICE_TEST(a_record_that_comes_too_late_is_left_for_the_next_wait)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *wait =
        open_wait(&scene, 1,
                  "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\"},\"timeout\":\"1h\"}");
    CHECK(*wait);
    sweeper_stop(service->server->sweeper);
    service->server->sweeper = NULL;
    CHECK(service_change(service, &wait_ages, &V_TEXT(wait), 1, 1));
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    sweep_once(service->server);
    CHECK(told(&scene, wait) == -1);
    CHECK_STR(service_text(service, "messages.0.decision.condition"), "expired");
    CHECK_STATUS(service, resumed(&scene, wait), 200);
    CHECK(ask(&scene, 2, CHAT) && answered_with(&scene) == 1);
}

SERVICE_TEST(a_program_appends_once_and_reads_its_outputs)
{
    struct scene scene;
    const char *body = "{\"stream\":\"log\",\"data\":{\"b\":1,\"a\":2},\"correlation_id\":\"c\"}";
    CHECK(scene_set(service, &scene));
    CHECK(lease_op(&scene.worker, 1, "stream.append", body));
    const char *id = service_text(service, "results.0.body.id");
    CHECK(service_int(service, "results.0.body.sequence") == 1);
    CHECK(lease_op(&scene.worker, 1, "stream.append", body));
    CHECK_STR(service_text(service, "results.0.body.id"), id);
    CHECK(lease_op(&scene.worker, 2, "stream.append", "{\"stream\":\"log\",\"data\":null}"));
    CHECK(!lease_op(&scene.worker, 3, "stream.append", "{\"stream\":\"chat\",\"data\":1}"));
    CHECK_STR(service_text(service, "results.0.body.code"), "stream_direction_mismatch");
    CHECK(!lease_op(&scene.worker, 4, "stream.append", "{\"stream\":\"x\",\"data\":1}"));

    CHECK(lease_op(&scene.worker, 5, "stream.read",
                   "{\"stream\":\"log\",\"direction\":\"output\",\"cursor\":1}"));
    CHECK(service_int(service, "results.0.body.sequence") == 2);
    CHECK(lease_op(&scene.worker, 6, "stream.list",
                   "{\"stream\":\"log\",\"direction\":\"output\",\"correlation_id\":\"c\"}"));
    CHECK(json_count(buf_str(&service->answer.body), "results.0.body.records") == 1);
    CHECK(lease_op(&scene.worker, 7, "stream.list",
                   "{\"stream\":\"log\",\"direction\":\"output\",\"limit\":1}"));
    CHECK(json_count(buf_str(&service->answer.body), "results.0.body.records") == 1);
    CHECK(!lease_op(&scene.worker, 8, "stream.read", "{\"stream\":\"log\",\"direction\":\"up\"}"));
    CHECK_STATUS(service, scene_get(&scene, "outputs/log"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "records") == 2);
    CHECK_STR(service_text(service, "records.0.correlation_id"), "c");
}

SERVICE_TEST(a_list_that_is_too_large_for_one_answer_goes_on)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *body = arena_printf(&service->arena, "{\"data\":\"%0*d\"}", 200 * 1024, 0);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(service, scene_post(&scene, "outputs/log", body), 201);
    CHECK(
        lease_op(&scene.worker, 1, "stream.list", "{\"stream\":\"log\",\"direction\":\"output\"}"));
    CHECK(json_count(buf_str(&service->answer.body), "results.0.body.records") == 1);
    CHECK(service_says(service, "\"is_cut\":true"));
}

/* Nothing is swept but by the test. */
static void sweep_by_hand(struct service *service)
{
    sweeper_stop(service->server->sweeper);
    service->server->sweeper = NULL;
}

/* Takes what the session's next run is, and starts it. */
static bool next_turn(struct scene *scene)
{
    if (!worker_take(&scene->worker, "run") || lease_begin(&scene->worker) != 200 ||
        lease_start(&scene->worker) != 200)
        return false;
    scene->run = arena_text(&scene->service->arena, str_of(scene->worker.subject));
    return true;
}

SERVICE_TEST(a_session_goes_on_with_what_its_runs_left_unread)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    sweep_by_hand(service);
    const char *first = scene.run;
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK(ask(&scene, 1, CHAT) && answered_with(&scene) == 1);
    CHECK_STATUS(service, scene_send(&scene, 2), 201);
    CHECK_STR(service_text(service, "continuation_status"), "");
    const char *record = service_text(service, "record.id");
    CHECK_STATUS(service, lease_report(&scene.worker, "succeeded", ""), 200);
    sweep_once(service->server);
    CHECK_STATUS(service, scene_send(&scene, 3), 201);
    CHECK_STR(service_text(service, "continuation_status"), "");

    CHECK(next_turn(&scene));
    CHECK_STR(run_text(service, scene.key, scene.run, "previous_run_id"), first);
    CHECK_STR(service_text(service, "reason"), "input");
    CHECK_STR(service_text(service, "cause.record_id"), record);
    CHECK(service_int(service, "turn_index") == 1);
    CHECK(ask(&scene, 1, CHAT) && answered_with(&scene) == 2);
    CHECK(ask(&scene, 2, "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"cursor\":2}}"));
    CHECK(answered_with(&scene) == 3);
    /* The same attempt, begun again, reads the same. */
    CHECK(ask(&scene, 3, CHAT) && answered_with(&scene) == 2);
}

/* The program takes the first, and ends while others are coming. */
SERVICE_TEST(what_a_run_did_not_take_makes_the_next_one_when_it_ends)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    sweep_by_hand(service);
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK(ask(&scene, 1, CHAT) && answered_with(&scene) == 1);
    CHECK_STATUS(service, scene_send(&scene, 2), 201);
    CHECK_STR(service_text(service, "continuation_status"), "");
    CHECK_STATUS(service, scene_send(&scene, 3), 201);
    CHECK_STATUS(service, lease_report(&scene.worker, "succeeded", ""), 200);
    for (int turn = 1; turn <= 2; turn++) {
        sweep_once(service->server);
        CHECK_STATUS(service, scene_get(&scene, "runs"), 200);
        CHECK(json_count(buf_str(&service->answer.body), "runs") == (size_t)turn + 1);
        CHECK(service_int(service, arena_printf(&service->arena, "runs.%d.cause.sequence", turn)) ==
              turn + 1);
        CHECK(next_turn(&scene));
        CHECK(ask(&scene, turn + 1, CHAT) && answered_with(&scene) == turn + 1);
        CHECK_STATUS(service, lease_report(&scene.worker, "succeeded", ""), 200);
    }
    /* Everything is read; and what a run was made for is not asked about again. */
    sweep_once(service->server);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service,
                     scene_post(&scene, "inputs/chat",
                                "{\"data\":{\"n\":4},\"idempotency_key\":\"four\"}"),
                     i == 0 ? 201 : 200);
        CHECK_STR(service_text(service, "continuation_status"), i == 0 ? "created" : "duplicate");
    }
    CHECK(next_turn(&scene));
    CHECK_STATUS(service, lease_report(&scene.worker, "succeeded", ""), 200);
    sweep_once(service->server);
    CHECK_STATUS(service, scene_get(&scene, "runs"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 4);
}

/* The second comes after the end and before the run of the first is made. */
SERVICE_TEST(the_oldest_record_is_the_first_to_make_a_run)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    sweep_by_hand(service);
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK_STATUS(service, lease_report(&scene.worker, "succeeded", ""), 200);
    CHECK_STATUS(service, scene_send(&scene, 2), 201);
    CHECK_STR(service_text(service, "continuation_status"), "accepted_run_pending");
    for (int turn = 1; turn <= 2; turn++) {
        sweep_once(service->server);
        CHECK_STATUS(service, scene_get(&scene, "runs"), 200);
        CHECK(json_count(buf_str(&service->answer.body), "runs") == (size_t)turn + 1);
        CHECK(service_int(service, arena_printf(&service->arena, "runs.%d.cause.sequence", turn)) ==
              turn);
        CHECK(next_turn(&scene));
        CHECK(ask(&scene, turn, CHAT) && answered_with(&scene) == turn);
        CHECK_STATUS(service, lease_report(&scene.worker, "succeeded", ""), 200);
    }
}

SERVICE_TEST(a_run_that_is_cancelled_leaves_its_input_to_whoever_sends_more)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    sweep_by_hand(service);
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    const char *cancel = arena_printf(&service->arena, "/api/runs/%s/cancel", scene.run);
    CHECK_STATUS(service, service_ask(service, scene.key, "POST", cancel, "{}"), 200);
    CHECK_STATUS(service, lease_report(&scene.worker, "cancelled", ""), 200);
    sweep_once(service->server);
    CHECK_STATUS(service, scene_get(&scene, "runs"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 1);
    CHECK_STATUS(service, scene_send(&scene, 2), 201);
    CHECK_STR(service_text(service, "continuation_status"), "created");
}

SERVICE_TEST(a_branch_has_the_records_up_to_its_checkpoint)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK(lease_op(&scene.worker, 1, "stream.append", "{\"stream\":\"log\",\"data\":\"seen\"}"));
    CHECK(ask(&scene, 2, CHAT) && answered_with(&scene) == 1);
    const char *wait =
        open_wait(&scene, 3, "{\"kind\":\"stream\",\"params\":{\"stream\":\"chat\",\"cursor\":1}}");
    CHECK_STATUS(service, checkpoint_begin(&scene.worker, wait), 200);
    CHECK_STATUS(service, scene_send(&scene, 2), 201); /* answers the source meanwhile */
    CHECK_STATUS(service, checkpoint_stage(&scene.worker), 200);
    CHECK_STATUS(service, checkpoint_ready(&scene.worker), 200);

    const char *fork = arena_printf(&service->arena, "/api/runs/%s/fork", scene.run);
    CHECK_STATUS(service, service_ask(service, scene.key, "POST", fork, "{}"), 201);
    CHECK_STR(service_text(service, "wait.condition"), "pending");
    scene.session = service_text(service, "session.id");
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "records") == 1);
    CHECK(service_int(service, "records.0.data.n") == 1);
    CHECK_STATUS(service, scene_get(&scene, "outputs/log"), 200);
    CHECK_STR(service_text(service, "records.0.data"), "seen");
    CHECK_STATUS(service, scene_send(&scene, 20), 201);
    CHECK(service_int(service, "record.sequence") == 2);

    CHECK_STATUS(service, service_ask(service, scene.key, "POST", fork, "{\"data\":{\"n\":30}}"),
                 201);
    CHECK_STR(service_text(service, "wait.condition"), "completed");
    scene.session = service_text(service, "session.id");
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat"), 200);
    CHECK(service_int(service, "records.1.data.n") == 30);
}

TEST_MAIN()
