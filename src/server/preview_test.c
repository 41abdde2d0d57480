/* Ports of sandboxes in a browser, with a worker that plays the program behind the port. */
#include <poll.h>
#include <pthread.h>

#include "base/own.h"
#include "base/time.h"
#include "http/websocket_client.h"
#include "server/mount_testing.h"
#include "server/preview_grant.h"

/* The browser: a thread, since it waits for the worker, and what it was answered. */
struct browser {
    const char *method, *path, *cookie;
    const char *const *headers;
    struct str body;
    int port, status;
    struct http_answer answer;
    char location[256], set_cookies[1024], service_worker[64], kept[64];
    pthread_t thread;
};

/* The program's end of one connection. */
struct program {
    struct websocket_client *line;
    struct http_answer refusal;
    struct buf heard;
    bool is_over;
};

static void note(void *arg, struct str name, struct str value)
{
    struct browser *browser = arg;
    size_t used = strlen(browser->set_cookies);

    if (str_equal_nocase(name, STR("location")))
        snprintf(browser->location, sizeof browser->location, "%.*s", (int)value.len, value.ptr);
    if (str_equal_nocase(name, STR("set-cookie")))
        snprintf(browser->set_cookies + used, sizeof browser->set_cookies - used, "%.*s\n",
                 (int)value.len, value.ptr);
    if (str_equal_nocase(name, STR("service-worker-allowed")))
        snprintf(browser->service_worker, sizeof browser->service_worker, "there");
    if (str_equal_nocase(name, STR("x-kept")))
        snprintf(browser->kept, sizeof browser->kept, "%.*s", (int)value.len, value.ptr);
}

static void *browse_now(void *arg)
{
    struct browser *browser = arg;
    AUTO(arena_finish) struct arena arena = {0};
    const char *headers[8] = {NULL};
    struct http_client *client = NULL;
    struct error err;
    size_t n = 0;

    if (browser->cookie)
        headers[n++] = arena_printf(&arena, "Cookie: %s", browser->cookie);
    for (size_t i = 0; browser->headers && browser->headers[i]; i++)
        headers[n++] = browser->headers[i];
    browser->answer = (struct http_answer){.body.max = MIB(8)};
    browser->status = -1;
    const struct http_request request = {.method = browser->method ? browser->method : "GET",
                                         .path = browser->path,
                                         .headers = headers,
                                         .body = browser->body,
                                         .timeout_ms = 60000,
                                         .on_header = note,
                                         .on_header_arg = browser};
    if (http_client_create(arena_printf(&arena, "http://127.0.0.1:%d", browser->port), &client,
                           &err) &&
        http_client_send(client, &request, &browser->answer, &err))
        browser->status = browser->answer.status;
    http_client_destroy(client);
    return NULL;
}

static void browser_finish(struct browser *browser)
{
    buf_finish(&browser->answer.body);
}

static int browse(struct service *service, struct browser *browser)
{
    browser->port = http_server_port(service->server->preview_http);
    browse_now(browser);
    return browser->status;
}

static bool says(const struct browser *browser, const char *text)
{
    return browser->answer.body.len > 0 &&
           memmem(browser->answer.body.bytes, browser->answer.body.len, text, strlen(text));
}

static void hear(void *arg, enum websocket_kind kind, struct str bytes)
{
    struct program *program = arg;
    struct error err;

    program->heard.max = MIB(8);
    if (kind == WEBSOCKET_BINARY && !buf_append(&program->heard, bytes, &err))
        abort();
}

static void program_finish(struct program *program)
{
    websocket_client_destroy(program->line);
    buf_finish(&program->heard);
    buf_finish(&program->refusal.body);
}

static void turn(struct program *program)
{
    struct error err;

    if (!program->is_over)
        program->is_over = !websocket_client_turn(program->line, &err);
    poll(NULL, 0, 1);
}

static bool say(struct program *program, enum websocket_kind kind, const char *text)
{
    struct error err;
    bool ok = websocket_client_send(program->line, kind, str_of(text), &err);

    while (websocket_client_unsent(program->line) > 0 && !program->is_over)
        turn(program);
    return ok;
}

static bool hears(struct program *program, const char *text)
{
    int64_t until = time_boot_ms() + 60000;

    while (time_boot_ms() < until && !program->is_over &&
           !(program->heard.len > 0 &&
             memmem(program->heard.bytes, program->heard.len, text, strlen(text))))
        turn(program);
    return program->heard.len > 0 &&
           memmem(program->heard.bytes, program->heard.len, text, strlen(text));
}

/* The worker is told of a connection, dials, and says that the port is there. */
static bool answer_door(struct yard *yard, struct program *program)
{
    static const struct websocket_events events = {.message = hear};
    const char *const headers[] = {"Helmr-Worker-Protocol: helmr.worker.v0", NULL};
    AUTO(secret_finish) struct secret token = secret_create(str_of(yard->worker.bearer));
    struct http_client *client = NULL;
    struct error err;
    int64_t until = time_boot_ms() + 60000;

    while (yard_hear(yard) == 0)
        if (time_boot_ms() > until)
            return false;
    const char *path =
        arena_printf(&yard->service->arena,
                     "/api/worker/leases/%s/relay/%s?epoch=%lld&sequence=%lld", yard->worker.lease,
                     service_text(yard->service, "messages.0.name"), (long long)yard->worker.epoch,
                     (long long)yard->worker.sequence);
    program->refusal.body.max = KIB(64);
    if (!http_client_create(yard->service->url, &client, &err))
        return false;
    http_client_set_bearer(client, &token);
    bool ok = websocket_client_open(client,
                                    &(struct websocket_dial){.path = path,
                                                             .protocol = "helmr.relay.v0",
                                                             .headers = headers,
                                                             .timeout_ms = 60000},
                                    &events, program, &program->line, &program->refusal, &err);
    http_client_destroy(client);
    return ok && say(program, WEBSOCKET_TEXT, "{\"type\":\"open\"}");
}

/* A request that the program gets whole, and its answer. */
static bool visit(struct yard *yard, struct browser *browser, struct program *program,
                  const char *last_words, const char *answer)
{
    browser->port = http_server_port(yard->service->server->preview_http);
    if (pthread_create(&browser->thread, NULL, browse_now, browser) != 0)
        return false;
    bool ok = answer_door(yard, program) && hears(program, last_words) &&
              say(program, WEBSOCKET_BINARY, answer) &&
              say(program, WEBSOCKET_TEXT, "{\"type\":\"end\"}");
    pthread_join(browser->thread, NULL);
    return ok;
}

/* What a sandbox lists, as its deployment says. */
static bool list_ports(struct service *service)
{
    static const struct query list = {
        "test_ports", 0, 0,
        SAME_ON_BOTH("UPDATE deployment_sandboxes SET network = "
                     "'{\"internet\":true,\"deny\":[],\"ports\":[3000,3001]}'")};
    struct error err;
    AUTO_TX tx = NULL;

    return store_begin(service->server->store, &tx, &err) &&
           store_run(tx, &list, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err);
}

/* The path of a new link, with its token. */
static const char *make_link(struct yard *yard, const char *key)
{
    static const char origin[] = "http://previews.localhost";

    if (service_ask(yard->service, key, "POST", yard_path(yard, "/ports/3000/preview"), "") != 201)
        return "";
    const char *url = service_text(yard->service, "url");
    return strncmp(url, origin, sizeof origin - 1) == 0 &&
                   *service_text(yard->service, "expires_at")
               ? url + sizeof origin - 1
               : "";
}

static const char *place_of(struct yard *yard, const char *rest)
{
    return arena_printf(&yard->service->arena, "/w/%s/3000/%s", yard->workspace, rest);
}

/* Follows a link: the cookie as a browser sends it back. */
static const char *open_preview(struct yard *yard, const char *key)
{
    AUTO(browser_finish) struct browser browser = {.path = make_link(yard, key)};

    if (browse(yard->service, &browser) != 303)
        return "";
    return arena_printf(&yard->service->arena, "%.*s", (int)strcspn(browser.set_cookies, ";"),
                        browser.set_cookies);
}

SERVICE_TEST(a_link_opens_once_and_becomes_a_cookie_of_its_path)
{
    AUTO(browser_finish) struct browser first = {0}, again = {0}, bare = {0};
    struct yard yard;

    CHECK(yard_set(service, &yard));
    CHECK_REFUSED(service, yard_post(&yard, "/ports/3000/preview", ""), 403, "port_not_allowed");
    CHECK(list_ports(service));
    CHECK_REFUSED(service, yard_post(&yard, "/ports/4000/preview", ""), 403, "port_not_allowed");
    const char *reader = service_make_key(service, "\"workspace-exec:read\"");
    CHECK_STATUS(service,
                 service_ask(service, reader, "POST", yard_path(&yard, "/ports/3000/preview"), ""),
                 403);

    first.path = again.path =
        arena_printf(&service->arena, "%s&page=2", make_link(&yard, yard.key));
    CHECK(browse(service, &first) == 303);
    CHECK_STR(first.location, place_of(&yard, "?page=2"));
    CHECK(strncmp(first.set_cookies, "helmr_preview=hlmr_pc_", 22) == 0);
    CHECK(strstr(first.set_cookies, arena_printf(&service->arena,
                                                 "; Path=/w/%s/3000/; HttpOnly; SameSite=Lax; "
                                                 "Max-Age=3600\n",
                                                 yard.workspace)));
    CHECK(browse(service, &again) == 401 && !*again.set_cookies);
    bare.path = place_of(&yard, "");
    CHECK(browse(service, &bare) == 401 && says(&bare, "helmr workspace preview"));
}

SERVICE_TEST(a_link_and_a_cookie_are_for_one_port_of_one_workspace)
{
    struct yard yard;
    char other[ID_TEXT];

    CHECK(yard_set(service, &yard) && list_ports(service));
    CHECK_STATUS(service,
                 service_ask(service, yard.key, "POST", "/api/workspaces",
                             "{\"sandbox_id\":\"box\"}"),
                 201);
    snprintf(other, sizeof other, "%s", service_text(service, "workspace.id"));
    const char *wrong[] = {
        arena_printf(&service->arena, "/w/%s/3000/", other),
        arena_printf(&service->arena, "/w/%s/3001/", yard.workspace),
    };
    const char *cookie = open_preview(&yard, yard.key);
    CHECK(*cookie);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        AUTO(browser_finish) struct browser link = {0}, with = {0};
        const char *token = strchr(make_link(&yard, yard.key), '?');
        CHECK(token);
        link.path = arena_printf(&service->arena, "%s%s", wrong[i], token);
        CHECK(browse(service, &link) == 401 && !*link.set_cookies);
        with.path = wrong[i];
        with.cookie = cookie;
        CHECK(browse(service, &with) == 401);
    }
    AUTO(browser_finish) struct browser right = {.path = place_of(&yard, ""), .cookie = cookie};
    CHECK(browse(service, &right) == 409 && says(&right, "workspace_not_mounted"));
}

SERVICE_TEST(each_listener_serves_its_own_and_nothing_else)
{
    static const char *const paths[] = {"/",          "/api/runs",  "/api/me",           "/healthz",
                                        "/dev/login", "/style.css", "/api/openapi.json", "/w/x"};
    struct yard yard;

    CHECK(yard_set(service, &yard) && list_ports(service));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        AUTO(browser_finish) struct browser browser = {.path = paths[i]};
        CHECK(browse(service, &browser) == 404);
    }
    const char *link = make_link(&yard, yard.key);
    CHECK_STATUS(service, service_ask(service, yard.key, "GET", link, NULL), 404);
    AUTO(browser_finish) struct browser still = {.path = link};
    CHECK(browse(service, &still) == 303);

    service->config.preview_url = NULL;
    CHECK_STATUS(service, yard_post(&yard, "/ports/3000/preview", ""), 404);
    CHECK(service_says(service, "HELMR_PREVIEW_URL"));
    service->config.preview_url = "http://previews.localhost";
}

SERVICE_TEST(a_request_reaches_the_program_without_what_is_ours)
{
    static const char *const headers[] = {"Authorization: Bearer secret",
                                          "X-Forwarded-For: 9.9.9.9",
                                          "X-Mine: yes",
                                          "Connection: keep-alive, X-Hop",
                                          "X-Hop: 1",
                                          NULL};
    struct yard yard;
    AUTO(program_finish) struct program program = {0};
    AUTO(browser_finish) struct browser browser = {.headers = headers};

    CHECK(yard_set(service, &yard) && list_ports(service) && yard_mount(&yard));
    browser.path = place_of(&yard, "a/b?c=d&e");
    browser.cookie = arena_printf(&service->arena, "theirs=1; %s; helmr_session_dev=x; more=2",
                                  open_preview(&yard, yard.key));
    CHECK(visit(&yard, &browser, &program, "\r\n\r\n",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 418 Teapot\r\nX-Kept: this\r\n"
                "Set-Cookie: a=1; Path=/\r\nSet-Cookie: helmr_preview=stolen\r\n"
                "Service-Worker-Allowed: /\r\nContent-Length: 5\r\n\r\nhellomore than it said"));
    CHECK(browser.status == 418 && says(&browser, "hello") && browser.answer.body.len == 5);
    CHECK_STR(browser.kept, "this");
    CHECK_STR(browser.set_cookies,
              arena_printf(&service->arena, "a=1; Path=/w/%s/3000/\n", yard.workspace));
    CHECK(!*browser.service_worker);

    static const char *const there[] = {"GET /a/b?c=d&e HTTP/1.1\r\n",
                                        "Host: 127.0.0.1:3000\r\n",
                                        "Connection: close\r\n",
                                        "\r\nCookie: theirs=1; more=2\r\n",
                                        "X-Mine: yes\r\n",
                                        "X-Forwarded-Proto: http\r\n",
                                        "X-Forwarded-For: 127.0.0.1\r\n",
                                        "X-Forwarded-Prefix: /w/"};
    static const char *const gone[] = {"hlmr_",   "helmr_", "ecret",
                                       "9.9.9.9", "X-Hop",  "keep-alive"};
    for (size_t i = 0; i < COUNT_OF(there); i++)
        CHECK(hears(&program, there[i]));
    for (size_t i = 0; i < COUNT_OF(gone); i++)
        CHECK(!memmem(program.heard.bytes, program.heard.len, gone[i], strlen(gone[i])));
}

SERVICE_TEST(bodies_go_both_ways_whole)
{
    enum { LEN = 1024 * 1024 };
    struct yard yard;
    AUTO(program_finish) struct program program = {0}, chunks = {0}, head = {0};
    AUTO(browser_finish) struct browser poster = {.method = "POST"}, reader = {0}, empty = {0};
    AUTO_FREE char *body = alloc(LEN + 1);

    CHECK(yard_set(service, &yard) && list_ports(service) && yard_mount(&yard));
    memset(body, 'b', LEN);
    memcpy(body + LEN - 8, "the end.", 9);
    poster.path = reader.path = empty.path = place_of(&yard, "post");
    poster.cookie = reader.cookie = empty.cookie = open_preview(&yard, yard.key);
    poster.body = (struct str){body, LEN};
    CHECK(visit(&yard, &poster, &program, "the end.", "HTTP/1.0 201 Created\r\n\r\nto the end"));
    CHECK(poster.status == 201 && says(&poster, "to the end"));
    CHECK(hears(&program, "Content-Length: 1048576\r\n") && program.heard.len > LEN);

    CHECK(visit(&yard, &reader, &chunks, "\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n"
                "\r\n"));
    CHECK(reader.status == 200 && says(&reader, "onetwo") && reader.answer.body.len == 6);
    CHECK(visit(&yard, &empty, &head, "\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"));
    CHECK(empty.status == 204 && empty.answer.body.len == 0);
}

SERVICE_TEST(what_is_no_answer_is_told_as_such)
{
    static const char *const answers[] = {"220 mail ready\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b", ""};
    struct yard yard;

    CHECK(yard_set(service, &yard) && list_ports(service) && yard_mount(&yard));
    const char *cookie = open_preview(&yard, yard.key);
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        AUTO(program_finish) struct program program = {0};
        AUTO(browser_finish)
        struct browser browser = {.path = place_of(&yard, ""), .cookie = cookie};
        CHECK(visit(&yard, &browser, &program, "\r\n\r\n", answers[i]));
        CHECK(browser.status == 502 && says(&browser, "did not answer with HTTP"));
    }
}

SERVICE_TEST(who_may_not_sends_nothing_in)
{
    struct yard yard;

    CHECK(yard_set(service, &yard) && list_ports(service) && yard_mount(&yard));
    const char *key = service_make_key(service, "\"workspace-exec:create\"");
    const char *key_id = arena_printf(&service->arena, "%s", service_text(service, "id"));
    const char *cookie = open_preview(&yard, key);
    CHECK(*cookie);
#define UPGRADE "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"
    static const char key_line[] = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    static const struct {
        int status;
        const char *const headers[7];
    } sockets[] = {
        {403, {UPGRADE, key_line}                                               },
        {403, {UPGRADE, key_line, "Origin: http://elsewhere.localhost"}         },
        {403, {UPGRADE, key_line, "Origin: http://previews.localhost.evil.test"}},
        {400, {UPGRADE, "Origin: http://previews.localhost"}                    },
    };
    for (size_t i = 0; i < COUNT_OF(sockets); i++) {
        AUTO(browser_finish)
        struct browser socket = {.path = place_of(&yard, ""),
                                 .cookie = cookie,
                                 .headers = sockets[i].headers};
        CHECK(browse(service, &socket) == sockets[i].status);
    }
    AUTO(browser_finish)
    struct browser stranger = {.method = "POST", .path = place_of(&yard, ""), .body = STR("x")};
    CHECK(browse(service, &stranger) == 401);

    const char *unused = make_link(&yard, key);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "DELETE",
                             arena_printf(&service->arena, "/api/api-keys/%s", key_id), NULL),
                 204);
    AUTO(browser_finish) struct browser late = {.path = place_of(&yard, ""), .cookie = cookie};
    CHECK(browse(service, &late) == 401);
    AUTO(browser_finish) struct browser link = {.path = unused};
    browse(service, &link);
    AUTO(browser_finish)
    struct browser follows = {.path = place_of(&yard, ""),
                              .cookie = arena_printf(&service->arena, "%.*s",
                                                     (int)strcspn(link.set_cookies, ";"),
                                                     link.set_cookies)};
    CHECK(browse(service, &follows) == 401);
    CHECK(yard_hear(&yard) == 0);
}

/* A page's end of a WebSocket, on a thread: what it says and what it hears. */
struct page {
    const char *path, *cookie;
    int port;
    char heard[64];
    bool is_open;
    pthread_t thread;
};

static void page_hears(void *arg, enum websocket_kind kind UNUSED, struct str bytes)
{
    struct page *page = arg;

    snprintf(page->heard, sizeof page->heard, "%.*s", (int)bytes.len, bytes.ptr);
}

static void *page_main(void *arg)
{
    static const struct websocket_events events = {.message = page_hears};
    struct page *page = arg;
    AUTO(arena_finish) struct arena arena = {0};
    const char *const headers[] = {arena_printf(&arena, "Cookie: mine=1; %s", page->cookie),
                                   "Origin: http://previews.localhost", NULL};
    const struct websocket_dial dial = {.path = page->path,
                                        .protocol = "reload.v1",
                                        .headers = headers,
                                        .timeout_ms = 60000};
    struct http_answer refusal = {.body.max = KIB(64)};
    struct websocket_client *line = NULL;
    struct http_client *client = NULL;
    struct error err;

    if (http_client_create(arena_printf(&arena, "http://127.0.0.1:%d", page->port), &client,
                           &err) &&
        websocket_client_open(client, &dial, &events, page, &line, &refusal, &err)) {
        page->is_open = websocket_client_send(line, WEBSOCKET_TEXT, STR("hello program"), &err);
        while (!page->heard[0] && websocket_client_turn(line, &err))
            poll(NULL, 0, 1);
    }
    websocket_client_destroy(line);
    http_client_destroy(client);
    buf_finish(&refusal.body);
    return NULL;
}

/* The text of a masked frame of less than 126 bytes that came behind the head. */
static bool hears_frame(struct program *program, size_t head_len, const char *text)
{
    size_t len = strlen(text);
    int64_t until = time_boot_ms() + 60000;

    while (program->heard.len < head_len + 6 + len && time_boot_ms() < until)
        turn(program);
    if (program->heard.len < head_len + 6 + len)
        return false;
    const char *frame = program->heard.bytes + head_len;
    for (size_t i = 0; i < len; i++)
        if ((frame[6 + i] ^ frame[2 + i % 4]) != text[i])
            return false;
    return (unsigned char)frame[0] == 0x81 && (unsigned char)frame[1] == (0x80 | len);
}

SERVICE_TEST(a_websocket_reaches_the_program_and_comes_back)
{
    static const char *const there[] = {"GET /socket?x=1 HTTP/1.1\r\n",
                                        "\r\nHost: 127.0.0.1:3000\r\n",
                                        "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
                                        "\r\nOrigin: http://127.0.0.1:3000\r\n",
                                        "\r\nSec-WebSocket-Protocol: reload.v1\r\n",
                                        "\r\nSec-WebSocket-Version: 13\r\n",
                                        "\r\nCookie: mine=1\r\n"};
    struct yard yard;
    AUTO(program_finish) struct program program = {0};
    char accept[WEBSOCKET_ACCEPT_TEXT];

    CHECK(yard_set(service, &yard) && list_ports(service) && yard_mount(&yard));
    struct page page = {.path = place_of(&yard, "socket?x=1"),
                        .cookie = open_preview(&yard, yard.key),
                        .port = http_server_port(service->server->preview_http)};
    CHECK(pthread_create(&page.thread, NULL, page_main, &page) == 0);
    CHECK(answer_door(&yard, &program) && hears(&program, "\r\n\r\n"));
    size_t head_len = program.heard.len;
    for (size_t i = 0; i < COUNT_OF(there); i++)
        CHECK(hears(&program, there[i]));
    CHECK(!memmem(program.heard.bytes, head_len, "previews.localhost\r\nOrigin", 26) &&
          !memmem(program.heard.bytes, head_len, "helmr_", 6));
    const char *key = memmem(program.heard.bytes, head_len, "Sec-WebSocket-Key: ", 19);
    CHECK(key);
    websocket_accept_of((struct str){key + 19, WEBSOCKET_KEY_TEXT - 1}, accept);
    CHECK(say(&program, WEBSOCKET_BINARY,
              arena_printf(&service->arena,
                           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                           "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"
                           "Sec-WebSocket-Protocol: reload.v1\r\n\r\n",
                           accept)));
    CHECK(hears_frame(&program, head_len, "hello program"));
    CHECK(say(&program, WEBSOCKET_BINARY, "\x81\x0ahello page"));
    pthread_join(page.thread, NULL);
    CHECK(page.is_open);
    CHECK_STR(page.heard, "hello page");
    while (!program.is_over)
        turn(&program);
}

TEST(links_and_cookies_end_by_themselves)
{
    struct previews *previews = previews_create();
    const struct preview_grant grant = {
        .place = {.workspace_id = "one", .port = 3000}
    };
    struct preview_grant found;
    char link[TOKEN_TEXT], cookie[TOKEN_TEXT];
    struct error err;

    CHECK(preview_link(previews, &grant, 0, link, &err));
    CHECK(!preview_open(previews, str_of(link), STR("one"), 3000, PREVIEW_LINK_MS, cookie));
    CHECK(preview_link(previews, &grant, 0, link, &err));
    CHECK(preview_open(previews, str_of(link), STR("one"), 3000, PREVIEW_LINK_MS - 1, cookie));
    CHECK(!preview_open(previews, str_of(cookie), STR("one"), 3000, PREVIEW_LINK_MS, link));
    int64_t end = PREVIEW_LINK_MS - 1 + PREVIEW_COOKIE_MS;
    CHECK(preview_find(previews, str_of(cookie), STR("one"), 3000, end - 1, &found));
    CHECK(!preview_find(previews, str_of(cookie), STR("one"), 3000, end, &found));
    CHECK(!preview_find(previews, str_of(link), STR("one"), 3000, 1, &found));
    previews_destroy(previews);
}

TEST(the_oldest_of_a_caller_makes_room)
{
    struct previews *previews = previews_create();
    const struct preview_grant grant = {
        .place = {.workspace_id = "one", .port = 3000}
    };
    struct preview_grant others = grant;
    char first[TOKEN_TEXT], theirs[TOKEN_TEXT], link[TOKEN_TEXT], cookie[TOKEN_TEXT];
    struct error err;

    others.hold.hash[0] = 1;
    CHECK(preview_link(previews, &others, 0, theirs, &err));
    CHECK(preview_link(previews, &grant, 0, first, &err));
    for (int i = 0; i < PREVIEWS_OF_CALLER_MAX; i++)
        CHECK(preview_link(previews, &grant, 0, link, &err));
    CHECK(!preview_open(previews, str_of(first), STR("one"), 3000, 1, cookie));
    CHECK(preview_open(previews, str_of(link), STR("one"), 3000, 1, cookie));
    CHECK(preview_open(previews, str_of(theirs), STR("one"), 3000, 1, cookie));
    previews_destroy(previews);
}

TEST_MAIN()
