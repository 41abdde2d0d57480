/* Terminals and ports over WebSockets: what a client sees, and what the worker is told. */
#include <poll.h>

#include "base/encode.h"
#include "base/own.h"
#include "base/time.h"
#include "http/websocket_client.h"
#include "server/mount_testing.h"
#include "server/session.h"

/* One attachment and what it heard. */
struct watch {
    struct websocket_client *line;
    struct http_answer refusal;
    struct buf bytes, texts; /* texts: one after another, each with a newline */
    bool is_over;
    struct error err;
};

static void hear(void *arg, enum websocket_kind kind, struct str bytes)
{
    struct watch *watch = arg;
    struct buf *to = kind == WEBSOCKET_BINARY ? &watch->bytes : &watch->texts;
    struct error err;

    to->max = MIB(8);
    if (!buf_append(to, bytes, &err) ||
        (kind == WEBSOCKET_TEXT && !buf_append(to, STR("\n"), &err)))
        abort();
}

static void watch_finish(struct watch *watch)
{
    websocket_client_destroy(watch->line);
    buf_finish(&watch->bytes);
    buf_finish(&watch->texts);
    buf_finish(&watch->refusal.body);
}

/* The status of the refusal, or 101. */
static int dial(struct yard *yard, struct watch *watch, const char *path, const char *protocol,
                const char *key, const char *const *headers)
{
    static const struct websocket_events events = {.message = hear};
    AUTO(secret_finish) struct secret token = secret_create(key ? str_of(key) : STR(""));
    struct http_client *client = NULL;

    watch->refusal.body.max = KIB(64);
    if (!http_client_create(yard->service->url, &client, &watch->err))
        return -1;
    http_client_set_bearer(client, key ? &token : NULL);
    bool ok = websocket_client_open(client,
                                    &(struct websocket_dial){.path = path,
                                                             .protocol = protocol,
                                                             .headers = headers,
                                                             .timeout_ms = 30000},
                                    &events, watch, &watch->line, &watch->refusal, &watch->err);
    http_client_destroy(client);
    return ok ? 101 : watch->refusal.status;
}

static int attach(struct yard *yard, struct watch *watch, const char *query)
{
    const char *path =
        yard_path(yard, yard_process(yard, "pty",
                                     arena_printf(&yard->service->arena, "/attach%s", query)));

    return dial(yard, watch, path, "helmr.pty.v1", yard->key, NULL);
}

static bool refused_with(const struct watch *watch, const char *code)
{
    return watch->refusal.body.len > 0 &&
           memmem(watch->refusal.body.bytes, watch->refusal.body.len, code, strlen(code));
}

static bool has(const struct buf *buf, const char *text)
{
    return buf->len > 0 && memmem(buf->bytes, buf->len, text, strlen(text));
}

static void turn(struct watch *watch)
{
    if (!watch->is_over)
        watch->is_over = !websocket_client_turn(watch->line, &watch->err);
    poll(NULL, 0, 1);
}

static bool sees(struct watch *watch, const char *text)
{
    int64_t until = time_boot_ms() + 30000;

    while (!has(&watch->bytes, text) && !watch->is_over && time_boot_ms() < until)
        turn(watch);
    return has(&watch->bytes, text);
}

static bool is_told(struct watch *watch, const char *text)
{
    int64_t until = time_boot_ms() + 30000;

    while (!has(&watch->texts, text) && !watch->is_over && time_boot_ms() < until)
        turn(watch);
    if (!has(&watch->texts, text))
        printf("# %.*s\n", (int)watch->texts.len, watch->texts.bytes);
    return has(&watch->texts, text);
}

static bool ends_with(struct watch *watch, int code)
{
    int64_t until = time_boot_ms() + 30000;

    while (!watch->is_over && time_boot_ms() < until)
        turn(watch);
    return watch->is_over && websocket_client_code(watch->line) == code;
}

static bool say(struct watch *watch, enum websocket_kind kind, const char *text)
{
    bool ok = websocket_client_send(watch->line, kind, str_of(text), &watch->err);

    while (websocket_client_unsent(watch->line) > 0 && !watch->is_over)
        turn(watch);
    return ok;
}

/* A terminal that is open, of which the worker has been told. */
static bool open_terminal(struct service *service, struct yard *yard)
{
    return yard_set(service, yard) && yard_mount(yard) &&
           yard_make(yard, "/pty", "{\"cols\":100,\"rows\":30}") == 201 && yard_hear(yard) == 1 &&
           yard_report(yard, "started", ",\"pid\":7") == 200;
}

/* The next message to the worker, which may take a moment to be written. */
static bool worker_hears(struct yard *yard, const char *type)
{
    int64_t until = time_boot_ms() + 30000;

    while (yard_hear(yard) == 0)
        if (time_boot_ms() > until)
            return false;
    return strcmp(service_text(yard->service, "messages.0.type"), type) == 0;
}

SERVICE_TEST(a_terminal_is_seen_typed_into_resized_and_ended)
{
    AUTO(watch_finish) struct watch watch = {0};
    struct yard yard;

    CHECK(open_terminal(service, &yard));
    CHECK(attach(&yard, &watch, "") == 101);
    CHECK(is_told(&watch, "{\"type\":\"open\",\"cols\":100,\"rows\":30,\"cursor\":0}"));
    CHECK_STATUS(service, yard_say(&yard, "output", 0, "$ "), 200);
    CHECK(sees(&watch, "$ "));

    CHECK(say(&watch, WEBSOCKET_BINARY, "ls\r"));
    CHECK(worker_hears(&yard, "process_input"));
    CHECK(service_int(service, "messages.0.offset") == 0);
    CHECK_STR(service_text(service, "messages.0.data"), "bHMN");
    CHECK(say(&watch, WEBSOCKET_BINARY, "\x03"));
    CHECK(worker_hears(&yard, "process_input"));
    CHECK(service_int(service, "messages.0.offset") == 3);

    CHECK(say(&watch, WEBSOCKET_TEXT, "{\"type\":\"resize\",\"cols\":80,\"rows\":24}"));
    CHECK(worker_hears(&yard, "process_resize"));
    CHECK(service_int(service, "messages.0.cols") == 80);
    CHECK(say(&watch, WEBSOCKET_TEXT, "{\"type\":\"close\"}"));
    CHECK(worker_hears(&yard, "process_close"));
    CHECK_STATUS(service, yard_say(&yard, "output", 2, "logout\r\n"), 200);
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"exit_code\":3"), 200);
    CHECK(is_told(&watch, "{\"type\":\"closed\",\"exit_code\":3,\"signal\":null}"));
    CHECK(sees(&watch, "$ logout\r\n") && ends_with(&watch, WEBSOCKET_NORMAL));
}

SERVICE_TEST(everybody_sees_the_same_from_where_they_begin)
{
    AUTO(watch_finish) struct watch first = {0}, late = {0}, again = {0};
    struct yard yard;

    CHECK(open_terminal(service, &yard));
    CHECK(attach(&yard, &first, "") == 101);
    CHECK_STATUS(service, yard_say(&yard, "output", 0, "one two "), 200);
    CHECK(sees(&first, "one two "));
    CHECK(attach(&yard, &late, "?cursor=4") == 101);
    CHECK(is_told(&late, "\"cursor\":4}"));
    CHECK_STATUS(service, yard_say(&yard, "output", 8, "three"), 200);
    CHECK(sees(&first, "three") && sees(&late, "three"));
    CHECK(str_equal(buf_str(&first.bytes), STR("one two three")));
    CHECK(str_equal(buf_str(&late.bytes), STR("two three")));

    /* Closing one leaves the terminal and the other. */
    websocket_client_close(late.line, WEBSOCKET_NORMAL, "");
    turn(&late);
    CHECK_STATUS(service, yard_get(&yard, yard_process(&yard, "pty", "")), 200);
    CHECK_STR(service_text(service, "state"), "open");
    CHECK_STATUS(service, yard_say(&yard, "output", 13, "!"), 200);
    CHECK(sees(&first, "three!"));
    CHECK(attach(&yard, &again, "?cursor=13") == 101 && sees(&again, "!"));
    CHECK(again.bytes.len == 1);
}

SERVICE_TEST(the_place_is_told_at_least_every_64_kib)
{
    AUTO(watch_finish) struct watch watch = {0};
    char *text = alloc(200001);
    struct yard yard;
    int64_t last = 0;

    CHECK(open_terminal(service, &yard));
    memset(text, 'x', 200000);
    text[200000] = '\0';
    CHECK_STATUS(service, yard_say(&yard, "output", 0, text), 200);
    free(text);
    CHECK_STATUS(service, yard_say(&yard, "output", 200000, "end"), 200);
    CHECK(attach(&yard, &watch, "") == 101 && sees(&watch, "end"));
    CHECK(watch.bytes.len == 200003);
    struct str rest = buf_str(&watch.texts), line;
    while (str_split(&rest, '\n', &line) && line.len > 0) {
        struct str number = {0};

        CHECK(json_find_raw(line, "cursor", &service->arena, &number));
        int64_t cursor = strtoll(arena_text(&service->arena, number), NULL, 10);
        CHECK(cursor - last <= 65536);
        last = cursor;
    }
    CHECK(last >= 200003 - 65536);
}

SERVICE_TEST(what_may_not_be_attached_is_refused_before_the_upgrade)
{
    const char *reader;
    struct yard yard;

    CHECK(open_terminal(service, &yard));
    {
        AUTO(watch_finish) struct watch watch = {0};
        CHECK(attach(&yard, &watch, "?cursor=5") == 400 && refused_with(&watch, "invalid_cursor"));
    }
    {
        AUTO(watch_finish) struct watch watch = {0};
        reader = service_make_key(service, "\"workspace-pty:read\"");
        CHECK(dial(&yard, &watch, yard_path(&yard, yard_process(&yard, "pty", "/attach")),
                   "helmr.pty.v1", reader, NULL) == 403);
        CHECK(refused_with(&watch, "permission_required"));
    }
    {
        AUTO(watch_finish) struct watch watch = {0};
        CHECK(dial(&yard, &watch, yard_path(&yard, "/pty/no-such/attach"), "helmr.pty.v1", yard.key,
                   NULL) == 404);
        CHECK(refused_with(&watch, "workspace_pty_not_found"));
    }
    {
        AUTO(watch_finish) struct watch watch = {0};
        CHECK(dial(&yard, &watch, yard_path(&yard, yard_process(&yard, "pty", "/attach")),
                   "helmr.pty.v2", yard.key, NULL) == 400);
    }
    CHECK_STATUS(service, yard_get(&yard, yard_process(&yard, "pty", "/attach")), 400);
}

/* A page of somebody else's cannot open one with the cookie of whoever looks at it. */
SERVICE_TEST(a_cookie_opens_one_only_from_our_own_pages)
{
    struct yard yard;

    CHECK(open_terminal(service, &yard) && service_sign_in(service));
    const char *cookie =
        arena_printf(&service->arena, "Cookie: " SESSION_COOKIE "=%s", service->session);
    const char *ours = arena_printf(&service->arena, "Origin: %s", service->url);
    const char *path = yard_path(&yard, yard_process(&yard, "pty", "/attach"));
    const char *const none[] = {cookie, NULL}, *const good[] = {cookie, ours, NULL};
    const char *const evil[] = {cookie, "Origin: https://evil.example", NULL};
    AUTO(watch_finish) struct watch first = {0}, second = {0}, third = {0};

    CHECK(dial(&yard, &first, path, "helmr.pty.v1", NULL, none) == 403);
    CHECK(refused_with(&first, "origin_refused"));
    CHECK(dial(&yard, &second, path, "helmr.pty.v1", NULL, evil) == 403);
    CHECK(dial(&yard, &third, path, "helmr.pty.v1", NULL, good) == 101);
    CHECK(is_told(&third, "\"type\":\"open\""));
}

SERVICE_TEST(nonsense_ends_the_attachment_and_not_the_terminal)
{
    static const char *const nonsense[] = {"{\"type\":\"resize\"}", "{\"type\":\"dance\"}", "hello",
                                           "{\"type\":\"resize\",\"cols\":0,\"rows\":1}"};
    struct yard yard;

    CHECK(open_terminal(service, &yard));
    for (size_t i = 0; i < COUNT_OF(nonsense); i++) {
        AUTO(watch_finish) struct watch watch = {0};

        CHECK(attach(&yard, &watch, "") == 101 && say(&watch, WEBSOCKET_TEXT, nonsense[i]));
        CHECK(is_told(&watch, "{\"type\":\"error\",\"code\":\"invalid_"));
        CHECK(ends_with(&watch, WEBSOCKET_POLICY));
    }
    CHECK_STATUS(service, yard_get(&yard, yard_process(&yard, "pty", "")), 200);
    CHECK_STR(service_text(service, "state"), "open");
}

SERVICE_TEST(a_key_that_is_revoked_sees_nothing_more)
{
    AUTO(watch_finish) struct watch watch = {0};
    struct yard yard;

    CHECK(open_terminal(service, &yard));
    const char *key = service_make_key(service, "\"workspace-pty:manage\"");
    const char *key_id = arena_printf(&service->arena, "%s", service_text(service, "id"));
    CHECK(dial(&yard, &watch, yard_path(&yard, yard_process(&yard, "pty", "/attach")),
               "helmr.pty.v1", key, NULL) == 101);
    CHECK(is_told(&watch, "\"type\":\"open\""));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "DELETE",
                             arena_printf(&service->arena, "/api/api-keys/%s", key_id), NULL),
                 204);
    CHECK_STATUS(service, yard_say(&yard, "output", 0, "secret"), 200);
    CHECK(ends_with(&watch, WEBSOCKET_POLICY));
    CHECK(!has(&watch.bytes, "secret"));
}

static const char *port_path(struct yard *yard, int port)
{
    return yard_path(yard, arena_printf(&yard->service->arena, "/ports/%d", port));
}

/* What a sandbox lists, as its deployment says. */
static bool list_ports(struct service *service)
{
    static const struct query list = {"test_ports", 0, 0,
                                      SAME_ON_BOTH(
                                          "UPDATE deployment_sandboxes SET network = "
                                          "'{\"internet\":true,\"deny\":[],\"ports\":[3000]}'")};
    struct error err;
    AUTO_TX tx = NULL;

    return store_begin(service->server->store, &tx, &err) &&
           store_run(tx, &list, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err);
}

SERVICE_TEST(a_port_must_be_listed_and_its_workspace_mounted)
{
    AUTO(watch_finish) struct watch first = {0}, second = {0}, third = {0}, fourth = {0};
    struct yard yard;

    CHECK(yard_set(service, &yard));
    CHECK(dial(&yard, &first, port_path(&yard, 3000), "helmr.port.v1", yard.key, NULL) == 403);
    CHECK(refused_with(&first, "port_not_allowed"));
    CHECK(list_ports(service));
    CHECK(dial(&yard, &second, port_path(&yard, 3001), "helmr.port.v1", yard.key, NULL) == 403);
    CHECK(dial(&yard, &third, port_path(&yard, 3000), "helmr.port.v1", yard.key, NULL) == 409);
    CHECK(refused_with(&third, "workspace_not_mounted"));
    CHECK(dial(&yard, &fourth, port_path(&yard, 70000), "helmr.port.v1", yard.key, NULL) == 400);
}

/* The client blocks until the worker has come, so each has a thread. */
struct visit {
    struct yard *yard;
    struct watch watch;
    int status;
};

static void *visit(void *arg)
{
    struct visit *visit = arg;

    visit->status = dial(visit->yard, &visit->watch,
                         arena_printf(&visit->yard->service->arena, "/api/workspaces/%s/ports/3000",
                                      visit->yard->workspace),
                         "helmr.port.v1", visit->yard->key, NULL);
    return NULL;
}

static const char *relay_path(struct yard *yard, int64_t too_much)
{
    const struct test_worker *worker = &yard->worker;

    return arena_printf(&yard->service->arena,
                        "/api/worker/leases/%s/relay/port-3000-1?epoch=%lld&sequence=%lld",
                        worker->lease, (long long)worker->epoch,
                        (long long)worker->sequence + too_much);
}

SERVICE_TEST(a_port_and_the_worker_that_dials_meet)
{
    struct yard yard;
    struct visit visitor = {.yard = &yard};
    AUTO(watch_finish) struct watch worker = {0}, stale = {0};
    pthread_t thread;

    CHECK(yard_set(service, &yard) && list_ports(service) && yard_mount(&yard));
    CHECK(pthread_create(&thread, NULL, visit, &visitor) == 0);
    CHECK(worker_hears(&yard, "relay_open"));
    CHECK_STR(service_text(service, "messages.0.name"), "port-3000-1");
    const char *const headers[] = {"Helmr-Worker-Protocol: helmr.worker.v0", NULL};
    CHECK(dial(&yard, &stale, relay_path(&yard, 1), "helmr.relay.v0", yard.worker.bearer,
               headers) == 409);
    CHECK(dial(&yard, &worker, relay_path(&yard, 0), "helmr.relay.v0", yard.worker.bearer,
               headers) == 101);
    CHECK(say(&worker, WEBSOCKET_TEXT, "{\"type\":\"open\"}"));
    pthread_join(thread, NULL);
    CHECK(visitor.status == 101);
    CHECK(say(&visitor.watch, WEBSOCKET_BINARY, "GET / HTTP/1.0\r\n\r\n"));
    CHECK(sees(&worker, "GET /"));
    CHECK(say(&worker, WEBSOCKET_BINARY, "HTTP/1.0 200 OK\r\n\r\nhello"));
    CHECK(sees(&visitor.watch, "hello"));
    watch_finish(&visitor.watch);
    CHECK(ends_with(&worker, WEBSOCKET_GOING_AWAY));
}

TEST_MAIN()
