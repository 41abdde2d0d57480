#include "server/relay.h"

#include <poll.h>
#include <stdio.h>

#include "base/own.h"
#include "base/test.h"
#include "base/time.h"
#include "http/testing.h"
#include "http/websocket_client.h"
#include "server/context.h"

#define LEASE "019a0000-0000-7000-8000-000000000001"
#define ID    "019a0000-0000-7000-8000-00000000000"

static struct server server;

/* The two ends as routes: a client waits until the worker has said something. */
static bool client_get(struct call *call, struct response *res, struct error *err)
{
    const char *id = arena_text(call->arena, call_param(call, 0));
    bool is_asked, is_open;
    char topic[TOPIC_TEXT];

    if (!relay_look(server.relays, id, &is_asked, &is_open, err))
        return false;
    if (is_open)
        return websocket_asked(call, res, "helmr.port.v1", err) &&
               relay_join_client(server.relays, id, call, res, err);
    relay_topic(id, topic);
    response_park(res, topic, 10000);
    return true;
}

static bool worker_get(struct call *call, struct response *res, struct error *err)
{
    return relay_join_worker(server.relays, STR(LEASE), call_param(call, 0), call, res, err);
}

static const struct route routes[] = {
    {METHOD_GET, "/client/:id",   1, client_get},
    {METHOD_GET, "/worker/:name", 1, worker_get},
};

/* One end, and what it heard. */
struct end {
    struct websocket_client *line;
    struct buf bytes;
    bool has_end, is_over;
};

static struct http_client *http;
static struct http_answer refusal;
static struct error err;
static struct end client, worker;

static void hear(void *arg, enum websocket_kind kind, struct str bytes)
{
    struct end *end = arg;
    struct error ignored;

    end->bytes.max = MIB(64);
    if (kind == WEBSOCKET_TEXT)
        end->has_end = str_equal(bytes, STR("{\"type\":\"end\"}"));
    else if (!buf_append(&end->bytes, bytes, &ignored))
        abort();
}

static bool dial(struct end *end, const char *path, const char *protocol)
{
    static const struct websocket_events events = {.message = hear};

    buf_finish(&refusal.body);
    refusal.body.max = KIB(64);
    return websocket_client_open(
        http, &(struct websocket_dial){.path = path, .protocol = protocol, .timeout_ms = 10000},
        &events, end, &end->line, &refusal, &err);
}

static void turn(struct end *end)
{
    if (end->line && !end->is_over)
        end->is_over = !websocket_client_turn(end->line, &err);
}

/* Turns both until the first has so many bytes, and its end when that is wanted. */
static bool until(struct end *end, size_t len, bool is_ended)
{
    int64_t deadline = time_boot_ms() + 20000;

    while ((end->bytes.len < len || end->has_end < is_ended) && time_boot_ms() < deadline) {
        turn(&client);
        turn(&worker);
        poll(NULL, 0, 1);
    }
    return end->bytes.len == len && end->has_end == is_ended;
}

static bool until_over(struct end *end)
{
    int64_t deadline = time_boot_ms() + 20000;

    while (!end->is_over && time_boot_ms() < deadline) {
        turn(end);
        poll(NULL, 0, 1);
    }
    return end->is_over;
}

static bool say(struct end *end, const char *text)
{
    return websocket_client_send(end->line, WEBSOCKET_TEXT, str_of(text), &err);
}

static bool send(struct end *end, struct str bytes)
{
    return websocket_client_send(end->line, WEBSOCKET_BINARY, bytes, &err);
}

static void begin(void)
{
    char url[64];

    testing_start(routes, COUNT_OF(routes), &(struct http_config){0});
    server = (struct server){.http = testing_server};
    server.hub.server = &server;
    server.relays = relays_create(&server.hub);
    client = worker = (struct end){0};
    snprintf(url, sizeof url, "http://127.0.0.1:%d", testing_port);
    if (!http_client_create(url, &http, &err))
        abort();
}

static void finish(void)
{
    websocket_client_destroy(TAKE(client.line));
    websocket_client_destroy(TAKE(worker.line));
    http_client_destroy(TAKE(http));
    buf_finish(&client.bytes);
    buf_finish(&worker.bytes);
    buf_finish(&refusal.body);
    testing_begin_stop(5000);
    testing_stop();
    relays_destroy(server.relays);
}

/* A channel with both ends there. */
static bool open_both(void)
{
    char name[RELAY_NAME_TEXT], path[96];

    if (!relay_ask(server.relays, ID "1", LEASE, 3000, name, &err))
        return false;
    snprintf(path, sizeof path, "/worker/%s", name);
    if (!dial(&worker, path, "helmr.relay.v0") || !say(&worker, "{\"type\":\"open\"}"))
        return false;
    turn(&worker);
    return dial(&client, "/client/" ID "1", "helmr.port.v1");
}

TEST(bytes_go_both_ways_and_each_direction_ends_by_itself)
{
    begin();
    CHECK(open_both());
    CHECK(send(&client, STR("GET /\n")) && until(&worker, 6, false));
    CHECK(say(&client, "{\"type\":\"end\"}") && until(&worker, 6, true));
    CHECK(send(&worker, STR("hello")) && until(&client, 5, false));
    CHECK(say(&worker, "{\"type\":\"end\"}") && until(&client, 5, true));
    websocket_client_close(client.line, WEBSOCKET_NORMAL, "");
    turn(&client);
    CHECK(until_over(&worker));
    CHECK(websocket_client_code(worker.line) == WEBSOCKET_NORMAL);
    finish();
}

TEST(whoever_reads_nothing_holds_the_other)
{
    enum { MESSAGE = 50000, MESSAGES = 400 };
    AUTO_FREE char *bytes = alloc(MESSAGE);
    size_t sent = 0;

    begin();
    CHECK(open_both());
    memset(bytes, 'r', MESSAGE);
    websocket_client_hold(client.line, true);
    /* The client reads nothing: at some point the worker's bytes stay with it. */
    for (int64_t still_ms = time_boot_ms(); time_boot_ms() - still_ms < 500;) {
        if (websocket_client_unsent(worker.line) < MESSAGE && sent < MESSAGES) {
            CHECK(send(&worker, (struct str){bytes, MESSAGE}));
            sent++;
            still_ms = time_boot_ms();
        }
        turn(&worker);
    }
    CHECK(sent < MESSAGES);
    websocket_client_hold(client.line, false);
    for (int64_t deadline = time_boot_ms() + 20000; sent < MESSAGES && time_boot_ms() < deadline;) {
        if (websocket_client_unsent(worker.line) < MESSAGE) {
            CHECK(send(&worker, (struct str){bytes, MESSAGE}));
            sent++;
        }
        turn(&worker);
        turn(&client);
    }
    CHECK(until(&client, (size_t)MESSAGE * MESSAGES, false));
    finish();
}

TEST(what_the_worker_refuses_is_an_ordinary_answer)
{
    char name[RELAY_NAME_TEXT], path[96];

    begin();
    CHECK(relay_ask(server.relays, ID "1", LEASE, 3000, name, &err));
    snprintf(path, sizeof path, "/worker/%s", name);
    CHECK(dial(&worker, path, "helmr.relay.v0"));
    CHECK(say(&worker, "{\"type\":\"refused\",\"code\":\"port_not_allowed\","
                       "\"error\":\"the sandbox does not list this port\"}"));
    turn(&worker);
    CHECK(!dial(&client, "/client/" ID "1", "helmr.port.v1"));
    CHECK(refusal.status == 403);
    CHECK(memmem(refusal.body.bytes, refusal.body.len, "does not list", 13));
    CHECK(until_over(&worker));
    finish();
}

TEST(a_worker_that_leaves_is_told_and_so_is_what_it_said_last)
{
    begin();
    CHECK(open_both());
    CHECK(send(&worker, STR("last words")));
    websocket_client_close(worker.line, WEBSOCKET_NORMAL, "");
    turn(&worker);
    CHECK(until_over(&client));
    CHECK(str_equal(buf_str(&client.bytes), STR("last words")));
    CHECK(websocket_client_code(client.line) == WEBSOCKET_GOING_AWAY);
    finish();
}

TEST(nobody_comes_in_who_is_not_waited_for)
{
    char name[RELAY_NAME_TEXT], path[96];
    struct end second = {0};

    begin();
    CHECK(!dial(&worker, "/worker/port-3000-1", "helmr.relay.v0") && refusal.status == 404);
    CHECK(relay_ask(server.relays, ID "1", LEASE, 3000, name, &err));
    snprintf(path, sizeof path, "/worker/%s", name);
    CHECK(dial(&worker, path, "helmr.relay.v0"));
    CHECK(!dial(&second, path, "helmr.relay.v0") && refusal.status == 404);
    CHECK(say(&worker, "{\"type\":\"open\"}"));
    turn(&worker);
    CHECK(dial(&client, "/client/" ID "1", "helmr.port.v1"));
    CHECK(say(&client, "{\"type\":\"open\"}"));
    CHECK(until_over(&client) && websocket_client_code(client.line) == WEBSOCKET_POLICY);
    finish();
}

TEST(a_lease_has_so_many_and_no_more)
{
    char name[RELAY_NAME_TEXT], id[ID_TEXT];

    begin();
    for (int i = 0; i < RELAYS_OF_LEASE_MAX; i++) {
        id_make(id);
        CHECK(relay_ask(server.relays, id, LEASE, 3000, name, &err));
    }
    CHECK(!relay_ask(server.relays, ID "1", LEASE, 3000, name, &err));
    CHECK(err.code == ERR_QUOTA);
    CHECK(relay_ask(server.relays, ID "2", ID "9", 3000, name, &err));
    relay_forget(server.relays, id);
    CHECK(relay_ask(server.relays, ID "1", LEASE, 3000, name, &err));
    finish();
}

TEST_MAIN()
