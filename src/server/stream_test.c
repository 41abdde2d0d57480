/* Streams over their routes: what is appended, by whom, and what is read again. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/json.h"
#include "http/sse_reader.h"
#include "server/stream_store.h"
#include "server/stream_testing.h"
#include "store/queries.h"

enum { HEARD_MAX = 512, LISTEN_MS = 60 * 1000, WRITERS = 4, EACH = 25 };

CHANGE(end_session, "UPDATE sessions SET status = 'closed' WHERE id = $1");
CHANGE(age_session, "UPDATE sessions SET expires_ms = 1 WHERE id = $1");

static size_t records(struct service *service)
{
    return json_count(buf_str(&service->answer.body), "records");
}

static bool change(struct scene *scene, const struct query *query)
{
    return service_change(scene->service, query, &V_TEXT(scene->session), 1, 1);
}

SERVICE_TEST(a_declared_stream_is_there_before_its_first_record)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK_STATUS(service, scene_get(&scene, "streams"), 200);
    CHECK_STR(service_text(service, "streams.0.name"), "chat");
    CHECK_STR(service_text(service, "streams.0.direction"), "input");
    CHECK_STR(service_text(service, "streams.0.schema_fingerprint"), "sha256:c");
    CHECK(service_int(service, "streams.0.sequence") == 0);
    const char *id = service_text(service, "streams.0.id");
    CHECK_STR(service_text(service, "streams.1.name"), "log");
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat"), 200);
    CHECK(records(service) == 0);

    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK_STR(service_text(service, "record.stream_id"), id);
    CHECK_STATUS(service, scene_get(&scene, "streams"), 200);
    CHECK_STR(service_text(service, "streams.0.id"), id);
    CHECK(service_int(service, "streams.0.sequence") == 1);
    CHECK(json_count(buf_str(&service->answer.body), "streams") == 2);
}

SERVICE_TEST(records_are_numbered_and_read_in_their_order)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    for (int i = 1; i <= 3; i++) {
        CHECK_STATUS(service, scene_send(&scene, i), 201);
        CHECK(service_int(service, "record.sequence") == i);
    }
    CHECK_STATUS(service,
                 scene_post(&scene, "inputs/chat",
                            "{\"data\":[],\"correlation_id\":\"a\",\"content_type\":\"text/x\"}"),
                 201);
    CHECK_STR(service_text(service, "record.correlation_id"), "a");
    CHECK_STR(service_text(service, "record.content_type"), "text/x");

    CHECK_STATUS(service, scene_get(&scene, "inputs/chat?limit=2"), 200);
    CHECK(records(service) == 2 && service_int(service, "records.1.data.n") == 2);
    CHECK_STR(service_text(service, "next_cursor"), "2");
    CHECK_STR(service_text(service, "records.0.content_type"), "application/json");
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat?cursor=2"), 200);
    CHECK(records(service) == 2 && service_int(service, "records.0.sequence") == 3);
    CHECK_STR(service_text(service, "next_cursor"), "");
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat?correlation_id=a"), 200);
    CHECK(records(service) == 1 && service_int(service, "records.0.sequence") == 4);
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat?limit=501"), 400);
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat?cursor=x"), 400);
    CHECK_STR(service_text(service, "code"), "invalid_cursor");
}

SERVICE_TEST(outputs_are_appended_and_read_one_by_one)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK_STATUS(service, scene_get(&scene, "outputs/log/read"), 200);
    CHECK(service_says(service, "{\"record\":null}"));
    CHECK_STATUS(service, scene_post(&scene, "outputs/log", "{\"data\":\"one\"}"), 201);
    CHECK_STR(service_text(service, "continuation_status"), "");
    CHECK_STATUS(service, scene_get(&scene, "outputs/log/read"), 200);
    CHECK_STR(service_text(service, "record.data"), "one");
    CHECK_STATUS(service, scene_get(&scene, "outputs/log/read?cursor=1"), 200);
    CHECK(service_says(service, "{\"record\":null}"));
}

CHANGE(name_session, "UPDATE sessions SET external_id = 'order/7' WHERE id = $1");

SERVICE_TEST(a_session_is_found_by_its_external_id)
{
    struct scene scene;
    CHECK(scene_set(service, &scene) && change(&scene, &name_session));
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    const char *const paths[] = {"streams", "inputs/chat", "outputs/log", "outputs/log/read"};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const char *path =
            arena_printf(&service->arena, "/api/sessions/by-external-id/%s?external_id=", paths[i]);
        const char *right = arena_printf(&service->arena, "%sorder%%2F7", path);
        const char *wrong = arena_printf(&service->arena, "%sorder", path);
        CHECK_STATUS(service, service_ask(service, scene.key, "GET", right, NULL), 200);
        CHECK_STATUS(service, service_ask(service, scene.key, "GET", wrong, NULL), 404);
        CHECK_STATUS(service, service_ask(service, scene.key, "GET", path, NULL), 400);
    }
    CHECK_STATUS(service,
                 service_ask(service, scene.key, "POST",
                             "/api/sessions/by-external-id/inputs/chat?external_id=order/7",
                             "{\"data\":2}"),
                 201);
    CHECK(service_int(service, "record.sequence") == 2);
}

SERVICE_TEST(what_is_no_stream_or_of_the_other_kind_is_refused)
{
    struct scene scene;
    const char *names[] = {"inputs/other", "inputs/-", "outputs/other/read"};
    CHECK(scene_set(service, &scene));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CHECK_STATUS(service, scene_get(&scene, names[i]), 404);
        CHECK_STR(service_text(service, "code"), "stream_not_found");
    }
    CHECK_STATUS(service, scene_post(&scene, "inputs/log", "{\"data\":1}"), 409);
    CHECK_STR(service_text(service, "code"), "stream_direction_mismatch");
    CHECK_STATUS(service, scene_post(&scene, "outputs/chat", "{\"data\":1}"), 409);
    CHECK_STATUS(service, scene_get(&scene, "outputs/chat"), 409);
    scene.session = "0190a000-0000-7000-8000-0000000000ff";
    CHECK_STATUS(service, scene_send(&scene, 1), 404);
    CHECK_STR(service_text(service, "code"), "session_not_found");
    CHECK_STATUS(service, scene_get(&scene, "streams"), 404);
}

SERVICE_TEST(malformed_records_are_refused)
{
    struct scene scene;
    const char *bodies[] = {
        "{}",
        "{\"data\":1,\"more\":1}",
        "{\"data\":1,\"correlation_id\":\"\"}",
        "{\"data\":1,\"correlation_id\":\" a\"}",
        "{\"data\":1,\"content_type\":\"\"}",
        "{\"data\":1,\"content_type\":\"a\\u0007\"}",
        "{\"data\":1,\"idempotency_key\":\"\"}",
        "{\"data\":1} 2",
    };
    CHECK(scene_set(service, &scene));
    for (size_t i = 0; i < COUNT_OF(bodies); i++)
        CHECK_STATUS(service, scene_post(&scene, "inputs/chat", bodies[i]), 400);
    const char *large =
        arena_printf(&service->arena, "{\"data\":\"%0*d\"}", STREAM_DATA_MAX - 1, 0);
    CHECK_STATUS(service, scene_post(&scene, "inputs/chat", large), 413);
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat"), 200);
    CHECK(records(service) == 0);
}

SERVICE_TEST(a_key_holds_for_ever_and_for_one_record)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK_STATUS(service,
                 scene_post(&scene, "inputs/chat",
                            "{\"data\":{\"a\":1,\"b\":2},\"idempotency_key\":\"k\","
                            "\"idempotency_key_options\":{\"key\":[\"k\"],\"scope\":\"global\"}}"),
                 201);
    const char *id = service_text(service, "record.id");
    CHECK(service_says(service, "\"is_cached\":false"));
    CHECK_STATUS(service,
                 scene_post(&scene, "inputs/chat",
                            "{\"data\":{\"b\":2, \"a\":1},\"idempotency_key\":\"k\"}"),
                 200);
    CHECK_STR(service_text(service, "record.id"), id);
    CHECK_STR(service_text(service, "continuation_status"), "");
    CHECK(service_says(service, "\"is_cached\":true"));
    CHECK_STATUS(service,
                 scene_post(&scene, "inputs/chat",
                            "{\"data\":{\"a\":1},\"idempotency_key\":\"k\"}"),
                 409);
    CHECK_STR(service_text(service, "code"), "idempotency_fingerprint_mismatch");
    CHECK_STATUS(service,
                 scene_post(&scene, "inputs/chat",
                            "{\"data\":{\"a\":1,\"b\":2},\"idempotency_key\":\"k\","
                            "\"correlation_id\":\"c\"}"),
                 409);
    /* A key is of its stream. */
    CHECK_STATUS(service,
                 scene_post(&scene, "outputs/log", "{\"data\":1,\"idempotency_key\":\"k\"}"), 201);
    CHECK(change(&scene, &end_session));
    CHECK_STATUS(service,
                 scene_post(&scene, "inputs/chat",
                            "{\"data\":{\"a\":1,\"b\":2},\"idempotency_key\":\"k\"}"),
                 200);
}

SERVICE_TEST(a_session_that_has_ended_takes_nothing)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK_STATUS(service, scene_send(&scene, 1), 201);
    CHECK(change(&scene, &age_session));
    CHECK_STATUS(service, scene_send(&scene, 2), 410);
    CHECK_STR(service_text(service, "code"), "session_expired");
    CHECK(change(&scene, &end_session));
    CHECK_STATUS(service, scene_send(&scene, 2), 409);
    CHECK_STR(service_text(service, "code"), "session_terminal");
    CHECK_STATUS(service, scene_post(&scene, "outputs/log", "{\"data\":1}"), 409);
    CHECK(lease_op(&scene.worker, 1, "stream.append", "{\"stream\":\"log\",\"data\":1}") == false);
    CHECK_STR(service_text(service, "results.0.body.code"), "session_terminal");
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat"), 200);
    CHECK(records(service) == 1);
}

/* What one client of a live stream has heard, on a thread of its own. */
struct listener {
    struct service *service;
    const char *token, *path, *resume;
    struct sse_reader reader;
    pthread_t thread;
    _Atomic int n_heard;
    int64_t ids[HEARD_MAX];
    int status, stop_after; /* stop_after 0: to the end */
};

static bool heard(void *arg, const struct sse_event *event)
{
    struct listener *listener = arg;
    int64_t sequence = 0;
    int n = listener->n_heard;

    if (n == HEARD_MAX || !str_equal(event->name, STR("stream_record")) ||
        !json_find_int(event->data, "sequence", &sequence))
        return false;
    listener->ids[n] = sequence;
    listener->n_heard = n + 1;
    return !listener->stop_after || n + 1 < listener->stop_after;
}

static bool sink(void *arg, struct str bytes)
{
    struct listener *listener = arg;
    struct error err;

    return sse_reader_push(&listener->reader, bytes, &err) && !listener->reader.is_over;
}

static void *listen_to(void *arg)
{
    struct listener *listener = arg;
    const char *headers[] = {"Accept: text/event-stream", listener->resume, NULL};
    AUTO(secret_finish) struct secret token = secret_create(str_of(listener->token));
    struct http_request request = {.method = "GET",
                                   .path = listener->path,
                                   .headers = headers,
                                   .sink = sink,
                                   .sink_arg = listener,
                                   .timeout_ms = LISTEN_MS};
    struct http_answer answer = {.body.max = 4096};
    struct http_client *client = NULL;
    struct error err;

    sse_reader_init(&listener->reader, heard, listener);
    if (http_client_create(listener->service->url, &client, &err)) {
        http_client_set_bearer(client, &token);
        if (http_client_send(client, &request, &answer, &err) || answer.status == 200)
            listener->status = answer.status;
    }
    http_client_destroy(client);
    buf_finish(&answer.body);
    sse_reader_finish(&listener->reader);
    return NULL;
}

static bool listen_start(struct listener *listener)
{
    return pthread_create(&listener->thread, NULL, listen_to, listener) == 0;
}

static bool is_run_of(const struct listener *listener, int first, int last)
{
    if (listener->n_heard != last - first + 1)
        return false;
    for (int i = first; i <= last; i++)
        if (listener->ids[i - first] != i)
            return false;
    return true;
}

SERVICE_TEST(a_live_stream_goes_on_where_it_was_cut_until_the_session_ends)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    for (int i = 1; i <= 50; i++)
        CHECK_STATUS(service, scene_send(&scene, i), 201);
    const char *path = scene_path(&scene, "inputs/chat");
    struct listener first = {service, scene.key, path, .stop_after = 60};
    CHECK(listen_start(&first));
    while (first.n_heard < 50)
        sched_yield();
    for (int i = 51; i <= 70; i++)
        CHECK_STATUS(service, scene_send(&scene, i), 201);
    pthread_join(first.thread, NULL);
    CHECK(is_run_of(&first, 1, 60));

    struct listener second = {service, scene.key, path, .resume = "Last-Event-ID: 60"};
    CHECK(listen_start(&second));
    while (second.n_heard < 10)
        sched_yield();
    CHECK_STATUS(service, scene_send(&scene, 71), 201);
    CHECK(lease_report(&scene.worker, "succeeded", "") == 200);
    /* What nobody read makes one more run, so that it cannot be closed. */
    CHECK_STATUS(service, scene_post(&scene, "close", "{}"), 409);
    CHECK_STATUS(service, scene_post(&scene, "cancel", "{}"), 200);
    pthread_join(second.thread, NULL);
    CHECK(second.status == 200);
    CHECK(is_run_of(&second, 61, 71));
}

SERVICE_TEST(a_live_stream_ends_when_its_token_is_revoked)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK_STATUS(service, scene_post(&scene, "outputs/log", "{\"data\":1}"), 201);
    const char *scope = arena_printf(&service->arena,
                                     "{\"scope\":{\"type\":\"session.output.read\","
                                     "\"session_id\":\"%s\"}}",
                                     scene.session);
    CHECK_STATUS(service,
                 service_ask(service, scene.key, "POST", "/api/public-access-tokens", scope), 201);
    const char *bearer = service_text(service, "public_access_token");
    const char *grant =
        arena_printf(&service->arena, "/api/public-access-tokens/%s", service_text(service, "id"));
    const char *path =
        arena_printf(&service->arena, "/api/v1/sessions/%s/outputs/log", scene.session);
    struct listener listener = {service, bearer, path};
    CHECK(listen_start(&listener));
    while (listener.n_heard < 1)
        sched_yield();
    CHECK_STATUS(service, service_ask(service, scene.key, "DELETE", grant, NULL), 204);
    pthread_join(listener.thread, NULL);
    CHECK(listener.status == 200 && listener.n_heard == 1);
}

struct writer {
    struct scene scene;
    pthread_t thread;
    int n_failed;
};

static void *write_many(void *arg)
{
    struct writer *writer = arg;

    for (int i = 0; i < EACH; i++)
        writer->n_failed += scene_send(&writer->scene, i) != 201;
    return NULL;
}

SERVICE_TEST(those_who_append_at_once_get_every_sequence_once)
{
    struct scene scene;
    struct writer writers[WRITERS];
    CHECK(scene_set(service, &scene));
    struct listener listener = {service, scene.key, scene_path(&scene, "inputs/chat"),
                                .stop_after = WRITERS * EACH};
    CHECK(listen_start(&listener));
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.scene = scene};
        writers[i].scene.service = service_view(service);
        CHECK(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]) == 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        service_view_end(writers[i].scene.service);
        CHECK(writers[i].n_failed == 0);
    }
    pthread_join(listener.thread, NULL);
    CHECK(is_run_of(&listener, 1, WRITERS * EACH));
}

TEST_MAIN()
