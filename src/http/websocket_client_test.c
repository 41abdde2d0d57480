#include "http/websocket_client.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/test.h"
#include "base/time.h"
#include "http/testing.h"
#include "http/tls.h"
#include "http/tls_testing.h"
#include "http/websocket_reply.h"

/* The server says everything again, refuses /refused, and sends before it is asked on /eager. */
static bool take(void *state UNUSED, enum websocket_kind kind, struct str bytes, bool *held UNUSED,
                 struct websocket_out *out, struct error *err)
{
    if (str_equal(bytes, STR("bye")))
        websocket_say_end(out, WEBSOCKET_POLICY, "as you wish");
    return websocket_say(out, kind, bytes, err);
}

static bool pull(void *state, struct websocket_out *out, bool *more UNUSED, struct error *err)
{
    return !state || websocket_say(out, WEBSOCKET_TEXT, STR("eager"), err);
}

static bool attach(struct call *call, struct response *res, struct error *err)
{
    static int eager;
    bool is_eager = str_equal(call_param(call, 0), STR("eager"));

    if (str_equal(call_param(call, 0), STR("refused")))
        return error_set(err, ERR_CONFLICT, "not now");
    if (!websocket_asked(call, res, "test.v1", err))
        return false;
    response_websocket(res, call,
                       &(struct response_websocket){
                           .topic = "never",
                           .protocol = "test.v1",
                           .take = take,
                           .pull = pull,
                           .state = is_eager ? &eager : NULL,
                       });
    return true;
}

static const struct route routes[] = {
    {METHOD_GET, "/line/:what", 1, attach},
};

static struct http_client *server;
static struct websocket_client *client;
static struct http_answer refusal;
static struct buf heard;
static int n_heard;
static struct error err;

static void hear(void *arg UNUSED, enum websocket_kind kind UNUSED, struct str bytes)
{
    struct error ignored;

    n_heard++;
    heard.max = MIB(64);
    if (!buf_append(&heard, bytes, &ignored))
        abort();
}

static const struct websocket_events events = {.message = hear};

static bool open_line(const char *path)
{
    websocket_client_destroy(TAKE(client));
    buf_finish(&heard);
    buf_finish(&refusal.body);
    refusal.body.max = KIB(64);
    n_heard = 0;
    return websocket_client_open(
        server, &(struct websocket_dial){.path = path, .protocol = "test.v1", .timeout_ms = 10000},
        &events, NULL, &client, &refusal, &err);
}

/* Turns until so many bytes were heard; false when it is over before. */
static bool turn_until(size_t len)
{
    while (heard.len < len) {
        struct pollfd one = {.fd = websocket_client_fd(client),
                             .events = websocket_client_wants(client)};

        if (!websocket_client_has_more(client) && poll(&one, 1, 10000) <= 0)
            return false;
        if (!websocket_client_turn(client, &err))
            return heard.len >= len;
    }
    return true;
}

static bool turn_to_the_end(void)
{
    return !turn_until(SIZE_MAX);
}

static void begin(const char *scheme)
{
    char url[64];

    testing_start(routes, COUNT_OF(routes), &(struct http_config){0});
    snprintf(url, sizeof url, "%s://localhost:%d", scheme, testing_port);
    if (!http_client_create(url, &server, &err))
        abort();
}

static void end(void)
{
    websocket_client_destroy(TAKE(client));
    http_client_destroy(TAKE(server));
    buf_finish(&heard);
    buf_finish(&refusal.body);
    testing_begin_stop(5000);
    testing_stop();
}

static void check_echo(void)
{
    enum { MESSAGE = 60000, MESSAGES = 100 };
    AUTO_FREE char *text = alloc(MESSAGE);

    memset(text, 'w', MESSAGE);
    CHECK(open_line("/line/echo"));
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(websocket_client_send(client, WEBSOCKET_BINARY, (struct str){text, MESSAGE}, &err));
        while (websocket_client_unsent(client) > MIB(1))
            CHECK(turn_until(heard.len + 1));
    }
    CHECK(turn_until((size_t)MESSAGE * MESSAGES));
    CHECK(n_heard == MESSAGES);
    CHECK(websocket_client_send(client, WEBSOCKET_TEXT, STR("bye"), &err));
    CHECK(turn_to_the_end());
    CHECK(err.code == ERR_CANCELLED);
    CHECK(websocket_client_code(client) == WEBSOCKET_POLICY);
    CHECK_STR(websocket_client_reason(client), "as you wish");
}

TEST(a_line_carries_megabytes_both_ways_and_tells_how_it_ended)
{
    begin("http");
    check_echo();
    end();
}

TEST(what_comes_with_the_answer_is_heard)
{
    begin("http");
    CHECK(open_line("/line/eager"));
    CHECK(turn_until(5));
    CHECK(str_equal(buf_str(&heard), STR("eager")));
    end();
}

TEST(a_refusal_has_its_status_and_body)
{
    begin("http");
    CHECK(!open_line("/line/refused"));
    CHECK(refusal.status == 409);
    CHECK(memmem(refusal.body.bytes, refusal.body.len, "not now", 7));
    CHECK(!open_line("/nowhere"));
    CHECK(refusal.status == 404);
    CHECK(!open_line("no path"));
    CHECK(err.code == ERR_INVALID && refusal.status == 0);
    end();
}

TEST(one_that_is_held_reads_nothing)
{
    begin("http");
    CHECK(open_line("/line/echo"));
    CHECK(websocket_client_send(client, WEBSOCKET_TEXT, STR("first"), &err));
    websocket_client_hold(client, true);
    CHECK(websocket_client_turn(client, &err));
    CHECK(!(websocket_client_wants(client) & POLLIN));
    CHECK(!websocket_client_has_more(client));
    struct pollfd one = {.fd = websocket_client_fd(client), .events = POLLIN};
    CHECK(poll(&one, 1, 10000) == 1);
    CHECK(websocket_client_turn(client, &err) && n_heard == 0);
    websocket_client_hold(client, false);
    CHECK(turn_until(5));
    end();
}

TEST(a_server_that_is_gone_is_told_apart_from_one_that_said_so)
{
    begin("http");
    CHECK(open_line("/line/echo"));
    shutdown(websocket_client_fd(client), SHUT_RDWR);
    CHECK(turn_to_the_end());
    CHECK(err.code == ERR_UNAVAILABLE && websocket_client_code(client) == 0);
    end();
    begin("http");
    CHECK(open_line("/line/echo"));
    testing_begin_stop(5000);
    CHECK(turn_to_the_end());
    CHECK(websocket_client_code(client) == WEBSOCKET_GOING_AWAY);
    websocket_client_destroy(TAKE(client));
    http_client_destroy(TAKE(server));
    testing_stop();
}

TEST(a_line_inside_tls_is_believed_only_with_its_certificate)
{
    char folder[] = "/tmp/websocket-test-XXXXXX", certificate[64], key[64];

    CHECK(mkdtemp(folder));
    tls_testing_make(folder, "server");
    snprintf(certificate, sizeof certificate, "%s/server.pem", folder);
    snprintf(key, sizeof key, "%s/server.key", folder);
    CHECK(tls_create(&(struct tls_files){.certificate = certificate, .key = key}, &testing_tls,
                     &err));
    begin("https");
    CHECK(!open_line("/line/echo"));
    CHECK(strstr(err.text, "not trusted"));
    http_client_set_authorities(server, certificate);
    check_echo();
    end();
    tls_destroy(TAKE(testing_tls));
    unlink(certificate);
    unlink(key);
    rmdir(folder);
}

/* Answers that are none, and what becomes of each whole and byte by byte. */
static const struct {
    const char *what;
    struct str bytes;
    int status; /* 0: refused */
} replies[] = {
    {"another protocol",       STR("SSH-2.0-OpenSSH\r\n\r\n"),                                0  },
    {"a status in letters",    STR("HTTP/1.1 abc\r\n\r\n"),                                   0  },
    {"101 without a word",     STR("HTTP/1.1 101 Switching Protocols\r\n\r\n"),               0  },
    {"another's accept",
     STR("HTTP/1.1 101 S\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
         "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: test.v1\r\n\r\n"),
     0                                                                                           },
    {"a length with a sign",   STR("HTTP/1.1 400 Bad\r\nContent-Length: -1\r\n\r\n"),         0  },
    {"a length of a gigabyte", STR("HTTP/1.1 400 Bad\r\nContent-Length: 1000000000\r\n\r\n"), 0  },
    {"a refusal",              STR("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}"),  403},
};

TEST(an_answer_is_judged_the_same_whole_and_byte_by_byte)
{
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        for (size_t step = 1; step < 1000; step += 998) {
            AUTO(websocket_reply_finish) struct websocket_reply reply = {.protocol = "test.v1"};
            struct str bytes = replies[i].bytes;
            bool ok = true;

            websocket_make_key(reply.key);
            for (size_t at = 0; ok && at < bytes.len; at += step) {
                size_t left = bytes.len - at;

                ok = websocket_reply_feed(&reply,
                                          (struct str){bytes.ptr + at, left < step ? left : step},
                                          false, &err);
            }
            if (ok != (replies[i].status != 0))
                printf("# %s\n", replies[i].what);
            CHECK(ok == (replies[i].status != 0));
            CHECK(!ok || (reply.is_whole && reply.status == replies[i].status));
        }
    }
}

TEST_MAIN()
