#include <pthread.h>

#include "base/json.h"
#include "server/run_store.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define ALL_OF_RUNS "\"runs:create\",\"runs:read\",\"runs:manage\""

static const char *prepare(struct service *service)
{
    struct error err;
    return service_deploy(service, &err) ? service_make_key(service, ALL_OF_RUNS) : "";
}

static const char *path_of(struct service *service, const char *run, const char *rest)
{
    return arena_printf(&service->arena, "/api/runs/%s%s", run, rest);
}

SERVICE_TEST(a_run_is_created_queued_and_read_back_the_same)
{
    const char *key = prepare(service);
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", "/api/runs",
                             "{\"task_id\":\"hello\",\"payload\":{\"b\":1,\"a\":[2]},\"options\":{"
                             "\"priority\":5,\"ttl\":\"1h30m\",\"tags\":[\"x\"],\"metadata\":{"
                             "\"k\":true},\"max_duration_seconds\":60,\"queue\":{\"name\":"
                             "\"narrow\"},\"concurrency_key\":\"c\",\"retry\":{\"max_attempts\":2"
                             "}}}"),
                 201);
    const char *id = service_text(service, "id");
    CHECK_STR(service_text(service, "status"), "queued");
    CHECK_STR(service_text(service, "execution_status"), "queued");
    CHECK_STR(service_text(service, "ttl"), "1h30m");
    CHECK_STR(service_text(service, "queue"), "narrow");
    CHECK(service_int(service, "retry_policy.max_attempts") == 2);
    CHECK(service_int(service, "priority") == 5);
    struct buf created = service->answer.body;
    service->answer.body = (struct buf){0};

    CHECK_STATUS(service, service_ask(service, key, "GET", path_of(service, id, ""), NULL), 200);
    CHECK_STR(service_text(service, "queued_reason"), "no_worker");
    /* Equal but for the reason, which only a later look can know. */
    char *got = arena_text(&service->arena, buf_str(&service->answer.body));
    char *reason = strstr(got, "\"queued_reason\":\"no_worker\",");
    CHECK(reason);
    memmove(reason, reason + 28, strlen(reason + 28) + 1);
    CHECK_STR(got, arena_text(&service->arena, buf_str(&created)));
    buf_finish(&created);
}

SERVICE_TEST(a_run_that_no_worker_has_room_for_says_so)
{
    CHANGE(grow, "UPDATE shapes SET cpu_millis = 65000 WHERE id = "
                 "(SELECT shape_id FROM ready WHERE subject_id = $1)");
    struct test_worker worker = {0};
    const char *key = prepare(service), *id = service_create_run(service, key);
    CHECK(worker_join(&worker, service, "one"));
    CHECK_STATUS(service, service_ask(service, key, "GET", path_of(service, id, ""), NULL), 200);
    CHECK_STR(service_text(service, "queued_reason"), "no_capacity");
    CHECK_STR(service_text(service, "queued_detail"), "");
    CHECK(service_change(service, &grow, &V_TEXT(id), 1, 1));
    CHECK_STATUS(service, service_ask(service, key, "GET", path_of(service, id, ""), NULL), 200);
    CHECK_STR(service_text(service, "queued_reason"), "no_compatible_worker");
    CHECK(!strncmp(service_text(service, "queued_detail"),
                   "no worker is large enough: it needs 65 vCPU, ", 45));
}

SERVICE_TEST(creating_a_run_writes_everything_that_belongs_to_it)
{
    struct error err;
    const char *key = prepare(service);
    const char *id = service_create_run(service, key);
    CHECK_STATUS(service, service_ask(service, key, "GET", path_of(service, id, "/events"), NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "events") == 1);
    CHECK_STR(service_text(service, "events.0.kind"), "run.created");
    CHECK_STR(service_text(service, "events.0.attributes.task_id"), "hello");
    CHECK_STR(service_text(service, "events.0.attributes.payload.name"), "you");
    CHECK_STR(service_text(service, "cursor"), "1");

    struct rows rows;
    AUTO_TX tx = NULL;
    static const struct query in_queue = {
        "in_queue", 1, 0,
        "SELECT count(*) FROM ready y JOIN sessions s ON s.current_run_id = y.subject_id "
        "JOIN workspaces w ON w.id = s.workspace_id WHERE y.subject_id = $1",
        "SELECT count(*) FROM ready y JOIN sessions s ON s.current_run_id = y.subject_id "
        "JOIN workspaces w ON w.id = s.workspace_id WHERE y.subject_id = $1"};
    CHECK(store_begin_read(service->server->store, &tx, &err));
    CHECK(STORE(tx, &in_queue, &service->arena, &rows, &err, V_TEXT(id)));
    CHECK(row_int(&rows, 0, 0) == 1);
}

SERVICE_TEST(a_start_that_cannot_be_says_why_and_changes_nothing)
{
    const char *key = prepare(service);
    static const struct {
        const char *body;
        int status;
        const char *code;
    } cases[] = {
        {"",                                                                       400, "invalid_json"             },
        {"[]",                                                                     400, "invalid_request"          },
        {"{\"task_id\":\"hello\"} x",                                              400, "invalid_json"             },
        {"{\"task_id\":\"hello\",\"task_id\":\"hello\"}",                          400, "invalid_json"             },
        {"{\"task_id\":\"hello\",\"nothing\":1}",                                  400, "unknown_field"            },
        {"{\"task_id\":\"hello\",\"options\":{\"nothing\":1}}",                    400, "unknown_field"            },
        {"{}",                                                                     400, "invalid_request"          },
        {"{\"task_id\":7}",                                                        400, "invalid_request"          },
        {"{\"task_id\":\"no spaces\"}",                                            400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"options\":{\"priority\":86401}}",               400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"options\":{\"ttl\":\"soon\"}}",                 400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"options\":{\"ttl\":0}}",                        400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"options\":{\"ttl\":\"366d\"}}",                 400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"options\":{\"max_duration_seconds\":4}}",       400,
         "invalid_request"                                                                                         },
        {"{\"task_id\":\"hello\",\"options\":{\"metadata\":[]}}",                  400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"options\":{\"tags\":[\"\"]}}",                  400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"options\":{\"retry\":{\"max_attempts\":11}}}",  400,
         "invalid_request"                                                                                         },
        {"{\"task_id\":\"hello\",\"options\":{\"idempotency_key\":\" x\"}}",       400,
         "invalid_request"                                                                                         },
        {"{\"task_id\":\"hello\",\"secrets\":{\"A\":\"env:B\"}}",                  400, "secret_source_unsupported"},
        {"{\"task_id\":\"secretive\"}",                                            422, "secret_missing"           },
        {"{\"task_id\":\"plain\",\"payload\":{\"a\":1}}",                          400, "payload_not_accepted"     },
        {"{\"task_id\":\"unheard\"}",                                              404, "task_not_found"           },
        {"{\"task_id\":\"hello\",\"options\":{\"queue\":{\"name\":\"wide\"}}}",    409,
         "queue_not_declared"                                                                                      },
        {"{\"task_id\":\"hello\",\"options\":{\"deployment_id\":\"20250101.1\"}}", 404,
         "not_found"                                                                                               },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_STATUS(service, service_ask(service, key, "POST", "/api/runs", cases[i].body),
                     cases[i].status);
        CHECK_STR(service_text(service, "code"), cases[i].code);
        CHECK(*service_text(service, "error"));
    }
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs?status=all", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 0);
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", "/api/runs",
                             "{\"task_id\":\"plain\",\"payload\":{}}"),
                 201);
}

SERVICE_TEST(without_a_current_deployment_nothing_starts)
{
    const char *key = service_make_key(service, ALL_OF_RUNS);
    CHECK_STATUS(service, service_ask(service, key, "POST", "/api/runs", "{\"task_id\":\"hello\"}"),
                 409);
    CHECK_STR(service_text(service, "code"), "no_current_deployment");
}

SERVICE_TEST(a_payload_over_its_limit_is_too_large)
{
    const char *key = prepare(service);
    enum { OVER = 16 * 1024 * 1024 };
    AUTO(buf_finish) struct buf body = {.max = OVER + 1024};
    struct error err;
    CHECK(buf_append(&body, STR("{\"task_id\":\"hello\",\"payload\":\""), &err));
    char block[64 * 1024];
    memset(block, 'x', sizeof block);
    for (size_t i = 0; i < OVER / sizeof block; i++)
        CHECK(buf_append(&body, (struct str){block, sizeof block}, &err));
    CHECK(buf_append(&body, STR("\"}"), &err));
    const struct http_request request = {.method = "POST",
                                         .path = "/api/runs",
                                         .body = buf_str(&body)};
    CHECK_STATUS(service, service_send(service, key, &request), 413);
    CHECK_STR(service_text(service, "code"), "request_too_large");
}

SERVICE_TEST(the_same_key_and_parameters_give_the_first_run)
{
    const char *key = prepare(service);
    static const char body[] = "{\"task_id\":\"hello\",\"payload\":{\"a\":1,\"b\":2},"
                               "\"options\":{\"idempotency_key\":\"once\"}}";
    static const char reordered[] =
        "{\"options\":{\"idempotency_key\":\"once\"},\"payload\":{\"b\":2,\"a\":1},"
        "\"task_id\":\"hello\"}";
    static const char other[] = "{\"task_id\":\"hello\",\"payload\":{\"a\":2},"
                                "\"options\":{\"idempotency_key\":\"once\"}}";
    CHECK_STATUS(service, service_ask(service, key, "POST", "/api/runs", body), 201);
    const char *id = service_text(service, "id");
    CHECK_STATUS(service, service_ask(service, key, "POST", "/api/runs", reordered), 200);
    CHECK_STR(service_text(service, "id"), id);
    CHECK(strstr(service->answer.body.bytes, "\"is_cached\":true"));
    CHECK_STATUS(service, service_ask(service, key, "POST", "/api/runs", other), 409);
    CHECK_STR(service_text(service, "code"), "idempotency_fingerprint_mismatch");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs/counts", NULL), 200);
    CHECK(service_int(service, "queued") == 1);
}

struct racer {
    struct service *service;
    const char *key, *run;
    pthread_t thread;
    int status;
};

static void *race(void *arg)
{
    struct racer *racer = arg;

    racer->status = service_ask(racer->service, racer->key, "POST", "/api/runs",
                                "{\"task_id\":\"hello\",\"options\":{\"idempotency_key\":\"k\","
                                "\"idempotency_key_ttl\":\"1h\"}}");
    racer->run = service_text(racer->service, "id");
    return NULL;
}

SERVICE_TEST(starts_with_one_key_at_once_make_one_run)
{
    enum { RACERS = 6 };
    const char *key = prepare(service);
    struct racer racers[RACERS];
    int made = 0, found = 0;
    bool is_same = true;
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.service = service_view(service), .key = key};
        CHECK(pthread_create(&racers[i].thread, NULL, race, &racers[i]) == 0);
    }
    for (size_t i = 0; i < RACERS; i++) {
        pthread_join(racers[i].thread, NULL);
        made += racers[i].status == 201;
        found += racers[i].status == 200;
        is_same &= strcmp(racers[i].run, racers[0].run) == 0;
    }
    for (size_t i = 0; i < RACERS; i++)
        service_view_end(racers[i].service);
    CHECK(made == 1 && found == RACERS - 1 && is_same);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs/counts", NULL), 200);
    CHECK(service_int(service, "queued") == 1);
}

SERVICE_TEST(lists_are_paged_newest_first_without_gap_or_repetition)
{
    const char *key = prepare(service);
    enum { RUNS = 45 };
    const char *ids[RUNS];
    for (int i = 0; i < RUNS; i++)
        CHECK(*(ids[i] = service_create_run(service, key)));

    const char *cursor = "";
    int seen = 0, pages = 0;
    do {
        const char *path = arena_printf(&service->arena, "/api/runs?limit=20%s%s",
                                        *cursor ? "&cursor=" : "", cursor);
        CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
        size_t n = json_count(buf_str(&service->answer.body), "runs");
        for (size_t i = 0; i < n; i++) {
            const char *at = arena_printf(&service->arena, "runs.%zu.id", i);
            CHECK_STR(service_text(service, at), ids[RUNS - 1 - seen]);
            seen++;
        }
        cursor = service_text(service, "next_cursor");
        pages++;
    } while (*cursor);
    CHECK(seen == RUNS && pages == 3);
}

SERVICE_TEST(a_cursor_of_another_list_or_a_bad_query_is_refused)
{
    const char *key = prepare(service);
    CHECK(*service_create_run(service, key) && *service_create_run(service, key));
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs?limit=1", NULL), 200);
    const char *cursor = service_text(service, "next_cursor");
    CHECK(*cursor);
    static const struct {
        const char *path, *code;
    } cases[] = {
        {"/api/runs?status=all&cursor=%s", "invalid_cursor" },
        {"/api/runs?cursor=x%s",           "invalid_cursor" },
        {"/api/deployments?cursor=%s",     "invalid_cursor" },
        {"/api/runs?limit=0#%s",           "invalid_request"},
        {"/api/runs?limit=201#%s",         "invalid_request"},
        {"/api/runs?limit=many#%s",        "invalid_request"},
        {"/api/runs?status=odd#%s",        "invalid_request"},
        {"/api/runs?session_id=odd#%s",    "invalid_request"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char path[256];
        char *hole = strstr(memcpy(path, cases[i].path, strlen(cases[i].path) + 1), "%s");
        bool has_fragment = hole[-1] == '#';
        snprintf(hole - has_fragment, 128, "%s", has_fragment ? "" : cursor);
        CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 400);
        CHECK_STR(service_text(service, "code"), cases[i].code);
    }
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs/nonsense", NULL), 404);
}

SERVICE_TEST(a_queued_run_is_cancelled_at_once_and_a_finished_one_is_left_alone)
{
    const char *key = prepare(service);
    const char *id = service_create_run(service, key);
    CHECK_STATUS(service,
                 service_ask(service, key, "POST", path_of(service, id, "/cancel"),
                             "{\"reason\":\"enough\"}"),
                 200);
    CHECK_STR(service_text(service, "run.status"), "cancelled");
    CHECK_STR(service_text(service, "operation.status"), "applied");
    CHECK_STR(service_text(service, "operation.reason"), "enough");
    CHECK_STATUS(service, service_ask(service, key, "POST", path_of(service, id, "/cancel"), ""),
                 200);
    CHECK_STR(service_text(service, "operation.status"), "ignored");
    CHECK_STATUS(service, service_ask(service, key, "GET", path_of(service, id, "/events"), NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "events") == 3);
    CHECK_STR(service_text(service, "events.1.kind"), "run.cancel_requested");
    CHECK_STR(service_text(service, "events.2.kind"), "run.cancelled");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs/counts", NULL), 200);
    CHECK(service_int(service, "cancelled") == 1 && service_int(service, "queued") == 0);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 0);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs?status=cancelled", NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 1);
}

static bool move(struct service *service, const char *id, enum run_event on, struct error *err)
{
    struct run_row run;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    return store_begin(service->server->store, &tx, err) &&
           run_row_load(tx, id, &service->arena, &run, err) &&
           run_move(tx, &run, on, &wakes, err) &&
           hub_commit(&service->server->hub, &tx, &wakes, err);
}

SERVICE_TEST(a_running_run_keeps_its_status_until_it_is_gone)
{
    struct error err;
    const char *key = prepare(service);
    const char *id = service_create_run(service, key);
    CHECK(move(service, id, RUN_LEASE, &err) && move(service, id, RUN_START, &err));
    CHECK_STATUS(service, service_ask(service, key, "GET", path_of(service, id, ""), NULL), 200);
    CHECK_STR(service_text(service, "status"), "running");
    CHECK(service_int(service, "attempt_number") == 1);

    static const char body[] = "{\"idempotency_key\":\"c1\",\"idempotency_key_options\":"
                               "{\"key\":[\"a\",\"b\"],\"scope\":\"run\"}}";
    CHECK_STATUS(service, service_ask(service, key, "POST", path_of(service, id, "/cancel"), body),
                 200);
    CHECK_STR(service_text(service, "run.status"), "running");
    CHECK_STR(service_text(service, "run.execution_status"), "pending_cancel");
    CHECK_STR(service_text(service, "operation.status"), "pending");
    const char *operation = service_text(service, "operation.id");
    CHECK_STATUS(service, service_ask(service, key, "POST", path_of(service, id, "/cancel"), body),
                 200);
    CHECK_STR(service_text(service, "operation.id"), operation);

    /* What it reports after the request does not count any more. */
    struct run_row run;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    const struct run_end end = {.has_exit_code = true, .output = STR("1")};
    CHECK(store_begin(service->server->store, &tx, &err));
    CHECK(run_row_load(tx, id, &service->arena, &run, &err));
    CHECK(run_finish(tx, &run, RUN_SUCCEED, &end, &wakes, &err));
    CHECK(hub_commit(&service->server->hub, &tx, &wakes, &err));
    CHECK_STATUS(service, service_ask(service, key, "POST", path_of(service, id, "/cancel"), body),
                 200);
    CHECK_STR(service_text(service, "run.status"), "cancelled");
    CHECK_STR(service_text(service, "operation.status"), "applied");
    CHECK_STR(service_text(service, "run.output"), "");
}

SERVICE_TEST(a_move_that_is_not_in_the_table_is_a_conflict)
{
    struct error err;
    const char *key = prepare(service);
    const char *id = service_create_run(service, key);
    CHECK(!move(service, id, RUN_START, &err));
    CHECK(err.code == ERR_CONFLICT);
    CHECK(move(service, id, RUN_LEASE, &err));
    CHECK(!move(service, id, RUN_LEASE, &err));
    CHECK(err.code == ERR_CONFLICT);
}

TEST_MAIN()
