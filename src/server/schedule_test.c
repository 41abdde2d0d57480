/* Schedules as the API shows them, and what time makes of them. The tests hand the time to the
 * scheduler, some of it far ahead of the server's own. */
#include "server/schedule_store.h"

#include "base/json.h"
#include "base/time.h"
#include "server/input.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define NIGHTLY "\"task\":\"hello\",\"cron\":\"0 3 * * *\""

/* A number about the row with this id. */
#define NUMBER(name, sql) static const struct query name = {"test_" #name, 1, 1, SAME_ON_BOTH(sql)}

NUMBER(fires_of, "SELECT count(*) FROM schedule_fires WHERE schedule_id = $1");
NUMBER(failures_of, "SELECT failures FROM schedules WHERE id = $1");
NUMBER(due_of, "SELECT due_ms FROM schedules WHERE id = $1");
NUMBER(next_of, "SELECT next_fire_ms FROM schedules WHERE id = $1");
NUMBER(runs_in, "SELECT count(*) FROM runs WHERE environment_id = $1 AND reason = 'schedule'");
NUMBER(left_in, "SELECT count(*) FROM schedules WHERE environment_id = $1");

CHANGE(lose_task, "UPDATE deployment_tasks SET task_id = 'gone' WHERE deployment_id = $1 "
                  "AND task_id = 'hello'");

static int64_t number(struct service *service, const struct query *query, const char *id)
{
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(service->server->store, &tx, &err) ||
        !STORE(tx, query, &service->arena, &rows, &err, V_TEXT(id)) || rows.n_rows != 1)
        return -1;
    return row_int(&rows, 0, 0);
}

static const char *prepare(struct service *service)
{
    struct error err;

    return service_deploy(service, &err) ? service_make_key(service, OPERATOR ",\"secrets:write\"")
                                         : "";
}

/* POST with the key and these members: the id, or "". */
static const char *create(struct service *service, const char *key, const char *name,
                          const char *members)
{
    const char *body =
        arena_printf(&service->arena, "{\"deduplication_key\":\"%s\",%s}", name, members);
    int status = service_ask(service, key, "POST", "/api/schedules", body);

    if (status == 201 || status == 200)
        return service_text(service, "id");
    printf("# %d %.*s\n", status, (int)service->answer.body.len, service->answer.body.bytes);
    return "";
}

static const char *path_of(struct service *service, const char *id, const char *verb)
{
    return arena_printf(&service->arena, "/api/schedules/%s%s", id, verb);
}

static const char *text_of(struct service *service, const char *key, const char *id,
                           const char *field)
{
    return service_ask(service, key, "GET", path_of(service, id, ""), NULL) == 200
               ? service_text(service, field)
               : "gone";
}

/* The newest run, in the service's answer; its id. */
static const char *newest_run(struct service *service, const char *key)
{
    if (service_ask(service, key, "GET", "/api/runs?limit=1", NULL) != 200)
        return "";
    return arena_printf(&service->arena, "%s", service_text(service, "runs.0.id"));
}

static int64_t instant(const char *text)
{
    struct error err;
    int64_t ms;

    return time_parse(str_of(text), &ms, &err) ? ms : -1;
}

SERVICE_TEST(a_schedule_is_what_was_asked_for)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "nightly",
                            NIGHTLY ",\"timezone\":\"Europe/Berlin\",\"external_id\":\"cust-1\","
                                    "\"secret_bindings\":{\"TOKEN\":\"vault:OTHER\"},"
                                    "\"options\":{\"priority\":5,\"queue\":{\"name\":\"narrow\"}}");
    CHECK(*id);
    CHECK(service->answer.status == 201);
    CHECK_STR(service_text(service, "type"), "imperative");
    CHECK_STR(service_text(service, "deduplication_key"), "nightly");
    CHECK_STR(service_text(service, "task"), "hello");
    CHECK_STR(service_text(service, "cron"), "0 3 * * *");
    CHECK_STR(service_text(service, "timezone"), "Europe/Berlin");
    CHECK_STR(service_text(service, "external_id"), "cust-1");
    CHECK_STR(service_text(service, "status"), "active");
    CHECK_STR(service_text(service, "secret_bindings.TOKEN"), "vault:OTHER");
    CHECK_STR(service_text(service, "options.queue.name"), "narrow");
    CHECK(service_int(service, "options.priority") == 5);
    CHECK(json_count(buf_str(&service->answer.body), "upcoming") == SCHEDULE_UPCOMING);
    CHECK_STR(service_text(service, "upcoming.0"), service_text(service, "next_fire_at"));
    CHECK(instant(service_text(service, "next_fire_at")) > time_now_ms());
    CHECK_STR(service_text(service, "last_fire_at"), "");

    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/schedules", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "schedules") == 1);
    CHECK_STR(service_text(service, "schedules.0.id"), id);
}

SERVICE_TEST(the_same_key_is_the_same_schedule)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "nightly", NIGHTLY);
    int64_t next = number(service, &next_of, id);
    CHECK_STR(create(service, key, "nightly", NIGHTLY ",\"options\":{\"priority\":9}"), id);
    CHECK(service->answer.status == 200);
    CHECK(number(service, &next_of, id) == next);
    CHECK_STR(create(service, key, "nightly", "\"task\":\"plain\",\"cron\":\"5 4 * * *\""), id);
    CHECK_STR(service_text(service, "task"), "plain");
    CHECK_STR(service_text(service, "options.priority"), "");
    CHECK(strcmp(create(service, key, "other", NIGHTLY), id) != 0);

    CHECK_STATUS(service,
                 service_ask(service, key, "PUT", path_of(service, id, ""),
                             "{" NIGHTLY ",\"timezone\":\"Asia/Tokyo\"}"),
                 200);
    CHECK_STR(service_text(service, "timezone"), "Asia/Tokyo");
    CHECK_STATUS(service, service_ask(service, key, "DELETE", path_of(service, id, ""), NULL), 204);
    CHECK_STR(text_of(service, key, id, "id"), "gone");
    CHECK_STATUS(service, service_ask(service, key, "DELETE", path_of(service, id, ""), NULL), 404);
}

SERVICE_TEST(what_cannot_fire_is_refused)
{
    static const struct {
        const char *members, *code;
        int status;
    } rows[] = {
        {"\"task\":\"hello\",\"cron\":\"0 3 * *\"",                    "cron_invalid",              400},
        {"\"task\":\"hello\",\"cron\":\"0 0 30 2 *\"",                 "cron_invalid",              400},
        {NIGHTLY ",\"timezone\":\"Mars/Olympus\"",                     "timezone_invalid",          400},
        {NIGHTLY ",\"timezone\":\"../../etc/passwd\"",                 "timezone_invalid",          400},
        {NIGHTLY ",\"timezone\":\"\"",                                 "timezone_invalid",          400},
        {"\"task\":\"none\",\"cron\":\"0 3 * * *\"",                   "task_not_found",            404},
        {"\"task\":\"a b\",\"cron\":\"0 3 * * *\"",                    "invalid_request",           400},
        {"\"task\":\"hello\"",                                         "invalid_request",           400},
        {NIGHTLY ",\"status\":\"errored\"",                            "invalid_request",           400},
        {NIGHTLY ",\"external_id\":\" x\"",                            "invalid_request",           400},
        {NIGHTLY ",\"payload\":{}",                                    "unknown_field",             400},
        {NIGHTLY ",\"options\":{\"tags\":[\"x\"]}",                    "unknown_field",             400},
        {NIGHTLY ",\"options\":{\"priority\":100000}",                 "invalid_request",           400},
        {NIGHTLY ",\"options\":{\"queue\":{\"name\":\"undeclared\"}}", "queue_not_declared",        409},
        {NIGHTLY ",\"options\":{\"deployment_id\":\"20990101.1\"}",    "not_found",                 404},
        {NIGHTLY ",\"secret_bindings\":{\"TOKEN\":\"env:HOME\"}",      "secret_source_unsupported", 400},
    };
    const char *key = prepare(service);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *body =
            arena_printf(&service->arena, "{\"deduplication_key\":\"k\",%s}", rows[i].members);
        CHECK_STATUS(service, service_ask(service, key, "POST", "/api/schedules", body),
                     rows[i].status);
        CHECK_STR(service_text(service, "code"), rows[i].code);
    }
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/schedules", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "schedules") == 0);
}

SERVICE_TEST(an_update_names_no_key_and_stays_in_its_environment)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "nightly", NIGHTLY ",\"external_id\":\"one\"");
    CHECK_STATUS(service,
                 service_ask(service, key, "PUT", path_of(service, id, ""),
                             "{\"deduplication_key\":\"nightly\"," NIGHTLY "}"),
                 400);
    CHECK_STR(service_text(service, "code"), "unknown_field");
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", "/api/schedules",
                             "{\"deduplication_key\":\"b\",\"external_id\":\"one\"," NIGHTLY "}"),
                 409);
    const char *staging =
        arena_printf(&service->arena, "/api/projects/main/environments/staging/schedules/%s", id);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", staging, NULL), 404);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/schedules/no-id", NULL), 404);

    const char *reader = service_make_key(service, "\"runs:read\"");
    CHECK_STATUS(service, service_ask(service, reader, "GET", path_of(service, id, ""), NULL), 200);
    CHECK_STATUS(service, service_ask(service, reader, "DELETE", path_of(service, id, ""), NULL),
                 403);
}

SERVICE_TEST(a_due_slot_starts_one_run)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", NIGHTLY ",\"external_id\":\"cust-1\"");
    int64_t slot = number(service, &next_of, id);
    schedules_fire(service->server, slot - 1);
    CHECK(number(service, &fires_of, id) == 0);
    for (int i = 0; i < 3; i++)
        schedules_fire(service->server, slot + INT64_C(1000) * i);
    CHECK(number(service, &fires_of, id) == 1 &&
          number(service, &runs_in, service->environment_id) == 1);
    CHECK(number(service, &next_of, id) == slot + DAY_MS);

    char at[TIME_TEXT_MAX];
    const char *run = newest_run(service, key);
    CHECK_STR(run_text(service, key, run, "reason"), "schedule");
    CHECK_STR(service_text(service, "cause.kind"), "schedule");
    CHECK_STR(service_text(service, "cause.schedule_id"), id);
    CHECK_STR(service_text(service, "cause.fire_at"), time_format(slot, at));
    CHECK_STR(service_text(service, "payload.timestamp"), at);
    CHECK_STR(service_text(service, "payload.lastTimestamp"), "");
    CHECK_STR(service_text(service, "payload.timezone"), "UTC");
    CHECK_STR(service_text(service, "payload.scheduleId"), id);
    CHECK_STR(service_text(service, "payload.scheduleType"), "imperative");
    CHECK_STR(service_text(service, "payload.externalId"), "cust-1");
    CHECK_STR(service_text(service, "payload.upcoming.0"), time_format(slot + DAY_MS, at));
    CHECK(json_count(buf_str(&service->answer.body), "payload.upcoming") == 5);

    const char *events = arena_printf(&service->arena, "/api/runs/%s/events", run);
    CHECK_STATUS(service, service_ask(service, key, "GET", events, NULL), 200);
    CHECK_STR(service_text(service, "events.0.kind"), "run.created");
    CHECK_STR(service_text(service, "events.0.source"), "scheduler");
    CHECK_STR(service_text(service, "events.0.attributes.reason"), "schedule");
    CHECK_STR(service_text(service, "events.0.attributes.cause.schedule_id"), id);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET", "/api/audit?action=run.create",
                             NULL),
                 200);
    CHECK_STR(service_text(service, "entries.0.actor.type"), "system");
    CHECK_STR(service_text(service, "entries.0.actor.id"), id);
    CHECK_STR(service_text(service, "entries.0.subject"), run);

    schedules_fire(service->server, slot + DAY_MS);
    run = newest_run(service, key);
    CHECK_STR(run_text(service, key, run, "payload.lastTimestamp"), time_format(slot, at));
}

SERVICE_TEST(after_a_downtime_the_latest_slot_fires_once)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", "\"task\":\"hello\",\"cron\":\"*/10 * * * *\"");
    int64_t slot = number(service, &next_of, id), minute = 60000;
    schedules_fire(service->server, slot + 25 * minute);
    schedules_fire(service->server, slot + 25 * minute + 1000);
    CHECK(number(service, &fires_of, id) == 1);
    char at[TIME_TEXT_MAX];
    CHECK_STR(run_text(service, key, newest_run(service, key), "payload.timestamp"),
              time_format(slot + 20 * minute, at));
    CHECK(number(service, &next_of, id) == slot + 30 * minute);
    schedules_fire(service->server, slot + 30 * minute);
    CHECK(number(service, &fires_of, id) == 2);
}

SERVICE_TEST(one_that_is_off_fires_nothing)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", NIGHTLY ",\"status\":\"inactive\"");
    CHECK_STR(service_text(service, "status"), "inactive");
    CHECK_STR(service_text(service, "next_fire_at"), "");
    CHECK(json_count(buf_str(&service->answer.body), "upcoming") == 0);
    schedules_fire(service->server, time_now_ms() + 10 * DAY_MS);
    CHECK(number(service, &fires_of, id) == 0);

    /* An update leaves it off. */
    CHECK_STR(create(service, key, "k", "\"task\":\"hello\",\"cron\":\"0 4 * * *\""), id);
    CHECK_STR(service_text(service, "status"), "inactive");

    CHECK_STATUS(service, service_ask(service, key, "POST", path_of(service, id, "/activate"), ""),
                 200);
    CHECK_STR(service_text(service, "status"), "active");
    int64_t slot = number(service, &next_of, id);
    CHECK(slot > time_now_ms());
    CHECK_STATUS(service, service_ask(service, key, "POST", path_of(service, id, "/activate"), ""),
                 200);
    CHECK(number(service, &next_of, id) == slot);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service,
                     service_ask(service, key, "POST", path_of(service, id, "/deactivate"), ""),
                     200);
        CHECK_STR(service_text(service, "status"), "inactive");
    }
    schedules_fire(service->server, slot);
    CHECK(number(service, &fires_of, id) == 0);
}

SERVICE_TEST(a_start_is_tried_ten_times_and_then_the_slot_is_skipped)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", "\"task\":\"secretive\",\"cron\":\"0 3 * * *\"");
    CHECK(*id);
    int64_t slot = number(service, &next_of, id), due = number(service, &due_of, id);
    for (int i = 1; i < 10; i++) {
        schedules_fire(service->server, due);
        schedules_fire(service->server, due);
        CHECK(number(service, &failures_of, id) == i && number(service, &next_of, id) == slot);
        CHECK(number(service, &due_of, id) > due);
        due = number(service, &due_of, id);
    }
    CHECK(strstr(text_of(service, key, id, "last_error"), "secret"));
    CHECK_STR(service_text(service, "status"), "active");
    schedules_fire(service->server, due);
    CHECK(number(service, &next_of, id) == slot + DAY_MS && number(service, &failures_of, id) == 0);
    CHECK(number(service, &fires_of, id) == 0);

    CHECK_STATUS(service,
                 service_ask(service, key, "PUT", "/api/secrets/TOKEN", "{\"value\":\"x\"}"), 201);
    schedules_fire(service->server, slot + DAY_MS);
    CHECK(number(service, &fires_of, id) == 1);
    CHECK_STR(text_of(service, key, id, "last_error"), "");
}

SERVICE_TEST(one_that_failed_gives_way_to_the_next_slot)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", "\"task\":\"secretive\",\"cron\":\"* * * * *\"");
    int64_t slot = number(service, &next_of, id);
    for (int i = 0; i < 3; i++)
        schedules_fire(service->server, slot + INT64_C(5000) * i);
    CHECK(number(service, &failures_of, id) == 3);
    schedules_fire(service->server, slot + 60000);
    CHECK(number(service, &next_of, id) == slot + 60000 && number(service, &failures_of, id) == 1);
}

SERVICE_TEST(a_task_without_a_payload_is_started_without_one)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", "\"task\":\"plain\",\"cron\":\"0 3 * * *\"");
    schedules_fire(service->server, number(service, &next_of, id));
    CHECK(number(service, &fires_of, id) == 1);
    CHECK_STR(run_text(service, key, newest_run(service, key), "task_id"), "plain");
    CHECK(json_count(buf_str(&service->answer.body), "payload") == 0);
}

SERVICE_TEST(one_whose_task_is_gone_is_errored_and_others_fire)
{
    const char *key = prepare(service);
    const char *lost = create(service, key, "lost", NIGHTLY);
    const char *fine = create(service, key, "fine", "\"task\":\"plain\",\"cron\":\"0 3 * * *\"");
    CHECK(service_change(service, &lose_task, &V_TEXT(service->deployment_id), 1, 1));
    int64_t slot = number(service, &next_of, lost);
    schedules_fire(service->server, slot);
    CHECK_STR(text_of(service, key, lost, "status"), "errored");
    CHECK(*service_text(service, "last_error"));
    CHECK_STR(service_text(service, "next_fire_at"), "");
    CHECK(number(service, &fires_of, fine) == 1 && number(service, &fires_of, lost) == 0);

    CHECK_STATUS(service,
                 service_ask(service, key, "POST", path_of(service, lost, "/activate"), ""), 404);
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", path_of(service, lost, "/deactivate"), ""), 409);
    CHECK_STATUS(service,
                 service_ask(service, key, "PUT", path_of(service, lost, ""),
                             "{\"task\":\"plain\",\"cron\":\"0 3 * * *\"}"),
                 200);
    CHECK_STR(service_text(service, "status"), "active");
    CHECK_STR(service_text(service, "last_error"), "");
}

CHANGE(record_slot,
       "INSERT INTO schedule_fires (schedule_id, generation, fire_ms, run_id, created_ms) "
       "SELECT id, generation, next_fire_ms, 'another', 1 FROM schedules WHERE id = $1");

SERVICE_TEST(a_slot_that_is_recorded_starts_nothing)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", NIGHTLY);
    int64_t slot = number(service, &next_of, id);
    CHECK(service_change(service, &record_slot, &V_TEXT(id), 1, 1));
    schedules_fire(service->server, slot);
    CHECK(number(service, &runs_in, service->environment_id) == 0);
    CHECK(number(service, &next_of, id) == slot + DAY_MS);
}

/* From now on a second run of the task cannot be written. */
static bool refuse_plain(struct service *service)
{
    static const char sql[] = "CREATE UNIQUE INDEX one_plain ON runs (task_id) "
                              "WHERE task_id = 'plain'";
    static const struct query query = {"test_refuse_plain", 0, 0, SAME_ON_BOTH(sql)};
    struct error err;
    AUTO_TX tx = NULL;

    return store_begin(service->server->store, &tx, &err) &&
           store_run(tx, &query, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err);
}

SERVICE_TEST(one_that_cannot_be_written_holds_up_no_other)
{
    const char *key = prepare(service);
    const char *stuck = create(service, key, "stuck", "\"task\":\"plain\",\"cron\":\"0 3 * * *\"");
    const char *fine = create(service, key, "fine", NIGHTLY);
    CHECK(*service_start_run(service, key, "plain", NULL));
    CHECK(refuse_plain(service));
    schedules_fire(service->server, number(service, &next_of, fine));
    CHECK(number(service, &fires_of, fine) == 1);
    CHECK(number(service, &fires_of, stuck) == 0 && number(service, &failures_of, stuck) == 1);
    CHECK_STR(text_of(service, key, stuck, "status"), "active");
    CHECK(*service_text(service, "last_error"));
}

SERVICE_TEST(the_offset_of_a_schedule_is_its_own_and_stays)
{
    struct server_config config = *service->server->config;
    const struct server_config *own = service->server->config;
    char ids[64][ID_TEXT];
    int64_t most = 0;

    config.schedule_jitter_ms = 30000;
    service->server->config = &config;
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        id_make(ids[i]);
        int64_t jitter = schedule_jitter(service->server, ids[i]);
        CHECK(jitter >= 0 && jitter < 30000);
        CHECK(schedule_jitter(service->server, ids[i]) == jitter);
        most = jitter > most ? jitter : most;
    }
    service->server->config = own;
    CHECK(most > 10000);
}

SERVICE_TEST(the_runs_of_a_deleted_schedule_stay)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", NIGHTLY);
    schedules_fire(service->server, number(service, &next_of, id));
    CHECK(number(service, &left_in, service->environment_id) == 1);
    CHECK(number(service, &fires_of, id) == 1);
    CHECK_STATUS(service, service_ask(service, key, "DELETE", path_of(service, id, ""), NULL), 204);
    CHECK(number(service, &left_in, service->environment_id) == 0);
    CHECK(number(service, &fires_of, id) == 0);
    CHECK(number(service, &runs_in, service->environment_id) == 1);
}

CHANGE(move_schedule, "UPDATE schedules SET environment_id = $1");

SERVICE_TEST(schedules_go_with_their_environment)
{
    const char *key = prepare(service);
    const char *id = create(service, key, "k", NIGHTLY);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "POST", "/api/projects/main/environments",
                             "{\"name\":\"Brief\"}"),
                 201);
    const char *brief = arena_printf(&service->arena, "%s", service_text(service, "id"));
    CHECK(service_change(service, &move_schedule, &V_TEXT(brief), 1, 1));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "DELETE",
                             "/api/projects/main/environments/brief", NULL),
                 204);
    CHECK(number(service, &left_in, brief) == 0 && number(service, &fires_of, id) == 0);
}

TEST_MAIN()
