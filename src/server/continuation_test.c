/* Records that nobody waits for, and the runs they make. */
#include "server/continuation.h"

#include <pthread.h>

#include "base/json.h"
#include "base/time.h"
#include "server/park_testing.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "store/queries.h"

#define STREAM     "0190a000-0000-7000-8000-000000000011"
#define VERSION_ID "0190a000-0000-7000-8000-0000000000aa"

CHANGE(other_print,
       "UPDATE deployment_sandboxes SET fingerprint = 'other' WHERE deployment_id = $1 "
       "AND sandbox_id = 'box'");
CHANGE(claim_long_ago,
       "UPDATE continuations SET state = 'claimed', updated_ms = 1 WHERE session_id "
       "= $1 AND state = 'accepted'");
CHANGE(declare_secret, "UPDATE deployment_tasks SET secrets = '[{\"name\":\"TOKEN\",\"placement\":"
                       "\"env\",\"target\":\"TOKEN\"}]' WHERE deployment_id = $1 AND task_id = "
                       "'hello'");
CHANGE(set_version, "UPDATE workspaces SET current_version_id = '" VERSION_ID "' WHERE id = $1");
static const struct query state_of = {
    "test_continuation", 1, 1,
    SAME_ON_BOTH("SELECT state FROM continuations WHERE session_id = $1 ORDER BY sequence DESC "
                 "LIMIT 1")};

/* A session and its newest run. */
struct talk {
    struct stage stage;
    struct service *service;
    const char *key, *session, *run, *workspace;
    int64_t sequence;
};

static bool open_session(struct talk *talk, const char *more)
{
    struct service *service = talk->service;
    const char *body =
        arena_printf(&service->arena, "{\"task_id\":\"hello\",\"payload\":{\"n\":1}%s}", more);

    if (service_ask(service, talk->key, "POST", "/api/sessions", body) != 201)
        return false;
    talk->session = service_text(service, "session.id");
    talk->workspace = service_text(service, "session.workspace_id");
    talk->run = service_text(service, "run.id");
    return true;
}

static bool begin(struct service *service, struct talk *talk, const char *more)
{
    *talk = (struct talk){.service = service};
    if (!stage_set(service, &talk->stage))
        return false;
    talk->key = talk->stage.key;
    return open_session(talk, more);
}

static bool finish(struct talk *talk)
{
    return stage_start(&talk->stage, "run") &&
           lease_report(&talk->stage.worker, "succeeded", "") == 200;
}

/* A record is appended: what came of it, or "failed". */
static const char *append_as(struct talk *talk, const char *record)
{
    struct stream_record_ref ref = {talk->session, record, STREAM, ++talk->sequence};
    enum continuation_status status;
    struct wakes wakes = {0};
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin(talk->service->server->store, &tx, &err) ||
        !session_continue(tx, &ref, &status, &wakes, &err) ||
        !hub_commit(&talk->service->server->hub, &tx, &wakes, &err)) {
        printf("# %s\n", err.text);
        return "failed";
    }
    const char *name = continuation_status_name(status);
    return name ? name : "nothing";
}

static const char *append(struct talk *talk)
{
    char record[ID_TEXT];

    id_make(record);
    return append_as(talk, record);
}

static const char *session_text(struct talk *talk, const char *path)
{
    const char *at = arena_printf(&talk->service->arena, "/api/sessions/%s", talk->session);

    return service_ask(talk->service, talk->key, "GET", at, NULL) == 200
               ? service_text(talk->service, path)
               : "";
}

static size_t n_runs(struct talk *talk)
{
    const char *at = arena_printf(&talk->service->arena, "/api/sessions/%s/runs", talk->session);

    return service_ask(talk->service, talk->key, "GET", at, NULL) == 200
               ? json_count(buf_str(&talk->service->answer.body), "runs")
               : 0;
}

static bool change(struct talk *talk, const struct query *query, const char *id)
{
    const struct value params[] = {V_TEXT(id)};

    return service_change(talk->service, query, params, 1, 1);
}

static const char *state(struct talk *talk)
{
    return stage_column(talk->service, &state_of, talk->session);
}

static int finalize(struct talk *talk, const char *outcome)
{
    return lease_post(&talk->stage.worker, "finalize",
                      arena_printf(&talk->service->arena,
                                   ",\"operation_id\":\"0190a000-0000-7000-8000-000000000001\","
                                   "\"outcome\":\"%s\",\"fingerprint\":\"f-%s\"",
                                   outcome, outcome));
}

SERVICE_TEST(a_record_after_the_end_makes_the_next_run)
{
    struct talk talk;
    CHECK(begin(service, &talk,
                ",\"queue\":{\"name\":\"narrow\"},\"concurrency_key\":\"c\",\"priority\":3,"
                "\"ttl\":\"2h\",\"max_duration_seconds\":77,\"retry\":{\"max_attempts\":2},"
                "\"metadata\":{\"m\":1},\"tags\":[\"t\"]"));
    CHECK(finish(&talk) && change(&talk, &set_version, talk.workspace));
    CHECK_STR(append_as(&talk, VERSION_ID), "created");
    const char *next = session_text(&talk, "current_run_id");
    CHECK(strcmp(next, talk.run) != 0);
    CHECK_STR(service_text(service, "activity"), "queued");

    CHECK_STR(run_text(service, talk.key, next, "reason"), "input");
    CHECK_STR(service_text(service, "cause.kind"), "stream_record");
    CHECK_STR(service_text(service, "cause.record_id"), VERSION_ID);
    CHECK_STR(service_text(service, "cause.stream_id"), STREAM);
    CHECK(service_int(service, "cause.sequence") == 1 && service_int(service, "turn_index") == 1);
    CHECK_STR(service_text(service, "previous_run_id"), talk.run);
    CHECK_STR(service_text(service, "session_id"), talk.session);
    CHECK_STR(service_text(service, "workspace_id"), talk.workspace);
    CHECK_STR(service_text(service, "base_version_id"), VERSION_ID);
    CHECK_STR(service_text(service, "queue"), "narrow");
    CHECK_STR(service_text(service, "concurrency_key"), "c");
    CHECK_STR(service_text(service, "ttl"), "2h");
    CHECK_STR(service_text(service, "tags.0"), "t");
    CHECK(service_int(service, "payload.n") == 1 && service_int(service, "priority") == 3 &&
          service_int(service, "max_duration_seconds") == 77 &&
          service_int(service, "retry_policy.max_attempts") == 2 &&
          service_int(service, "metadata.m") == 1);
    const char *events = arena_printf(&service->arena, "/api/runs/%s/events", next);
    CHECK_STATUS(service, service_ask(service, talk.key, "GET", events, NULL), 200);
    CHECK_STR(service_text(service, "events.0.attributes.reason"), "input");
    CHECK_STR(service_text(service, "events.0.attributes.cause.record_id"), VERSION_ID);

    /* The same record again, and one that the new run can read. */
    CHECK_STR(append_as(&talk, VERSION_ID), "duplicate");
    CHECK_STR(append(&talk), "nothing");
    CHECK(finish(&talk) && n_runs(&talk) == 2);
    CHECK_STR(append(&talk), "created");
    CHECK(n_runs(&talk) == 3 && service_int(service, "runs.2.turn_index") == 2);
    CHECK_STR(service_text(service, "runs.2.previous_run_id"), next);
}

SERVICE_TEST(a_failed_or_cancelled_run_can_be_followed)
{
    struct talk talk;
    CHECK(begin(service, &talk, ""));
    CHECK(stage_start(&talk.stage, "run") &&
          lease_report(&talk.stage.worker, "failed", TASK_FAILED) == 200);
    CHECK_STR(append(&talk), "created");
    const char *cancel =
        arena_printf(&service->arena, "/api/runs/%s/cancel", session_text(&talk, "current_run_id"));
    CHECK_STATUS(service, service_ask(service, talk.key, "POST", cancel, ""), 200);
    CHECK_STR(append(&talk), "created");
    CHECK(n_runs(&talk) == 3);
}

SERVICE_TEST(a_record_makes_nothing_while_the_run_can_read_it)
{
    struct talk talk;
    CHECK(begin(service, &talk, ""));
    CHECK_STR(append(&talk), "nothing");
    CHECK(stage_start(&talk.stage, "run"));
    CHECK_STR(append(&talk), "nothing");
    CHECK(stage_open_wait(&talk.stage));
    CHECK_STR(append(&talk), "nothing");
    CHECK(stage_park(&talk.stage));
    CHECK_STR(append(&talk), "nothing");
    CHECK(n_runs(&talk) == 1);
}

SERVICE_TEST(a_session_that_is_over_does_not_go_on)
{
    struct talk talk;
    CHECK(begin(service, &talk, "") && finish(&talk));
    const char *close = arena_printf(&service->arena, "/api/sessions/%s/close", talk.session);
    CHECK_STATUS(service, service_ask(service, talk.key, "POST", close, ""), 200);
    CHECK_STR(append(&talk), "nothing");
    CHECK(n_runs(&talk) == 1);
}

/* The program is gone and its files are being kept: nobody can read the record any more. */
SERVICE_TEST(a_record_between_the_end_of_program_and_run_is_not_lost)
{
    struct talk talk;
    CHECK(begin(service, &talk, "") && stage_start(&talk.stage, "run"));
    CHECK_STATUS(service, finalize(&talk, "succeeded"), 200);
    CHECK_STR(append(&talk), "accepted_run_pending");
    CHECK_STR(append(&talk), "accepted_run_pending");
    CHECK_STR(session_text(&talk, "activity"), "queued");
    CHECK(service_says(service, "\"can_close\":false"));
    sweep_once(service->server);
    CHECK(n_runs(&talk) == 1);
    CHECK_STATUS(service, lease_report(&talk.stage.worker, "succeeded", ""), 200);
    CHECK_STR(session_text(&talk, "activity"), "queued");
    const char *close = arena_printf(&service->arena, "/api/sessions/%s/close", talk.session);
    CHECK_STATUS(service, service_ask(service, talk.key, "POST", close, ""), 409);
    CHECK_STR(service_text(service, "code"), "close_run_active");
    sweep_once(service->server);
    CHECK(n_runs(&talk) == 2);
    CHECK_STR(service_text(service, "runs.1.reason"), "input");
    CHECK(service_int(service, "runs.1.cause.sequence") == 1);
    /* The second is left to the run that the first one made. */
    sweep_once(service->server);
    CHECK_STR(state(&talk), "skipped");
    CHECK(n_runs(&talk) == 2);
}

SERVICE_TEST(a_run_that_is_tried_again_reads_the_record_itself)
{
    struct talk talk;
    CHECK(begin(service, &talk, ",\"retry\":{\"max_attempts\":2}") &&
          stage_start(&talk.stage, "run"));
    CHECK_STATUS(service, finalize(&talk, "failed"), 200);
    CHECK_STR(append(&talk), "accepted_run_pending");
    CHECK_STATUS(service, lease_report(&talk.stage.worker, "failed", TASK_FAILED), 200);
    CHECK_STR(run_text(service, talk.key, talk.run, "status"), "queued");
    sweep_once(service->server);
    CHECK_STR(state(&talk), "skipped");
    CHECK(n_runs(&talk) == 1);
}

SERVICE_TEST(a_session_that_ends_first_drops_what_was_asked)
{
    struct talk talk;
    CHECK(begin(service, &talk, "") && stage_start(&talk.stage, "run"));
    CHECK_STATUS(service, finalize(&talk, "succeeded"), 200);
    CHECK_STR(append(&talk), "accepted_run_pending");
    const char *cancel = arena_printf(&service->arena, "/api/sessions/%s/cancel", talk.session);
    CHECK_STATUS(service, service_ask(service, talk.key, "POST", cancel, ""), 200);
    sweep_once(service->server);
    CHECK_STR(state(&talk), "skipped");
    CHECK(n_runs(&talk) == 1);
}

SERVICE_TEST(a_session_waits_for_its_workspace)
{
    struct talk talk;
    CHECK(begin(service, &talk, "") && finish(&talk));
    struct talk other = talk;
    CHECK(open_session(&other,
                       arena_printf(&service->arena, ",\"workspace_id\":\"%s\"", talk.workspace)));
    CHECK_STR(append(&talk), "accepted_run_pending");
    sweep_once(service->server);
    CHECK(n_runs(&talk) == 1);
    CHECK_STR(session_text(&talk, "activity"), "queued");
    CHECK(finish(&other));
    sweep_once(service->server);
    CHECK(n_runs(&talk) == 2);
    CHECK_STR(state(&talk), "created");
}

SERVICE_TEST(a_claim_whose_server_vanished_is_over_in_a_while)
{
    struct talk talk;
    CHECK(begin(service, &talk, "") && stage_start(&talk.stage, "run"));
    CHECK_STATUS(service, finalize(&talk, "succeeded"), 200);
    CHECK_STR(append(&talk), "accepted_run_pending");
    CHECK_STATUS(service, lease_report(&talk.stage.worker, "succeeded", ""), 200);
    CHECK(change(&talk, &claim_long_ago, talk.session));
    CHECK_STR(session_text(&talk, "activity"), "queued");
    sweep_once(service->server);
    CHECK_STR(state(&talk), "created");
    CHECK(n_runs(&talk) == 2);
}

SERVICE_TEST(the_current_deployment_is_taken_where_it_fits)
{
    struct talk talk;
    CHECK(begin(service, &talk, "") && finish(&talk));
    const char *first = arena_text(&service->arena, str_of(service->deployment_id));
    CHECK(service_build(service, &talk.stage.worker, talk.key));
    const char *second = arena_text(&service->arena, str_of(service->deployment_id));
    CHECK(strcmp(first, second) != 0);
    CHECK_STR(append(&talk), "created");
    CHECK_STR(session_text(&talk, "active_deployment_id"), second);
    CHECK_STR(service_text(service, "initial_deployment_id"), first);
    CHECK_STR(run_text(service, talk.key, session_text(&talk, "current_run_id"), "deployment_id"),
              second);
    CHECK(finish(&talk));

    /* One with another image, say, cannot go on in this workspace. */
    CHECK(service_build(service, &talk.stage.worker, talk.key) &&
          change(&talk, &other_print, service->deployment_id));
    CHECK_STR(append(&talk), "created");
    CHECK_STR(session_text(&talk, "active_deployment_id"), second);
}

SERVICE_TEST(a_run_that_cannot_be_made_is_told_by_the_session)
{
    struct talk talk;
    CHECK(begin(service, &talk, "") && finish(&talk));
    CHECK(change(&talk, &declare_secret, service->deployment_id));
    CHECK_STR(append(&talk), "nothing");
    CHECK_STR(state(&talk), "failed");
    CHECK_STR(session_text(&talk, "error.code"), "secret_missing");
    CHECK_STR(service_text(service, "activity"), "idle");
    CHECK(n_runs(&talk) == 1);

    const char *key = service_make_key(service, OPERATOR ",\"secrets:write\"");
    CHECK_STATUS(service,
                 service_ask(service, key, "PUT", "/api/secrets/TOKEN", "{\"value\":\"v\"}"), 201);
    CHECK_STR(append(&talk), "created");
    CHECK_STR(session_text(&talk, "error.code"), "");
}

struct sender {
    struct talk talk;
    pthread_t thread;
    const char *status;
};

static void *send_one(void *arg)
{
    struct sender *sender = arg;

    sender->status = append(&sender->talk);
    return NULL;
}

SERVICE_TEST(records_at_once_make_one_run)
{
    enum { SENDERS = 6 };
    struct talk talk;
    struct sender senders[SENDERS];
    int made = 0, left = 0;
    CHECK(begin(service, &talk, "") && finish(&talk));
    for (size_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.talk = talk};
        CHECK(pthread_create(&senders[i].thread, NULL, send_one, &senders[i]) == 0);
    }
    for (size_t i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
        made += strcmp(senders[i].status, "created") == 0;
        left += strcmp(senders[i].status, "nothing") == 0;
    }
    CHECK(made == 1 && left == SENDERS - 1);
    CHECK(n_runs(&talk) == 2);
}

static void *sweep(void *arg)
{
    sweep_once(arg);
    return NULL;
}

static bool sweep_both(struct service *first, struct service *second)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, sweep, second->server) != 0)
        return false;
    sweep_once(first->server);
    pthread_join(thread, NULL);
    return true;
}

TEST(two_servers_continue_a_session_once)
{
    enum { SESSIONS = 8 };
    const char *skip = NULL;
    struct service *first = service_start(ON_POSTGRES, &skip);
    if (!first)
        SKIP(skip);
    struct service *second = service_start_beside(first);
    struct talk talks[SESSIONS];
    sweeper_stop(second->server->sweeper);
    second->server->sweeper = NULL;
    bool is_fine = begin(first, &talks[0], "");
    for (size_t i = 0; is_fine && i < SESSIONS; i++) {
        if (i > 0) {
            talks[i] = talks[0];
            is_fine = open_session(&talks[i], "");
        }
        is_fine = is_fine && stage_start(&talks[i].stage, "run") &&
                  finalize(&talks[i], "succeeded") == 200 &&
                  strcmp(append(&talks[i]), "accepted_run_pending") == 0 &&
                  lease_report(&talks[i].stage.worker, "succeeded", "") == 200;
    }
    is_fine = is_fine && sweep_both(first, second);
    for (size_t i = 0; is_fine && i < SESSIONS; i++)
        is_fine = n_runs(&talks[i]) == 2 && strcmp(state(&talks[i]), "created") == 0;
    service_stop(second);
    service_stop(first);
    CHECK(is_fine);
}

/* Whichever comes first, the record is either there before the program's end or continues the
 * session: never neither. */
SERVICE_TEST(a_record_that_races_with_the_end_is_read_or_continues)
{
    enum { TURNS = 12 };
    struct talk talk;
    CHECK(begin(service, &talk, ""));
    for (int turn = 0; turn < TURNS; turn++) {
        struct sender sender = {.talk = talk};
        size_t before = n_runs(&talk);
        CHECK(stage_start(&talk.stage, "run"));
        CHECK(pthread_create(&sender.thread, NULL, send_one, &sender) == 0);
        int reported = lease_report(&talk.stage.worker, "succeeded", "");
        pthread_join(sender.thread, NULL);
        CHECK_STATUS(service, reported, 200);
        sweep_once(service->server);
        bool is_continued = strcmp(sender.status, "nothing") != 0;
        CHECK(strcmp(sender.status, "failed") != 0);
        CHECK(n_runs(&talk) == before + is_continued);
        if (!is_continued)
            CHECK_STR(append(&talk), "created");
    }
}

TEST_MAIN()
