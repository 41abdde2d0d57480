/* Sessions by their routes: starting, finding and changing them. */
#include <pthread.h>

#include "base/json.h"
#include "server/park_testing.h"
#include "server/service_suite.h"
#include "server/task_session_testing.h"
#include "store/queries.h"

#define NOBODY "0190a000-0000-7000-8000-000000000000"

CHANGE(expire_soon, "UPDATE sessions SET expires_ms = 1 WHERE id = $1");

SERVICE_TEST(a_session_is_started_with_its_run_and_read_back_the_same)
{
    const char *key = session_prepare(service);
    const char *body = arena_printf(
        &service->arena,
        "{\"task_id\":\"hello\",\"payload\":{\"name\":\"Ada\"},\"external_id\":\"order 7\","
        "\"queue\":{\"name\":\"narrow\"},\"concurrency_key\":\"c\",\"priority\":5,\"ttl\":\"1h\","
        "\"max_duration_seconds\":60,\"retry\":{\"max_attempts\":2},\"metadata\":{\"k\":true},"
        "\"tags\":[\"x\"],\"expires_at\":\"%s\"}",
        session_time(service, 60000));
    CHECK_STATUS(service, session_start(service, key, body), 201);
    CHECK(service_says(service, "\"is_cached\":false"));
    const char *id = service_text(service, "session.id"), *run = service_text(service, "run.id");
    CHECK_STR(service_text(service, "session.task_id"), "hello");
    CHECK_STR(service_text(service, "session.environment_id"), service->environment_id);
    CHECK_STR(service_text(service, "session.initial_deployment_id"), service->deployment_id);
    CHECK_STR(service_text(service, "session.active_deployment_id"), service->deployment_id);
    CHECK_STR(service_text(service, "session.external_id"), "order 7");
    CHECK_STR(service_text(service, "session.status"), "open");
    CHECK_STR(service_text(service, "session.activity"), "queued");
    CHECK_STR(service_text(service, "session.current_run_id"), run);
    CHECK_STR(service_text(service, "session.tags.0"), "x");
    CHECK(*service_text(service, "session.expires_at") &&
          *service_text(service, "session.project_id"));
    CHECK(service_says(service, "\"can_close\":false") &&
          service_says(service, "\"timed_out\":false"));
    CHECK_STR(service_text(service, "run.session_id"), id);
    CHECK_STR(service_text(service, "run.workspace_id"),
              service_text(service, "session.workspace_id"));
    CHECK_STR(service_text(service, "run.reason"), "api");
    CHECK_STR(service_text(service, "run.payload.name"), "Ada");
    CHECK_STR(service_text(service, "run.queue"), "narrow");
    CHECK(service_int(service, "run.turn_index") == 0 && service_int(service, "run.priority") == 5);
    struct str shown;
    CHECK(json_find_raw(buf_str(&service->answer.body), "session", &service->arena, &shown));
    CHECK_STATUS(service, session_ask(service, key, "GET", id, "", NULL), 200);
    CHECK(str_equal(shown, buf_str(&service->answer.body)));
    CHECK_STATUS(service, session_ask(service, key, "GET", id, "/runs", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 1);
    CHECK_STR(service_text(service, "runs.0.id"), run);
}

SERVICE_TEST(a_session_that_cannot_be_started_says_why_and_leaves_nothing)
{
    const char *key = session_prepare(service);
    static const struct {
        const char *body;
        int status;
        const char *code;
    } cases[] = {
        {"",                                                                400, "invalid_json"             },
        {"{}",                                                              400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"options\":{}}",                          400, "unknown_field"            },
        {"{\"task_id\":\"hello\",\"deployment_id\":\"20250101.1\"}",        400, "unknown_field"            },
        {"{\"task_id\":\"hello\",\"timeout_seconds\":5}",                   400, "unknown_field"            },
        {"{\"task_id\":\"hello\",\"external_id\":\"\"}",                    400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"external_id\":\" x\"}",                  400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"expires_at\":\"tomorrow\"}",             400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"expires_at\":\"2020-01-01T00:00:00Z\"}", 400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"workspace_id\":\"mine\"}",               400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"workspace_id\":\"" NOBODY "\"}",         404, "workspace_not_found"      },
        {"{\"task_id\":\"hello\",\"metadata\":[]}",                         400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"tags\":[\"\"]}",                         400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"ttl\":\"soon\"}",                        400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"priority\":86401}",                      400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"max_duration_seconds\":4}",              400, "invalid_request"          },
        {"{\"task_id\":\"hello\",\"queue\":{\"name\":\"wide\"}}",           409, "queue_not_declared"       },
        {"{\"task_id\":\"hello\",\"secrets\":{\"A\":\"env:B\"}}",           400, "secret_source_unsupported"},
        {"{\"task_id\":\"plain\",\"payload\":{\"a\":1}}",                   400, "payload_not_accepted"     },
        {"{\"task_id\":\"unheard\"}",                                       404, "task_not_found"           },
        {"{\"task_id\":\"secretive\"}",                                     422, "secret_missing"           },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_STATUS(service, session_start(service, key, cases[i].body), cases[i].status);
        CHECK_STR(service_text(service, "code"), cases[i].code);
    }
    CHECK_STR(service_text(service, "details.names.0"), "TOKEN");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/sessions?status=all", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "sessions") == 0);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs?status=all", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 0);
}

SERVICE_TEST(metadata_of_a_session_is_bounded)
{
    const char *key = session_prepare(service);
    char *text = arena_alloc(&service->arena, KIB(70));
    memset(text, 'x', KIB(70) - 1);
    text[KIB(70) - 1] = '\0';
    const char *body =
        arena_printf(&service->arena, "{\"task_id\":\"hello\",\"metadata\":{\"k\":\"%s\"}}", text);
    int status = session_start(service, key, body);
    CHECK(status == 400 || status == 413);
}

SERVICE_TEST(an_external_id_gives_the_session_that_has_it)
{
    const char *key = session_prepare(service);
    static const char body[] = "{\"task_id\":\"hello\",\"payload\":{\"a\":1,\"b\":2},"
                               "\"external_id\":\"one\"}";
    static const char same[] = "{\"external_id\":\"one\",\"payload\":{\"b\":2,\"a\":1},"
                               "\"task_id\":\"hello\"}";
    static const char other[] = "{\"task_id\":\"hello\",\"payload\":{\"a\":2},"
                                "\"external_id\":\"one\"}";
    CHECK_STATUS(service, session_start(service, key, body), 201);
    const char *id = service_text(service, "session.id"), *run = service_text(service, "run.id");
    CHECK_STATUS(service, session_start(service, key, same), 200);
    CHECK_STR(service_text(service, "session.id"), id);
    CHECK_STR(service_text(service, "run.id"), run);
    CHECK(service_says(service, "\"is_cached\":true"));
    CHECK_STATUS(service, session_start(service, key, other), 409);
    CHECK_STR(service_text(service, "code"), "session_fingerprint_mismatch");

    CHECK_STATUS(service, session_ask(service, key, "POST", id, "/cancel", ""), 200);
    CHECK_STATUS(service, session_start(service, key, body), 409);
    CHECK_STR(service_text(service, "code"), "session_terminal");

    const char *late = session_start_hello(service, key, ",\"external_id\":\"two\"");
    CHECK(session_change(service, &expire_soon, late));
    CHECK_STATUS(service,
                 session_start(service, key, "{\"task_id\":\"hello\",\"external_id\":\"two\"}"),
                 410);
    CHECK_STR(service_text(service, "code"), "session_expired");
}

/* Of a branch nobody knows what was asked, so no start is the same. */
SERVICE_TEST(the_name_of_a_branch_is_taken)
{
    struct stage stage;
    CHECK(stage_set(service, &stage) && stage_wait(&stage) && stage_park(&stage));
    CHECK_STATUS(service,
                 service_ask(service, stage.key, "POST",
                             arena_printf(&service->arena, "/api/runs/%s/fork", stage.run),
                             "{\"external_id\":\"branch\"}"),
                 201);
    CHECK_STR(service_text(service, "session.activity"), "waiting");
    CHECK_STATUS(service,
                 session_start(service, stage.key,
                               "{\"task_id\":\"hello\",\"external_id\":\"branch\"}"),
                 409);
    CHECK_STR(service_text(service, "code"), "session_fingerprint_mismatch");
}

struct racer {
    struct service *service;
    const char *key, *session;
    pthread_t thread;
    int status;
};

static void *race(void *arg)
{
    struct racer *racer = arg;

    racer->status = session_start(racer->service, racer->key,
                                  "{\"task_id\":\"hello\",\"external_id\":\"the same\"}");
    racer->session = service_text(racer->service, "session.id");
    return NULL;
}

SERVICE_TEST(starts_with_one_external_id_at_once_make_one_session)
{
    enum { RACERS = 8 };
    const char *key = session_prepare(service);
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
        is_same &= strcmp(racers[i].session, racers[0].session) == 0;
    }
    for (size_t i = 0; i < RACERS; i++)
        service_view_end(racers[i].service);
    CHECK(made == 1 && found == RACERS - 1 && is_same);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs?status=all", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 1);
}

SERVICE_TEST(whatever_takes_an_id_takes_the_external_id)
{
    const char *key = session_prepare(service);
    static const char by[] = "by-external-id";
    static const char named[] = "?external_id=a%2Fb%20c";
    const char *id = session_start_hello(service, key, ",\"external_id\":\"a/b c\"");
    CHECK_STATUS(service, session_ask(service, key, "GET", by, named, NULL), 200);
    CHECK_STR(service_text(service, "id"), id);
    CHECK_STATUS(service, session_ask(service, key, "PATCH", by, named, "{\"tags\":[\"t\"]}"), 200);
    CHECK_STR(service_text(service, "tags.0"), "t");
    CHECK_STATUS(service, session_ask(service, key, "GET", by, "/runs?external_id=a%2Fb%20c", NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 1);
    CHECK_STATUS(service, session_ask(service, key, "POST", by, "/close?external_id=a%2Fb%20c", ""),
                 409);
    CHECK_STR(service_text(service, "code"), "close_run_active");
    CHECK_STATUS(service,
                 session_ask(service, key, "POST", by, "/cancel?external_id=a%2Fb%20c", ""), 200);
    CHECK_STR(service_text(service, "status"), "cancelled");

    CHECK_STATUS(service, session_ask(service, key, "GET", by, "", NULL), 400);
    CHECK_STATUS(service, session_ask(service, key, "GET", by, "?external_id=nobody", NULL), 404);
    CHECK_STR(service_text(service, "code"), "session_not_found");
    CHECK_STATUS(service, session_ask(service, key, "GET", "not-an-id", "", NULL), 404);
    CHECK_STR(service_text(service, "code"), "session_not_found");
    CHECK_STATUS(service, session_ask(service, key, "POST", NOBODY, "/cancel", ""), 404);
    CHECK_STR(service_text(service, "code"), "session_not_found");
    const char *elsewhere =
        arena_printf(&service->arena, "/api/projects/main/environments/staging/sessions/%s", id);
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, service_ask(service, service->session, "GET", elsewhere, NULL), 404);
}

SERVICE_TEST(sessions_are_listed_by_status_task_and_name)
{
    enum { SESSIONS = 21 };
    const char *key = session_prepare(service);
    const char *ids[SESSIONS];
    for (int i = 0; i < SESSIONS; i++)
        CHECK(*(ids[i] = session_start_hello(
                    service, key, arena_printf(&service->arena, ",\"external_id\":\"n%d\"", i))));
    CHECK_STATUS(service, session_start(service, key, "{\"task_id\":\"plain\"}"), 201);
    CHECK_STATUS(service, session_ask(service, key, "POST", ids[0], "/cancel", ""), 200);

    static const struct {
        const char *query;
        size_t n;
    } cases[] = {
        {"",                              21},
        {"?status=open",                  21},
        {"?status=all",                   22},
        {"?status=cancelled",             1 },
        {"?status=closed",                0 },
        {"?task_id=plain",                1 },
        {"?external_id=n3",               1 },
        {"?external_id=n0",               0 },
        {"?external_id=n0&status=all",    1 },
        {"?task_id=plain&status=expired", 0 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *path = arena_printf(&service->arena, "/api/sessions%s", cases[i].query);
        CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
        CHECK(json_count(buf_str(&service->answer.body), "sessions") == cases[i].n);
    }
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/sessions?status=x", NULL), 400);

    const char *cursor = "";
    int seen = 0;
    do {
        const char *path = arena_printf(&service->arena, "/api/sessions?task_id=hello&limit=8%s%s",
                                        *cursor ? "&cursor=" : "", cursor);
        CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
        size_t n = json_count(buf_str(&service->answer.body), "sessions");
        for (size_t i = 0; i < n; i++, seen++) {
            const char *at = arena_printf(&service->arena, "sessions.%zu.id", i);
            CHECK_STR(service_text(service, at), ids[SESSIONS - 1 - seen]);
        }
        cursor = service_text(service, "next_cursor");
        if (*cursor && seen == 8) {
            path = arena_printf(&service->arena, "/api/sessions?status=all&cursor=%s", cursor);
            CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 400);
            CHECK_STR(service_text(service, "code"), "invalid_cursor");
        }
    } while (*cursor);
    CHECK(seen == SESSIONS - 1);
}

SERVICE_TEST(a_session_is_changed_but_lives_no_longer_than_was_said)
{
    const char *key = session_prepare(service);
    const char *id = session_start_hello(service, key, ",\"metadata\":{\"a\":1}");
    const char *soon = session_time(service, 60000), *sooner = session_time(service, 30000),
               *later = session_time(service, 90000);
#define EXPIRES(at) arena_printf(&service->arena, "{\"expires_at\":\"%s\"}", at)
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", ""), 200);
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", EXPIRES(soon)), 200);
    CHECK_STR(service_text(service, "expires_at"), soon);
    CHECK(service_int(service, "metadata.a") == 1);
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", EXPIRES(soon)), 200);
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", EXPIRES(later)), 409);
    CHECK_STR(service_text(service, "code"), "session_expires_at_not_extendable");
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", EXPIRES(sooner)), 200);
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", EXPIRES(soon)), 409);
    CHECK_STATUS(service,
                 session_ask(service, key, "PATCH", id, "", EXPIRES("2020-01-01T00:00:00Z")), 400);
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", "{\"status\":\"closed\"}"),
                 400);
    CHECK_STATUS(service,
                 session_ask(service, key, "PATCH", id, "", "{\"metadata\":{\"b\":2},\"tags\":[]}"),
                 200);
    CHECK(service_int(service, "metadata.a") == -1 && service_int(service, "metadata.b") == 2);

    CHECK_STATUS(service, session_ask(service, key, "POST", id, "/cancel", ""), 200);
    CHECK_STATUS(service, session_ask(service, key, "PATCH", id, "", "{\"metadata\":{\"c\":3}}"),
                 200);
    CHECK_STATUS(service,
                 session_ask(service, key, "PATCH", id, "", EXPIRES(session_time(service, 1000))),
                 409);
    CHECK_STR(service_text(service, "code"), "session_terminal");
}

TEST_MAIN()
