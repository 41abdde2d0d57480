#include "http/websocket_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/test.h"
#include "base/time.h"
#include "http/testing.h"
#include "http/websocket_testing.h"

#define HOST "Host: h\r\n"
#define ASK                                                                             \
    HOST "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"                    \
         "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" \
         "Sec-WebSocket-Protocol: other, test.v1\r\n\r\n"

enum { PING_MS = 100, SILENCE_MS = 2500 };

/* What the test's routes do: /echo says everything again; /counted sends numbers up to `published`;
 * /flood sends for ever; /closed takes nothing before `may_take`. */
struct line {
    int64_t at;
    bool floods, counts, holds;
};

static _Atomic int64_t published, taken, flooded;
static _Atomic bool may_take;
static _Atomic int open_lines;
static sem_t released;
static struct reply reply;

static bool take(void *state, enum websocket_kind kind, struct str bytes, bool *held,
                 struct websocket_out *out, struct error *err)
{
    struct line *line = state;

    if (line->holds && !atomic_load(&may_take)) {
        *held = true;
        return true;
    }
    atomic_fetch_add(&taken, (int64_t)bytes.len);
    if (line->holds)
        return true;
    if (str_equal(bytes, STR("bye")))
        websocket_say_end(out, WEBSOCKET_NORMAL, "as you wish");
    if (str_equal(bytes, STR("break")))
        return error_set(err, ERR_INTERNAL, "broken");
    return line->floods || line->counts || websocket_say(out, kind, bytes, err);
}

static bool pull(void *state, struct websocket_out *out, bool *more, struct error *err)
{
    static const char zeros[WEBSOCKET_FRAME_MAX];
    struct line *line = state;
    char text[32];

    *more = line->floods;
    if (line->floods) {
        atomic_fetch_add(&flooded, (int64_t)sizeof zeros);
        return websocket_say(out, WEBSOCKET_BINARY, (struct str){zeros, sizeof zeros}, err);
    }
    while (line->counts && line->at < atomic_load(&published)) {
        int len = snprintf(text, sizeof text, "<%lld>", (long long)++line->at);

        if (!websocket_say(out, WEBSOCKET_TEXT, (struct str){text, (size_t)len}, err))
            return false;
    }
    return true;
}

static void release(void *state)
{
    free(state);
    atomic_fetch_sub(&open_lines, 1);
    sem_post(&released);
}

static bool attach(struct call *call, struct response *res, struct error *err)
{
    struct str what = call_param(call, 0);

    if (!websocket_asked(call, res, "test.v1", err))
        return false;

    struct line *line = alloc(sizeof *line);

    *line = (struct line){
        .floods = str_equal(what, STR("flood")),
        .counts = str_equal(what, STR("counted")),
        .holds = str_equal(what, STR("closed")),
    };
    atomic_fetch_add(&open_lines, 1);
    response_websocket(res, call,
                       &(struct response_websocket){
                           .topic = "counted",
                           .protocol = "test.v1",
                           .take = take,
                           .pull = pull,
                           .release = release,
                           .state = line,
                       });
    return true;
}

static const struct route routes[] = {
    {METHOD_GET, "/line/:what", 1, attach},
};

static void start(void)
{
    atomic_store(&published, 0);
    atomic_store(&taken, 0);
    atomic_store(&may_take, false);
    testing_start(routes, COUNT_OF(routes),
                  &(struct http_config){.websocket_ping_ms = PING_MS,
                                        .websocket_silence_ms = SILENCE_MS});
}

static void stop(void)
{
    testing_begin_stop(5000);
    testing_stop();
}

/* Dials and upgrades; the connection, or -1. */
static int upgrade(const char *path)
{
    char ask[512];
    int fd = testing_dial();
    int len = snprintf(ask, sizeof ask, "GET %s HTTP/1.1\r\n" ASK, path);

    if (testing_say(fd, (struct str){ask, (size_t)len}) &&
        testing_hear_until(fd, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                               "Sec-WebSocket-Protocol: test.v1\r\n\r\n"))
        return fd;
    close(fd);
    return -1;
}

static bool say(int fd, unsigned first, struct str text)
{
    AUTO_FREE char *frame = alloc(text.len + 14);

    return testing_say(fd, (struct str){frame, testing_frame(frame, first, text)});
}

static bool read_exactly(int fd, void *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t got = recv(fd, (char *)bytes + at, len - at, 0);

        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

/* The next frame, answering pings when asked to; false at the end. */
static bool hear(int fd, bool answers, unsigned *opcode, char *text, size_t room, size_t *len)
{
    unsigned char head[10];

    for (;;) {
        if (!read_exactly(fd, head, 2))
            return false;
        *opcode = head[0] & 0x0fU;
        *len = head[1];
        if (*len == 126 && read_exactly(fd, head, 2))
            *len = (size_t)head[0] << 8 | head[1];
        else if (*len == 127 && read_exactly(fd, head, 8))
            *len = (size_t)head[5] << 16 | (size_t)head[6] << 8 | head[7];
        if (*len > room || !read_exactly(fd, text, *len))
            return false;
        if (*opcode == FRAME_PING && answers && !say(fd, FRAME_FIN | FRAME_PONG, STR("")))
            return false;
        if (*opcode != FRAME_PING)
            return true;
    }
}

static bool hears(int fd, unsigned want, struct str text)
{
    static char got[WEBSOCKET_FRAME_MAX];
    unsigned opcode;
    size_t len;

    return hear(fd, true, &opcode, got, sizeof got, &len) && opcode == want &&
           str_equal((struct str){got, len}, text);
}

static bool hears_close(int fd, int code)
{
    unsigned char got[128];
    unsigned opcode;
    size_t len;

    return hear(fd, true, &opcode, (char *)got, sizeof got, &len) && opcode == FRAME_CLOSE &&
           len >= 2 && (got[0] << 8 | got[1]) == code;
}

TEST(what_is_said_comes_back_until_the_end_is_said)
{
    start();
    int fd = upgrade("/line/echo");

    CHECK(fd >= 0);
    CHECK(say(fd, FRAME_FIN | FRAME_TEXT, STR("hello")));
    CHECK(hears(fd, FRAME_TEXT, STR("hello")));
    CHECK(say(fd, FRAME_BINARY, STR("\0\xff")) &&
          say(fd, FRAME_FIN | FRAME_CONTINUATION, STR("\r\n")));
    CHECK(hears(fd, FRAME_BINARY, STR("\0\xff\r\n")));
    CHECK(say(fd, FRAME_FIN | FRAME_TEXT, STR("bye")));
    CHECK(hears(fd, FRAME_TEXT, STR("bye")));
    CHECK(hears_close(fd, WEBSOCKET_NORMAL));
    CHECK(testing_is_closed(fd));
    close(fd);
    stop();
    CHECK(atomic_load(&testing_last_status) == 101);
    CHECK(atomic_load(&open_lines) == 0);
}

/* Each lacks or has something; the words that the refusal must have. */
static const struct {
    const char *head, *words;
} refusals[] = {
    {HOST "\r\n",                                                                          "Upgrade: websocket"},
    {HOST "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n\r\n",
     "version 13"                                                                                              },
    {HOST "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
          "Sec-WebSocket-Key: dG9vIHNob3J0\r\n\r\n",                                  "16 bytes"          },
    {HOST "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
          "Sec-WebSocket-Protocol: test.v2, test\r\n\r\n",                            "test.v1"           },
    {HOST "Connection: close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
          "Sec-WebSocket-Protocol: test.v1\r\n\r\n",                                  "Upgrade: websocket"},
};

TEST(what_is_no_beginning_of_a_websocket_is_refused_in_json)
{
    start();
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        char ask[512];

        snprintf(ask, sizeof ask, "GET /line/echo HTTP/1.1\r\n%s", refusals[i].head);
        CHECK(testing_ask(ask, &reply) == 400);
        reply.body[reply.len] = '\0';
        CHECK(strstr(reply.body, "\"code\":\"invalid_request\""));
        CHECK(strstr(reply.body, refusals[i].words));
    }
    CHECK(testing_ask("GET /line/echo HTTP/1.1\r\nAuthorization: nobody\r\n" ASK, &reply) == 403);
    stop();
    CHECK(atomic_load(&open_lines) == 0);
}

TEST(frames_that_come_with_the_request_are_not_lost)
{
    char bytes[600];
    int len = snprintf(bytes, sizeof bytes, "GET /line/echo HTTP/1.1\r\n" ASK);

    start();
    size_t all = (size_t)len + testing_frame(bytes + len, FRAME_FIN | FRAME_TEXT, STR("early"));
    int fd = testing_dial();
    CHECK(testing_say(fd, (struct str){bytes, all}));
    CHECK(testing_hear_until(fd, "\r\n\r\n"));
    CHECK(hears(fd, FRAME_TEXT, STR("early")));
    close(fd);
    stop();
}

TEST(a_wake_up_brings_what_is_new)
{
    start();
    int fd = upgrade("/line/counted");

    CHECK(fd >= 0);
    atomic_store(&published, 2);
    http_server_wake(testing_server, "counted");
    CHECK(hears(fd, FRAME_TEXT, STR("<1>")) && hears(fd, FRAME_TEXT, STR("<2>")));
    atomic_store(&published, 3);
    http_server_wake(testing_server, "counted");
    CHECK(hears(fd, FRAME_TEXT, STR("<3>")));
    close(fd);
    stop();
}

static bool flood_stands_still(void)
{
    int64_t before = -1;

    for (int i = 0; i < 1000; i++) {
        int64_t now = atomic_load(&flooded);

        if (now > 0 && now == before)
            return true;
        before = now;
        poll(NULL, 0, 20);
    }
    return false;
}

TEST(a_slow_client_holds_its_source_and_is_still_heard)
{
    atomic_store(&flooded, 0);
    start();
    char ask[] = "GET /line/flood HTTP/1.1\r\n" ASK;
    int fd = testing_dial_narrow();

    CHECK(testing_say(fd, (struct str){ask, sizeof ask - 1}));
    CHECK(flood_stands_still());
    CHECK(atomic_load(&flooded) < (int64_t)MIB(16));
    CHECK(say(fd, FRAME_FIN | FRAME_BINARY, STR("\x03")));
    for (int i = 0; i < 500 && atomic_load(&taken) == 0; i++)
        poll(NULL, 0, 10);
    CHECK(atomic_load(&taken) == 1);
    close(fd);
    stop();
}

static bool taken_reaches(int64_t n)
{
    for (int i = 0; i < 1000 && atomic_load(&taken) < n; i++)
        poll(NULL, 0, 10);
    return atomic_load(&taken) == n;
}

/* Far more than the sockets hold: it gets through only because it is taken. */
TEST(a_source_that_takes_nothing_holds_the_client_until_it_is_woken)
{
    enum { MESSAGE = 50000, MESSAGES = 400 };
    AUTO_FREE char *frame = alloc(MESSAGE + 14), *text = alloc(MESSAGE);
    size_t len, sent = 0, at = 0;
    bool was_blocked = false;

    start();
    int fd = upgrade("/line/closed");
    CHECK(fd >= 0);
    memset(text, 'm', MESSAGE);
    len = testing_frame(frame, FRAME_FIN | FRAME_BINARY, (struct str){text, MESSAGE});
    while (sent < MESSAGES) {
        struct pollfd one = {.fd = fd, .events = POLLOUT};

        if (poll(&one, 1, was_blocked ? 10000 : 300) == 0) {
            CHECK(!was_blocked);
            CHECK(atomic_load(&taken) == 0);
            was_blocked = true;
            atomic_store(&may_take, true);
            http_server_wake(testing_server, "counted");
        }
        ssize_t n = send(fd, frame + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        CHECK(n >= 0 || errno == EAGAIN);
        at += n > 0 ? (size_t)n : 0;
        sent += at == len;
        at = at == len ? 0 : at;
    }
    CHECK(was_blocked);
    CHECK(taken_reaches((int64_t)MESSAGE * MESSAGES));
    close(fd);
    stop();
}

/* A client that says something and hangs up at once, with a word of farewell or without. */
TEST(last_words_of_who_is_gone_already_are_taken)
{
    for (int politely = 0; politely < 2; politely++) {
        char bytes[512];
        size_t len = 0;

        start();
        int fd = upgrade("/line/counted");
        CHECK(fd >= 0);
        for (int i = 0; i < 20; i++)
            len += testing_frame(bytes + len, FRAME_FIN | FRAME_TEXT, STR("abc"));
        if (politely)
            len += testing_frame(bytes + len, FRAME_FIN | FRAME_CLOSE, STR("\x03\xe8"));
        CHECK(testing_say(fd, (struct str){bytes, len}));
        close(fd);
        CHECK(taken_reaches(60));
        stop();
        CHECK(atomic_load(&open_lines) == 0);
    }
}

TEST(last_words_are_taken_before_the_end)
{
    char bytes[256];
    size_t len = 0;

    start();
    int fd = upgrade("/line/counted");
    CHECK(fd >= 0);
    for (int i = 0; i < 10; i++)
        len += testing_frame(bytes + len, FRAME_FIN | FRAME_TEXT, STR("abc"));
    len += testing_frame(bytes + len, FRAME_FIN | FRAME_CLOSE, STR("\x03\xe8"));
    CHECK(testing_say(fd, (struct str){bytes, len}));
    CHECK(hears_close(fd, WEBSOCKET_NORMAL));
    CHECK(taken_reaches(30));
    close(fd);
    stop();
}

/* Answers the pings of one until the other, which is not answered for, is cut. */
static bool outlives(int lively, int quiet)
{
    struct pollfd both[] = {
        {.fd = lively, .events = POLLIN},
        {.fd = quiet,  .events = POLLIN}
    };
    char bytes[64];

    while (poll(both, COUNT_OF(both), 10000) > 0) {
        if (both[1].revents && recv(quiet, bytes, sizeof bytes, 0) <= 0)
            return true;
        if (both[0].revents &&
            (!read_exactly(lively, bytes, 2) || bytes[0] != (char)(FRAME_FIN | FRAME_PING) ||
             !say(lively, FRAME_FIN | FRAME_PONG, STR(""))))
            return false;
    }
    return false;
}

TEST(whoever_answers_no_ping_is_cut_and_who_answers_stays)
{
    start();
    int quiet = upgrade("/line/echo"), lively = upgrade("/line/echo");

    CHECK(quiet >= 0 && lively >= 0);
    CHECK(outlives(lively, quiet));
    CHECK(say(lively, FRAME_FIN | FRAME_TEXT, STR("still here")));
    CHECK(hears(lively, FRAME_TEXT, STR("still here")));
    close(quiet);
    close(lively);
    stop();
}

TEST(a_failure_and_a_broken_rule_have_their_codes_on_the_wire)
{
    start();
    int fd = upgrade("/line/echo");

    CHECK(fd >= 0 && say(fd, FRAME_FIN | FRAME_TEXT, STR("break")));
    CHECK(hears_close(fd, WEBSOCKET_FAILED));
    close(fd);
    fd = upgrade("/line/echo");
    CHECK(fd >= 0 && testing_say(fd, STR("\x81\x02hi")));
    CHECK(hears_close(fd, WEBSOCKET_BROKEN_RULE));
    CHECK(testing_is_closed(fd));
    close(fd);
    stop();
    CHECK(atomic_load(&open_lines) == 0);
}

TEST(a_server_that_stops_says_so)
{
    start();
    int fd = upgrade("/line/echo");

    CHECK(fd >= 0);
    testing_begin_stop(5000);
    CHECK(hears_close(fd, WEBSOCKET_GOING_AWAY));
    close(fd);
    testing_stop();
    CHECK(atomic_load(&open_lines) == 0);
}

TEST_MAIN()
