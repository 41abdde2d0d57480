/* How workers are admitted, known and let go, and what they store. */
#include <stdlib.h>

#include "base/json.h"
#include "base/time.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

static const char beat_age[] = "UPDATE workers SET heartbeat_ms = heartbeat_ms - $2 WHERE id = $1";
static const struct query age_worker = {"test_age_worker", 2, 0, SAME_ON_BOTH(beat_age)};

static bool age(struct service *service, const struct test_worker *worker, int64_t ms)
{
    const struct value params[] = {V_TEXT(worker->id), V_INT(ms)};
    return service_change(service, &age_worker, params, 2, 1);
}

SERVICE_TEST(a_worker_is_admitted_by_the_bootstrap_token_only)
{
    struct test_worker worker = {.service = service, .name = "one", .machine = "m"};
    CHECK_STATUS(service, worker_register(&worker, "hlmr_bt_wrong"), 401);
    CHECK_STATUS(service, worker_register(&worker, ""), 401);
    CHECK(worker_join(&worker, service, "one"));
    CHECK(worker.epoch == 1 && strncmp(worker.credential, "hlmr_wrk_", 9) == 0);
    CHECK_STATUS(service, worker_beat_now(&worker, "[]"), 200);
    CHECK_STR(service_text(service, "desired_state"), "active");
}

SERVICE_TEST(a_session_needs_the_credential_of_that_worker)
{
    struct test_worker one = {0}, two = {0};
    CHECK(worker_join(&one, service, "one") && worker_join(&two, service, "two"));
    struct test_worker thief = one;
    memcpy(thief.credential, two.credential, sizeof thief.credential);
    CHECK_STATUS(service, worker_open(&thief), 401);
    thief.credential[12] ^= 1;
    CHECK_STATUS(service, worker_open(&thief), 401);
    CHECK_STATUS(service, worker_beat_now(&one, "[]"), 200);
}

SERVICE_TEST(a_second_machine_cannot_take_a_live_identity)
{
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "one"));
    struct test_worker copy = worker;
    copy.machine = "elsewhere";
    CHECK_STATUS(service, worker_open(&copy), 409);
    CHECK_STR(service_text(service, "code"), "worker_identity_in_use");
    CHECK_STATUS(service, worker_beat_now(&worker, "[]"), 200);

    /* Silent for a minute, it may have moved to another machine. */
    CHECK(age(service, &worker, INT64_C(61) * 1000));
    CHECK_STATUS(service, worker_open(&copy), 200);
    CHECK(copy.epoch > worker.epoch);
    CHECK_STATUS(service, worker_beat_now(&worker, "[]"), 409);
    CHECK_STR(service_text(service, "code"), "epoch_superseded");
}

SERVICE_TEST(a_new_session_ends_the_old_leases_at_once_and_keeps_the_attempt)
{
    const char *key = service_make_key(service, OPERATOR);
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "one") && service_build(service, &worker, key));
    const char *run = service_start_run(service, key, "hello", NULL);
    CHECK(worker_take(&worker, "run"));
    CHECK_STATUS(service, lease_begin(&worker), 200);
    CHECK_STATUS(service, lease_start(&worker), 200);
    struct test_worker old = worker;

    CHECK_STATUS(service, worker_open(&worker), 200);
    CHECK(worker.epoch == old.epoch + 1);
    CHECK_STR(run_text(service, key, run, "execution_status"), "queued");
    CHECK(service_int(service, "attempt_number") == 1);
    CHECK(run_events_of(service, key, run, "run.execution_lost") == 1);

    const char *const verbs[] = {"begin", "release"};
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        CHECK_STATUS(service, lease_post(&old, verbs[i], i ? ",\"reason\":\"r\"" : ""), 409);
        CHECK_STR(service_text(service, "code"), "epoch_superseded");
    }
    CHECK_STATUS(service, worker_poll(&old, "[\"run\"]", &large_room, 0, "[]"), 409);
    CHECK_STR(service_text(service, "code"), "epoch_superseded");
    /* Its bearer is still in its time, and does not help with the new number either. */
    struct test_worker liar = worker;
    memcpy(liar.bearer, old.bearer, sizeof liar.bearer);
    CHECK_STATUS(service, worker_beat_now(&liar, "[]"), 409);
    CHECK_STATUS(service, worker_activate_as(&liar, "microvm"), 409);

    CHECK_STATUS(service, worker_activate_as(&worker, "user-kernel"), 200);
    CHECK(worker_take(&worker, "run"));
    CHECK_STR(worker.subject, run);
    CHECK(worker.attempt == 1 && worker.sequence == old.sequence + 1);
}

SERVICE_TEST(a_forged_or_old_bearer_is_refused)
{
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "one"));
    CHECK_STATUS(service,
                 worker_post(&worker, "bearer",
                             arena_printf(&service->arena,
                                          "{\"worker_id\":\"%s\",\"credential\":\"%s\","
                                          "\"epoch\":1}",
                                          worker.id, worker.credential)),
                 200);
    const char *fresh = service_text(service, "bearer");
    CHECK(service_int(service, "bearer_expires_ms") > time_now_ms() + INT64_C(14) * 60 * 1000);

    struct test_worker forger = worker;
    snprintf(forger.bearer, sizeof forger.bearer, "%s", fresh);
    CHECK_STATUS(service, worker_beat_now(&forger, "[]"), 200);
    for (size_t at = 8; forger.bearer[at]; at += 7) {
        char kept = forger.bearer[at];
        forger.bearer[at] = kept == 'A' ? 'B' : 'A';
        CHECK_STATUS(service, worker_beat_now(&forger, "[]"), 401);
        forger.bearer[at] = kept;
    }
    forger.bearer[strlen(forger.bearer) / 2] = '\0';
    CHECK_STATUS(service, worker_beat_now(&forger, "[]"), 401);
    CHECK_STATUS(service, worker_open(&worker), 200);
    CHECK_STATUS(service,
                 worker_post(&worker, "bearer",
                             arena_printf(&service->arena,
                                          "{\"worker_id\":\"%s\",\"credential\":\"%s\","
                                          "\"epoch\":1}",
                                          worker.id, worker.credential)),
                 409);
    CHECK_STR(service_text(service, "code"), "epoch_superseded");
}

SERVICE_TEST(workers_and_people_have_different_doors)
{
    const char *key = service_make_key(service, OPERATOR);
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "one"));
    CHECK_STATUS(service, service_ask(service, worker.bearer, "GET", "/api/runs", NULL), 401);
    CHECK_STATUS(service, service_ask(service, worker.credential, "GET", "/api/runs", NULL), 401);
    CHECK_STATUS(service, service_ask(service, worker.bearer, "GET", "/api/workers", NULL), 401);
    const char *const tokens[] = {key, service->session, worker.credential, NULL};
    for (size_t i = 0; i < COUNT_OF(tokens); i++)
        CHECK_STATUS(service,
                     service_ask(service, tokens[i], "POST", "/api/worker/poll",
                                 "{\"epoch\":1,\"cursor\":0,\"wait_ms\":0,\"accept\":[]}"),
                     401);
}

SERVICE_TEST(a_draining_worker_gets_nothing_until_it_may_again)
{
    const char *key = service_make_key(service, OPERATOR);
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "one") && service_build(service, &worker, key));
    const char *run = service_start_run(service, key, "hello", NULL);
    const char *drain = arena_printf(&service->arena, "/api/workers/%s/drain", worker.id);
    CHECK_STATUS(service, service_ask(service, service->session, "POST", drain, ""), 200);
    CHECK_STATUS(service, worker_poll(&worker, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 0);
    CHECK_STR(service_text(service, "messages.0.type"), "drain");
    worker.cursor = service_int(service, "cursor");
    CHECK_STATUS(service, worker_beat_now(&worker, "[]"), 200);
    CHECK_STR(service_text(service, "desired_state"), "draining");

    /* It stays so over a new start. */
    CHECK_STATUS(service, worker_open(&worker), 200);
    CHECK_STATUS(service, worker_activate_as(&worker, "user-kernel"), 200);
    CHECK_STR(service_text(service, "state"), "draining");
    const char *undrain = arena_printf(&service->arena, "/api/workers/%s/undrain", worker.id);
    CHECK_STATUS(service, service_ask(service, service->session, "POST", undrain, ""), 200);
    CHECK(worker_take(&worker, "run"));
    CHECK_STR(worker.subject, run);
}

SERVICE_TEST(a_message_is_kept_until_it_is_acknowledged_and_no_longer)
{
    static const char sql[] = "DELETE FROM worker_messages WHERE worker_id = $1";
    static const struct query remove = {"test_remove_messages", 1, 0, SAME_ON_BOTH(sql)};
    struct test_worker worker = {0};
    CHECK(service_sign_in(service) && worker_join(&worker, service, "one"));
    const char *drain = arena_printf(&service->arena, "/api/workers/%s/drain", worker.id);
    CHECK_STATUS(service, service_ask(service, service->session, "POST", drain, ""), 200);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service, worker_poll(&worker, "[]", &large_room, 0, "[]"), 200);
        CHECK(json_count(buf_str(&service->answer.body), "messages") == 1);
    }
    worker.cursor = service_int(service, "cursor");
    CHECK_STATUS(service, worker_poll(&worker, "[]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "messages") == 0);
    CHECK(service_change(service, &remove, &V_TEXT(worker.id), 1, 0));

    const char *undrain = arena_printf(&service->arena, "/api/workers/%s/undrain", worker.id);
    CHECK_STATUS(service, service_ask(service, service->session, "POST", undrain, ""), 200);
    CHECK_STATUS(service, worker_open(&worker), 200);
    CHECK_STATUS(service, worker_poll(&worker, "[]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "messages") == 0);
}

SERVICE_TEST(a_lease_the_server_does_not_know_is_named_in_the_heartbeat)
{
    const char *key = service_make_key(service, OPERATOR);
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "one") && service_build(service, &worker, key));
    service_start_run(service, key, "hello", NULL);
    CHECK(worker_take(&worker, "run"));
    const char *instances = arena_printf(
        &service->arena,
        "[{\"instance_id\":\"a\",\"lease_id\":\"%s\",\"sequence\":1,\"state\":\"running\"},"
        "{\"instance_id\":\"b\",\"lease_id\":\"stranger\",\"sequence\":1,\"state\":\"running\"}]",
        worker.lease);
    CHECK_STATUS(service, worker_beat_now(&worker, instances), 200);
    CHECK(json_count(buf_str(&service->answer.body), "unknown_leases") == 1);
    CHECK_STR(service_text(service, "unknown_leases.0"), "stranger");
}

static int put(struct test_worker *worker, const char *name, const char *bytes)
{
    const struct http_request request = {
        .method = "PUT",
        .path = arena_printf(&worker->service->arena, "/api/worker/objects/%s", name),
        .content_type = "application/octet-stream",
        .body = str_of(bytes),
    };
    return service_send(worker->service, worker->bearer, &request);
}

static int get(struct test_worker *worker, const char *name)
{
    const char *path = arena_printf(&worker->service->arena, "/api/worker/objects/%s", name);
    return service_ask(worker->service, worker->bearer, "GET", path, NULL);
}

SERVICE_TEST(an_object_is_known_by_its_digest)
{
    static const char hello[] = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "one"));
    CHECK_STATUS(service, get(&worker, hello), 404);
    CHECK_STATUS(service, put(&worker, hello, "hullo"), 400);
    CHECK_STR(service_text(service, "code"), "content_hash_mismatch");
    CHECK_STATUS(service, get(&worker, hello), 404);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(service, put(&worker, hello, "hello"), 200);
    CHECK_STATUS(service, get(&worker, hello), 200);
    CHECK(str_equal(buf_str(&service->answer.body), STR("hello")));
    CHECK_STATUS(service, put(&worker, empty, ""), 200);
    CHECK_STATUS(service, get(&worker, empty), 200);
    CHECK(service->answer.body.len == 0);

    const char *const names[] = {"hello", "2CF24DBA", "..%2f..%2fhelmr.db", "%2e%2e"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CHECK_STATUS(service, get(&worker, names[i]), 404);
        CHECK(put(&worker, names[i], "hello") >= 400);
    }
    struct test_worker old = worker;
    CHECK_STATUS(service, worker_open(&worker), 200);
    CHECK_STATUS(service, get(&old, hello), 409);
    CHECK_STR(service_text(service, "code"), "epoch_superseded");
}

SERVICE_TEST(a_paused_group_is_given_nothing_until_it_is_active_again)
{
    struct test_worker worker = {0};
    struct error err;
    CHECK(service_deploy(service, &err) && worker_join(&worker, service, "w"));
    CHECK(service_sign_in(service));
    const char *session = service->session;
    CHECK_STATUS(service, service_ask(service, session, "GET", "/api/worker-groups", NULL), 200);
    CHECK_STR(service_text(service, "worker_groups.0.name"), "default");
    CHECK(service_int(service, "worker_groups.0.workers") == 1);
    CHECK_STATUS(service,
                 service_ask(service, session, "POST", "/api/worker-groups/none/pause", ""), 404);
    CHECK_STATUS(service,
                 service_ask(service, session, "POST", "/api/worker-groups/default/pause", ""),
                 200);
    CHECK_STR(service_text(service, "state"), "paused");
    CHECK(*service_create_run(service, session));
    CHECK_STATUS(service, worker_poll(&worker, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 0);
    CHECK_STATUS(service,
                 service_ask(service, session, "POST", "/api/worker-groups/default/activate", ""),
                 200);
    CHECK_STR(service_text(service, "state"), "active");
    CHECK_STATUS(service, worker_poll(&worker, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 1);
}

SERVICE_TEST(a_worker_is_disabled_only_when_it_is_drained)
{
    struct test_worker worker = {0};
    CHECK(worker_join(&worker, service, "w") && service_sign_in(service));
    const char *session = service->session;
    const char *path = arena_printf(&service->arena, "/api/workers/%s", worker.id);
#define VERB(verb) arena_printf(&service->arena, "%s/" verb, path)
    CHECK_STATUS(service, service_ask(service, session, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "state"), "active");
    CHECK_STATUS(service, service_ask(service, session, "POST", VERB("disable"), ""), 409);
    CHECK_STATUS(service, service_ask(service, session, "POST", VERB("drain"), ""), 200);
    CHECK_STR(service_text(service, "resource_id"), "w");
    CHECK_STATUS(service, service_ask(service, session, "POST", VERB("disable"), ""), 200);
    CHECK_STR(service_text(service, "state"), "disabled");
    CHECK_STATUS(service, worker_poll(&worker, "[\"run\"]", &large_room, 0, "[]"), 409);
    CHECK_STATUS(service,
                 service_ask(service, session, "GET",
                             "/api/workers/01981f4e-0000-7000-8000-000000000000", NULL),
                 404);
}

TEST_MAIN()
