#include "http/stream.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/test.h"
#include "base/time.h"
#include "http/testing.h"

#define HOST "Host: h\r\n"
#define END  "\r\n"

enum { QUIET_MS = 150, END_MS = 60000, WRITE_MS = 200 };

/* What the streams and parked calls tell: numbers up to `published`. */
static _Atomic int64_t published;
static _Atomic int open_streams, pulls, parked_runs;
static sem_t released, looked, may_return;
static _Atomic bool hold_park;
static struct reply reply;

struct cursor {
    int64_t at;
    uint64_t left; /* of a download */
    bool endless, fails;
};

static bool pull_events(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct cursor *cursor = state;
    int64_t last = atomic_load(&published);
    char text[64];

    atomic_fetch_add(&pulls, 1);
    for (int n = 0; cursor->at < last && n < 100; n++) {
        int64_t at = ++cursor->at;
        int len =
            snprintf(text, sizeof text, "id: %lld\ndata: %lld\n\n", (long long)at, (long long)at);

        if (!buf_append(out, (struct str){text, (size_t)len}, err))
            return false;
    }
    *more = cursor->at < last;
    *over = last < 0;
    return true;
}

static bool pull_bytes(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    char bytes[100000];
    struct cursor *cursor = state;
    size_t len = cursor->left < sizeof bytes ? (size_t)cursor->left : sizeof bytes;

    if (cursor->fails && cursor->at++ == 3)
        return error_set(err, ERR_INTERNAL, "the disk is gone");
    memset(bytes, 'd', sizeof bytes);
    if (!cursor->endless)
        cursor->left -= len;
    *more = cursor->left > 0;
    *over = !*more;
    return buf_append(out, (struct str){bytes, len}, err);
}

static void release(void *state)
{
    free(state);
    atomic_fetch_sub(&open_streams, 1);
    sem_post(&released);
}

static struct cursor *cursor_create(void)
{
    struct cursor *cursor = alloc(sizeof *cursor);

    *cursor = (struct cursor){0};
    atomic_fetch_add(&open_streams, 1);
    return cursor;
}

static bool events(struct call *call, struct response *res, struct error *err UNUSED)
{
    struct str last = call_header(call, STR("last-event-id"));
    struct cursor *cursor = cursor_create();

    cursor->at = last.len ? strtoll(arena_text(call->arena, last), NULL, 10) : 0;
    response_stream(res, &(struct response_source){
                             .topic = arena_printf(call->arena, "topic:%d", 1),
                             .content_type = "text/event-stream",
                             .is_sse = true,
                             .pull = pull_events,
                             .release = release,
                             .state = cursor,
                         });
    return true;
}

static bool download(struct call *call, struct response *res, struct error *err)
{
    struct cursor *cursor = cursor_create();
    int64_t bytes, length;

    cursor->endless = str_equal(call_param(call, 0), STR("endless"));
    cursor->fails = str_equal(call_param(call, 0), STR("failing"));
    if (!call_query_int(call, "bytes", 1, INT64_MAX, 1000000, &bytes, err) ||
        !call_query_int(call, "length", 0, INT64_MAX, 0, &length, err)) {
        release(cursor);
        return false;
    }
    cursor->left = (uint64_t)bytes;
    response_stream(res, &(struct response_source){
                             .content_type = "application/octet-stream",
                             .length = (uint64_t)length,
                             .pull = pull_bytes,
                             .release = release,
                             .state = cursor,
                         });
    return true;
}

enum { TALK_MAX = 64 * 1024 };

/* Says back what it is told, in bounds, once something is published. */
struct talk {
    struct buf pending;
    bool has_begun;
};

static bool pull_talk(void *state, struct buf *out, bool *more UNUSED, bool *over UNUSED,
                      struct error *err)
{
    struct talk *talk = state;

    if (!talk->has_begun && !buf_append(out, STR("HTTP/1.1 101 Go\r\n\r\n"), err))
        return false;
    talk->has_begun = true;
    if (talk->pending.len == 0)
        return true;
    bool ok = buf_append(out, buf_str(&talk->pending), err);
    buf_consume(&talk->pending, talk->pending.len);
    http_server_wake(testing_server, "topic:1");
    return ok;
}

static bool take_talk(void *state, struct str bytes, size_t *taken, struct error *err)
{
    struct talk *talk = state;
    size_t room = atomic_load(&published) > 0 ? TALK_MAX - talk->pending.len : 0;

    *taken = bytes.len < room ? bytes.len : room;
    if (*taken > 0)
        http_server_wake(testing_server, "topic:1");
    return buf_append(&talk->pending, (struct str){bytes.ptr, *taken}, err);
}

static void release_talk(void *state)
{
    struct talk *talk = state;

    buf_finish(&talk->pending);
    release(talk);
}

static bool talk_back(struct call *call UNUSED, struct response *res, struct error *err UNUSED)
{
    struct talk *talk = alloc(sizeof *talk);

    *talk = (struct talk){.pending.max = TALK_MAX};
    atomic_fetch_add(&open_streams, 1);
    response_stream(res, &(struct response_source){
                             .topic = "topic:1",
                             .content_type = "",
                             .writes_head = true,
                             .pull = pull_talk,
                             .take = take_talk,
                             .release = release_talk,
                             .state = talk,
                         });
    return true;
}

/* Sets a stream and fails: it must be released, and the error be told. */
static bool change_of_mind(struct call *call, struct response *res, struct error *err)
{
    return download(call, res, err) && error_set(err, ERR_CONFLICT, "after all, no");
}

/* Answers when `published` is past ?after, or with null. */
static bool wait_for(struct call *call, struct response *res, struct error *err)
{
    int64_t after, wait_ms, seen = atomic_load(&published);
    char text[32];

    atomic_fetch_add(&parked_runs, 1);
    if (!call_query_int(call, "after", 0, INT64_MAX, 0, &after, err) ||
        !call_query_int(call, "wait", 0, 60000, 30000, &wait_ms, err))
        return false;
    if (atomic_load(&hold_park)) {
        sem_post(&looked);
        sem_wait(&may_return);
    }
    if (seen <= after && !call->is_last_try) {
        response_park(res, "topic:1", wait_ms);
        return true;
    }
    snprintf(text, sizeof text, seen > after ? "%lld" : "null", (long long)seen);
    response_json(res, 200);
    return buf_append(response_body(res), str_of(text), err);
}

static bool stubborn(struct call *call UNUSED, struct response *res, struct error *err UNUSED)
{
    response_park(res, "topic:never", 50);
    return true;
}

static const struct route routes[] = {
    {METHOD_GET, "/events",         1, events        },
    {METHOD_GET, "/download/:kind", 1, download      },
    {METHOD_GET, "/change/:kind",   1, change_of_mind},
    {METHOD_GET, "/wait",           1, wait_for      },
    {METHOD_GET, "/stubborn",       1, stubborn      },
    {METHOD_GET, "/talk",           1, talk_back     },
};

static void publish(int64_t upto)
{
    atomic_store(&published, upto);
    http_server_wake(testing_server, "topic:1");
}

static bool all_released(void)
{
    int64_t until = time_boot_ms() + 10000;

    while (atomic_load(&open_streams) > 0 && time_boot_ms() < until) {
        struct timespec limit;

        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 10;
        sem_timedwait(&released, &limit);
    }
    return atomic_load(&open_streams) == 0;
}

static int listen_to_events(const char *more)
{
    int fd = testing_dial();

    if (!testing_say(fd, STR("GET /events HTTP/1.1\r\n" HOST)) || !testing_say(fd, str_of(more)) ||
        !testing_say(fd, STR(END)) || !testing_hear_headless(fd, &reply) || reply.status != 200)
        abort();
    return fd;
}

/* Reads events and wants exactly the numbers from+1 … to, in order. */
static bool hear_numbers(int fd, int64_t from, int64_t to)
{
    char want[32];

    for (int64_t i = from + 1; i <= to; i++) {
        snprintf(want, sizeof want, "data: %lld\n\n", (long long)i);
        if (!testing_hear_until(fd, want))
            return false;
    }
    return true;
}

TEST(a_stream_sends_history_and_then_what_comes)
{
    atomic_store(&published, 3);
    AUTO_FD int fd = listen_to_events("");

    CHECK_STR(reply_header(&reply, "Content-Type"), "text/event-stream");
    CHECK_STR(reply_header(&reply, "Cache-Control"), "no-cache");
    CHECK_STR(reply_header(&reply, "Transfer-Encoding"), "chunked");
    CHECK(hear_numbers(fd, 0, 3));
    publish(4);
    CHECK(hear_numbers(fd, 3, 4));
    publish(1000);
    CHECK(hear_numbers(fd, 4, 1000));
}

TEST(a_stream_resumes_after_the_last_event_id)
{
    atomic_store(&published, 5);
    AUTO_FD int fd = listen_to_events("Last-Event-ID: 4\r\n");

    CHECK(testing_hear_until(fd, "\r\nid: 5\ndata: 5\n\n"));
}

TEST(a_quiet_stream_is_kept_alive)
{
    atomic_store(&published, 0);
    AUTO_FD int fd = listen_to_events("");

    CHECK(testing_hear_until(fd, ": keep-alive\n\n"));
    CHECK(testing_hear_until(fd, ": keep-alive\n\n"));
    publish(1);
    CHECK(hear_numbers(fd, 0, 1));
}

static void *say_much(void *arg)
{
    const struct str *said = arg;

    return testing_say((int)said->len, (struct str){said->ptr, MIB(1)}) ? NULL : arg;
}

/* What is said before anybody takes it waits, and so does who says more than there is room for. */
TEST(a_source_takes_what_its_client_says_whole_and_in_order)
{
    atomic_store(&published, 0);
    AUTO_FD int fd = testing_dial();
    AUTO_FREE char *much = alloc(MIB(1)), *back = alloc(MIB(1));
    struct str said = {much, (size_t)fd};
    pthread_t speaker;
    void *failed;

    for (size_t i = 0; i < MIB(1); i++)
        much[i] = (char)(i * 7 + i / 4096);
    CHECK(testing_say(fd, STR("GET /talk HTTP/1.1\r\n" HOST END)));
    CHECK(testing_hear_until(fd, "HTTP/1.1 101 Go\r\n\r\n"));
    CHECK(pthread_create(&speaker, NULL, say_much, &said) == 0);
    publish(1);
    size_t got = 0;
    for (ssize_t n = 1; n > 0 && got < MIB(1); got += n > 0 ? (size_t)n : 0)
        n = recv(fd, back + got, MIB(1) - got, 0);
    pthread_join(speaker, &failed);
    CHECK(!failed && got == MIB(1) && memcmp(much, back, MIB(1)) == 0);
    shutdown(fd, SHUT_WR);
    CHECK(all_released());
}

TEST(a_stream_that_ends_leaves_the_connection_usable)
{
    AUTO_FD int fd = testing_dial();

    for (int i = 0; i < 3; i++) {
        CHECK(testing_say(fd, STR("GET /download/x?bytes=1234567 HTTP/1.1\r\n" HOST END)));
        CHECK(testing_hear(fd, &reply) && reply.len == 1234567);
        CHECK(testing_say(fd, STR("GET /download/x?bytes=9&length=9 HTTP/1.1\r\n" HOST END)));
        CHECK(testing_hear(fd, &reply) && reply.len == 9);
        CHECK_STR(reply_header(&reply, "Content-Length"), "9");
    }
    CHECK(all_released());
}

TEST(an_old_client_gets_a_stream_until_the_end)
{
    AUTO_FD int fd = testing_dial();

    CHECK(testing_say(fd, STR("GET /download/x?bytes=4 HTTP/1.0\r\n" HOST END)));
    CHECK(testing_hear_until(fd, "\r\n\r\ndddd"));
    CHECK(testing_is_closed(fd));
}

TEST(a_source_that_does_not_keep_its_word_breaks_the_connection)
{
    static const char *const requests[] = {
        "GET /download/x?bytes=1000&length=2000 HTTP/1.1\r\n" HOST END,
        "GET /download/failing?bytes=1000000 HTTP/1.1\r\n" HOST END,
    };

    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        AUTO_FD int fd = testing_dial();

        CHECK(testing_say(fd, str_of(requests[i])));
        CHECK(!testing_hear(fd, &reply) && reply.status == 200);
    }
    CHECK(all_released());
}

TEST(a_head_request_pulls_nothing)
{
    AUTO_FD int fd = testing_dial();

    CHECK(testing_say(fd, STR("HEAD /download/x HTTP/1.1\r\n" HOST END)));
    CHECK(testing_hear_headless(fd, &reply) && reply.status == 200);
    CHECK(testing_say(fd, STR("GET /nothing HTTP/1.1\r\n" HOST END)));
    CHECK(testing_hear(fd, &reply) && reply.status == 404);
    CHECK(all_released());
}

TEST(a_stream_taken_back_is_released)
{
    CHECK(testing_ask("GET /change/x HTTP/1.1\r\n" HOST END, &reply) == 409);
    CHECK(all_released());
}

TEST(a_reader_that_stops_loses_its_stream)
{
    AUTO_FD int fd = testing_dial_unix();
    struct pollfd hang_up = {.fd = fd};

    CHECK(testing_say(fd, STR("GET /download/endless HTTP/1.1\r\n" HOST END)));
    CHECK(poll(&hang_up, 1, 10000) == 1 && hang_up.revents & POLLHUP);
    CHECK(all_released());
}

TEST(a_listener_that_talks_is_not_read_without_end)
{
    atomic_store(&published, 0);
    AUTO_FD int fd = listen_to_events("");
    static char noise[64 * 1024];

    memset(noise, 'n', sizeof noise);
    CHECK(send(fd, noise, sizeof noise, MSG_DONTWAIT | MSG_NOSIGNAL) > 0);
    publish(1);
    CHECK(hear_numbers(fd, 0, 1));
}

TEST(a_listener_that_leaves_is_noticed)
{
    atomic_store(&published, 0);
    for (int i = 0; i < 20; i++) {
        int fd = listen_to_events("");
        close(fd);
    }
    CHECK(all_released());
}

TEST(a_listener_that_leaves_while_bytes_flow_is_noticed)
{
    for (int i = 0; i < 20; i++) {
        int fd = testing_dial();

        CHECK(testing_say(fd, STR("GET /download/endless HTTP/1.1\r\n" HOST END)));
        CHECK(testing_hear_until(fd, "dddd"));
        close(fd);
    }
    CHECK(all_released());
}

static void *publish_many(void *arg)
{
    int64_t last = *(const int64_t *)arg;

    for (int64_t i = 1; i <= last; i++)
        publish(i);
    return NULL;
}

TEST(thousands_of_wakes_lose_nothing)
{
    enum { LISTENERS = 8 };
    int64_t last = 20000;
    int fds[LISTENERS];
    pthread_t publisher;

    atomic_store(&published, 0);
    for (size_t i = 0; i < LISTENERS; i++)
        fds[i] = listen_to_events("");
    CHECK(pthread_create(&publisher, NULL, publish_many, &last) == 0);
    for (size_t i = 0; i < LISTENERS; i++) {
        bool complete = hear_numbers(fds[i], 0, last);

        close(fds[i]);
        if (!complete) {
            pthread_join(publisher, NULL);
            CHECK(complete);
        }
    }
    pthread_join(publisher, NULL);
    CHECK(all_released());
}

TEST(a_parked_call_answers_when_its_topic_is_woken)
{
    AUTO_FD int fd = testing_dial();
    int runs = atomic_load(&parked_runs);

    atomic_store(&published, 7);
    CHECK(testing_say(fd, STR("GET /wait?after=7 HTTP/1.1\r\n" HOST END)));
    while (atomic_load(&parked_runs) == runs)
        sched_yield();
    publish(8);
    CHECK(testing_hear(fd, &reply) && reply.status == 200);
    CHECK_STR(reply.body, "8");
}

TEST(a_parked_call_answers_when_its_time_is_over)
{
    AUTO_FD int fd = testing_dial();

    atomic_store(&published, 0);
    CHECK(testing_say(fd, STR("GET /wait?after=0&wait=30 HTTP/1.1\r\n" HOST END
                              "GET /wait?after=0&wait=0 HTTP/1.1\r\n" HOST END)));
    CHECK(testing_hear(fd, &reply));
    CHECK_STR(reply.body, "null");
    CHECK(testing_hear(fd, &reply));
    CHECK_STR(reply.body, "null");
    CHECK(testing_ask("GET /stubborn HTTP/1.1\r\n" HOST END, &reply) == 504);
}

/* The wake-up comes after the handler has looked and before the server knows that it waits. */
TEST(a_wake_up_between_looking_and_parking_is_not_lost)
{
    AUTO_FD int fd = testing_dial();

    atomic_store(&published, 0);
    atomic_store(&hold_park, true);
    CHECK(testing_say(fd, STR("GET /wait?after=0&wait=60000 HTTP/1.1\r\n" HOST END)));
    sem_wait(&looked);
    atomic_store(&hold_park, false);
    publish(1);

    /* An answered request after the wake-up shows that the loop has delivered it. */
    CHECK(testing_ask("GET /nothing HTTP/1.1\r\n" HOST END, &reply) == 404);
    sem_post(&may_return);
    CHECK(testing_hear(fd, &reply));
    CHECK_STR(reply.body, "1");
}

TEST(many_parked_calls_and_many_wakes_lose_nothing)
{
    AUTO_FD int fd = testing_dial();
    char request[128];
    int64_t last = 20000, seen = 0;
    pthread_t publisher;

    atomic_store(&published, 0);
    CHECK(pthread_create(&publisher, NULL, publish_many, &last) == 0);
    while (seen < last) {
        snprintf(request, sizeof request, "GET /wait?after=%lld HTTP/1.1\r\n" HOST END,
                 (long long)seen);
        if (!testing_say(fd, str_of(request)) || !testing_hear(fd, &reply))
            break;
        int64_t now = strtoll(reply.body, NULL, 10);
        if (now <= seen)
            break;
        seen = now;
    }
    pthread_join(publisher, NULL);
    CHECK(seen == last);
}

TEST(a_client_that_leaves_while_parked_is_dropped)
{
    int runs = atomic_load(&parked_runs), answers = atomic_load(&testing_answered);
    int fd = testing_dial();

    atomic_store(&published, 0);
    CHECK(testing_say(fd, STR("GET /wait?after=0 HTTP/1.1\r\n" HOST END)));
    while (atomic_load(&parked_runs) == runs)
        sched_yield();
    close(fd);

    CHECK(testing_answers_reach(answers + 1));
    CHECK(atomic_load(&testing_last_status) == 499);
    publish(1);
    CHECK(testing_ask("GET /wait?after=0 HTTP/1.1\r\n" HOST END, &reply) == 200);
    CHECK(atomic_load(&parked_runs) == runs + 2);
}

/* From here on there is no server any more. */
TEST(a_shutdown_ends_streams_and_asks_parked_calls_once_more)
{
    int runs = atomic_load(&parked_runs);

    atomic_store(&published, 0);
    AUTO_FD int stream = listen_to_events(""), parked = testing_dial();
    CHECK(testing_say(parked, STR("GET /wait?after=0&wait=60000 HTTP/1.1\r\n" HOST END)));
    while (atomic_load(&parked_runs) == runs)
        sched_yield();
    testing_begin_stop(10000);
    CHECK(testing_hear(parked, &reply));
    CHECK_STR(reply.body, "null");
    CHECK(testing_hear_until(stream, "0\r\n\r\n"));
    CHECK(testing_is_closed(stream));
    CHECK(all_released());
}

/* Its own server, whose streams end soon. */
TEST(a_stream_ends_after_its_time_and_can_be_resumed)
{
    static const struct http_config brief = {.stream_end_ms = 100};

    testing_stop();
    testing_start(routes, COUNT_OF(routes), &brief);
    atomic_store(&published, 2);

    AUTO_FD int fd = testing_dial();

    CHECK(testing_say(fd, STR("GET /events HTTP/1.1\r\n" HOST END)));
    CHECK(testing_hear(fd, &reply) && strstr(reply.body, "data: 2\n\n"));
    CHECK(testing_say(fd, STR("GET /events HTTP/1.1\r\n" HOST "Last-Event-ID: 2\r\n" END)));
    CHECK(testing_hear(fd, &reply) && reply.len == 0);
    testing_begin_stop(1000);
}

int main(void)
{
    static const struct http_config tweak = {
        .stream_quiet_ms = QUIET_MS,
        .stream_end_ms = END_MS,
        .write_timeout_ms = WRITE_MS,
    };

    sem_init(&released, 0, 0);
    sem_init(&looked, 0, 0);
    sem_init(&may_return, 0, 0);
    testing_start(routes, COUNT_OF(routes), &tweak);
    int status = test_run_all();
    testing_stop();
    return status;
}
