#include "server/history.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/encode.h"
#include "base/json.h"
#include "http/sse_reader.h"
#include "server/event.h"
#include "server/run_store.h"
#include "server/service_suite.h"
#include "store/queries.h"

enum {
    EVENTS_MAX = 4096,
    BYTES_MAX = 64 * 1024 * 1024,
    SNAPSHOT_MAX = 1024 * 1024,
    TIMEOUT_MS = 60 * 1000
};

/* What one client of a stream has heard, on a thread of its own. */
struct listener {
    struct service *service;
    const char *token, *path, *resume; /* resume: a Last-Event-ID line or NULL */
    struct sse_reader reader;
    pthread_t thread;
    _Atomic int n_heard;
    int64_t ids[EVENTS_MAX];
    char last_kind[64];
    struct buf bytes;  /* of log records, decoded */
    size_t stop_after; /* 0: to the end */
    int status;
    bool failed;
};

static bool heard(void *arg, const struct sse_event *event)
{
    struct listener *listener = arg;
    struct arena arena = {0};
    struct str text;
    struct error err;
    int n = listener->n_heard;
    if (n == EVENTS_MAX)
        return false;
    int64_t id = 0;
    for (size_t i = 0; i < event->id.len; i++)
        id = id * 10 + (event->id.ptr[i] - '0');
    listener->ids[n] = id;
    if (json_find_text(event->data, "kind", &arena, &text))
        snprintf(listener->last_kind, sizeof listener->last_kind, "%.*s", (int)text.len, text.ptr);
    if (json_find_text(event->data, "content_base64", &arena, &text)) {
        char *bytes = arena_alloc(&arena, base64_decoded_max(text.len) + 1);
        size_t len = base64_decoded_max(text.len);
        listener->failed = listener->failed || !base64_decode(text, bytes, &len) ||
                           !buf_append(&listener->bytes, (struct str){bytes, len}, &err);
    }
    arena_finish(&arena);
    listener->n_heard = n + 1;
    return !listener->stop_after || (size_t)n + 1 < listener->stop_after;
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
    struct error err;
    struct http_client *client = NULL;
    const char *headers[] = {"Accept: text/event-stream", listener->resume, NULL};
    AUTO(secret_finish) struct secret token = secret_create(str_of(listener->token));
    struct http_request request = {.method = "GET",
                                   .path = listener->path,
                                   .headers = headers,
                                   .sink = sink,
                                   .sink_arg = listener,
                                   .timeout_ms = TIMEOUT_MS};
    struct http_answer answer = {.body.max = 4096};
    sse_reader_init(&listener->reader, heard, listener);
    if (http_client_create(listener->service->url, &client, &err)) {
        http_client_set_bearer(client, &token);
        listener->failed = !http_client_send(client, &request, &answer, &err);
        listener->status = answer.status;
    }
    http_client_destroy(client);
    buf_finish(&answer.body);
    sse_reader_finish(&listener->reader);
    return NULL;
}

static void listener_start(struct listener *listener)
{
    listener->bytes.max = BYTES_MAX;
    if (pthread_create(&listener->thread, NULL, listen_to, listener) != 0)
        abort();
}

static bool is_run_of(const struct listener *listener, int64_t first, int64_t last)
{
    if (listener->n_heard != last - first + 1)
        return false;
    for (int64_t i = first; i <= last; i++)
        if (listener->ids[i - first] != i)
            return false;
    return true;
}

static bool append_event(struct service *service, const char *run, struct error *err)
{
    struct wakes wakes = {0};
    struct event event = {.kind = "run.log", .attributes = STR("{\"message\":\"hi\"}")};
    AUTO_TX tx = NULL;
    wakes_add(&wakes, "run:", run);
    return store_begin(service->server->store, &tx, err) &&
           run_event_append(tx, run, &event, err) &&
           hub_commit(&service->server->hub, &tx, &wakes, err);
}

static bool finish_run(struct service *service, const char *id, struct error *err)
{
    struct run_row run;
    struct wakes wakes = {0};
    const struct run_end end = {.has_exit_code = true, .output = STR("{\"ok\":true}")};
    AUTO_TX tx = NULL;
    return store_begin(service->server->store, &tx, err) &&
           run_row_load(tx, id, &service->arena, &run, err) &&
           run_move(tx, &run, RUN_LEASE, &wakes, err) &&
           run_move(tx, &run, RUN_START, &wakes, err) &&
           run_finish(tx, &run, RUN_SUCCEED, &end, &wakes, err) &&
           hub_commit(&service->server->hub, &tx, &wakes, err);
}

static const char *new_run(struct service *service, const char **key)
{
    struct error err;
    if (!service_deploy(service, &err))
        return "";
    *key = service_make_key(service, "\"runs:create\",\"runs:read\"");
    return service_create_run(service, *key);
}

SERVICE_TEST(a_stream_gives_history_and_what_comes_in_one_order)
{
    struct error err;
    const char *key = "", *run = new_run(service, &key);
    for (int i = 0; i < 100; i++)
        CHECK(append_event(service, run, &err));
    struct listener *listener = arena_alloc(&service->arena, sizeof *listener);
    *listener =
        (struct listener){.service = service,
                          .token = key,
                          .path = arena_printf(&service->arena, "/api/runs/%s/events", run)};
    listener_start(listener);
    for (int i = 0; i < 200; i++)
        CHECK(append_event(service, run, &err));
    CHECK(finish_run(service, run, &err));
    pthread_join(listener->thread, NULL);
    CHECK(listener->status == 200 && !listener->failed);
    CHECK(is_run_of(listener, 1, 302));
    CHECK_STR(listener->last_kind, "run.completed");
}

SERVICE_TEST(a_stream_resumes_behind_the_last_event_id)
{
    struct error err;
    const char *key = "", *run = new_run(service, &key);
    for (int i = 0; i < 50; i++)
        CHECK(append_event(service, run, &err));
    const char *path = arena_printf(&service->arena, "/api/runs/%s/events", run);
    struct listener *first = arena_alloc(&service->arena, sizeof *first),
                    *second = arena_alloc(&service->arena, sizeof *second),
                    *late = arena_alloc(&service->arena, sizeof *late);
    *first = (struct listener){.service = service, .token = key, .path = path, .stop_after = 20};
    listener_start(first);
    pthread_join(first->thread, NULL);
    CHECK(is_run_of(first, 1, 20));

    *second = (struct listener){.service = service,
                                .token = key,
                                .path = path,
                                .resume = "Last-Event-ID: 20"};
    listener_start(second);
    CHECK(finish_run(service, run, &err));
    pthread_join(second->thread, NULL);
    CHECK(is_run_of(second, 21, 52));

    /* Behind the end there is nothing to wait for. */
    *late = (struct listener){.service = service,
                              .token = key,
                              .path = path,
                              .resume = "Last-Event-ID: 52"};
    listener_start(late);
    pthread_join(late->thread, NULL);
    CHECK(late->status == 200 && late->n_heard == 0);
}

static bool append_log(struct service *service, const char *run, int64_t number, struct str bytes,
                       int64_t *offset, struct error *err)
{
    struct wakes wakes = {0};
    struct rows rows;
    bool is_error = number % 3 == 0;
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    wakes_add(&wakes, "run:", run);
    bool ok = store_begin(service->server->store, &tx, err) &&
              STORE(tx, &log_number, &arena, &rows, err, V_TEXT(run),
                    V_INT(is_error ? 0 : bytes.len), V_INT(is_error ? bytes.len : 0)) &&
              STORE(tx, &log_chunk_insert, NULL, NULL, err, V_TEXT(run),
                    V_INT(row_int(&rows, 0, LOG_NUMBER_CURSOR)), V_INT(1), V_INT(1),
                    V_TEXT(is_error ? "stderr" : "stdout"), V_INT(*offset), V_BYTES(bytes),
                    V_INT(bytes.len), V_INT(1)) &&
              hub_commit(&service->server->hub, &tx, &wakes, err);
    *offset += (int64_t)bytes.len;
    return ok;
}

/* What happens after the key was revoked is not told, also not to a stream that is open. */
SERVICE_TEST(a_stream_ends_with_the_key_that_opened_it)
{
    struct error err;
    int64_t offset = 0;
    const char *ignored = "", *run = new_run(service, &ignored);
    const char *key = service_make_key(service, "\"runs:read\"");
    const char *revoke =
        arena_printf(&service->arena, "/api/api-keys/%s", service_text(service, "id"));
    struct listener *events = arena_alloc(&service->arena, sizeof *events),
                    *logs = arena_alloc(&service->arena, sizeof *logs);
    *events = (struct listener){.service = service,
                                .token = key,
                                .path = arena_printf(&service->arena, "/api/runs/%s/events", run)};
    *logs = (struct listener){.service = service,
                              .token = key,
                              .path = arena_printf(&service->arena, "/api/runs/%s/logs", run)};
    listener_start(events);
    listener_start(logs);
    while (events->n_heard < 1)
        sched_yield();
    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", revoke, NULL), 204);
    CHECK(append_event(service, run, &err));
    pthread_join(events->thread, NULL);
    CHECK(append_log(service, run, 0, STR("secret"), &offset, &err));
    pthread_join(logs->thread, NULL);
    CHECK(events->n_heard == 1 && logs->n_heard == 0);
}

SERVICE_TEST(logs_come_whole_in_the_order_observed)
{
    struct error err;
    const char *key = "", *run = new_run(service, &key);
    struct listener *listener = arena_alloc(&service->arena, sizeof *listener);
    *listener = (struct listener){.service = service,
                                  .token = key,
                                  .path = arena_printf(&service->arena, "/api/runs/%s/logs", run)};
    AUTO(buf_finish) struct buf wanted = {.max = BYTES_MAX};
    static char block[300 * 1024];
    int64_t offset = 0;
    for (int64_t i = 0; i < 120; i++) {
        size_t len = i % 10 == 0 ? sizeof block : (size_t)(i * 7 + 1);
        memset(block, 'a' + (char)(i % 26), len);
        CHECK(append_log(service, run, i, (struct str){block, len}, &offset, &err));
        CHECK(buf_append(&wanted, (struct str){block, len}, &err));
        if (i == 40)
            listener_start(listener);
    }
    CHECK(finish_run(service, run, &err));
    pthread_join(listener->thread, NULL);
    CHECK(listener->status == 200 && !listener->failed);
    CHECK(is_run_of(listener, 1, 120));
    CHECK(str_equal(buf_str(&listener->bytes), buf_str(&wanted)));
    buf_finish(&listener->bytes);
}

SERVICE_TEST(a_log_snapshot_is_the_end_of_each_stream)
{
    struct error err;
    const char *key = "", *run = new_run(service, &key);
    const char *path = arena_printf(&service->arena, "/api/runs/%s/logs", run);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "stdout_base64"), "");
    CHECK(strstr(service->answer.body.bytes, "\"truncated\":false"));

    static char block[700 * 1024];
    int64_t offset = 0;
    memset(block, 'x', sizeof block);
    CHECK(append_log(service, run, 1, (struct str){block, sizeof block}, &offset, &err));
    CHECK(append_log(service, run, 2, (struct str){block, sizeof block}, &offset, &err));
    CHECK(append_log(service, run, 3, STR("oops\n"), &offset, &err));
    CHECK(append_log(service, run, 4, STR("the end\n"), &offset, &err));
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "stderr_base64"), "b29wcwo=");
    CHECK(service_int(service, "stdout_bytes") == 2 * (int64_t)sizeof block + 8);
    CHECK(strstr(service->answer.body.bytes, "\"truncated\":true"));
    CHECK_STR(service_text(service, "cursor"), "4");
    struct str text = str_of(service_text(service, "stdout_base64"));
    static char bytes[SNAPSHOT_MAX * 2];
    size_t len = sizeof bytes;
    CHECK(base64_decode(text, bytes, &len) && len == SNAPSHOT_MAX);
    CHECK(memcmp(bytes + len - 9, "xthe end\n", 9) == 0);
}

SERVICE_TEST(pages_of_events_follow_each_other)
{
    struct error err;
    const char *key = "", *run = new_run(service, &key);
    for (int i = 0; i < 9; i++)
        CHECK(append_event(service, run, &err));
    const char *path = arena_printf(&service->arena, "/api/runs/%s/events?limit=6", run);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "next_cursor"), "6");
    path = arena_printf(&service->arena, "/api/runs/%s/events?limit=6&cursor=6", run);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "events") == 4);
    CHECK_STR(service_text(service, "events.0.cursor"), "7");
    CHECK_STR(service_text(service, "next_cursor"), "");
    CHECK_STR(service_text(service, "cursor"), "10");
    path = arena_printf(&service->arena, "/api/runs/%s/events?cursor=ten", run);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 400);
    CHECK_STR(service_text(service, "code"), "invalid_cursor");
}

TEST(a_stream_of_one_server_hears_what_another_commits)
{
    struct error err;
    const char *skip = NULL;
    struct service *first = service_start(ON_POSTGRES, &skip);
    if (!first)
        SKIP(skip);
    struct service *second = service_start_beside(first);
    const char *key = "", *run = new_run(first, &key);
    struct listener *listener = arena_alloc(&first->arena, sizeof *listener);
    *listener = (struct listener){.service = second,
                                  .token = key,
                                  .path = arena_printf(&first->arena, "/api/runs/%s/events", run)};
    listener_start(listener);
    bool ok = true;
    for (int i = 0; i < 50 && ok; i++)
        ok = append_event(first, run, &err);
    ok = ok && finish_run(first, run, &err);
    pthread_join(listener->thread, NULL);
    service_stop(second);
    CHECK(ok && is_run_of(listener, 1, 52));
    service_stop(first);
}

TEST_MAIN()
