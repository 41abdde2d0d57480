#include "http/server.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/own.h"
#include "base/test.h"
#include "http/testing.h"

#define HOST    "Host: h\r\n"
#define END     "\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

enum { LARGE_MAX = 1024 * 1024, UPLOAD_MAX = 32 * 1024 * 1024 };

static struct reply reply;
static sem_t gate, entered;

static bool health(struct call *call UNUSED, struct response *res, struct error *err)
{
    response_json(res, 200);
    return buf_append(response_body(res), STR("{\"status\":\"ok\"}"), err);
}

static bool echo_get(struct call *call, struct response *res, struct error *err)
{
    struct str value = {0};
    int64_t limit;
    bool found;

    if (!call_query(call, "q", &value, &found, err) ||
        !call_query_int(call, "limit", 1, 200, 100, &limit, err))
        return false;

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_text(&json, "name", call_param(call, 0));
    json_text(&json, "q", value);
    json_int(&json, "limit", limit);
    json_text(&json, "environment", call->match.environment);
    json_bool(&json, "unix", call->over_unix_socket);
    json_bool(&json, "local", call->peer_is_local);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err) && response_header(res, "X-Extra", STR("yes"), err);
}

static bool echo_post(struct call *call, struct response *res, struct error *err)
{
    response_bytes(res, 201, "text/plain");
    return buf_append(response_body(res), call->request->body, err);
}

/* Answers with the length and a checksum of the spooled file. */
static bool upload(struct call *call, struct response *res, struct error *err)
{
    unsigned char piece[65536];
    uint64_t sum = 0, at = 0;
    ssize_t got;
    struct stat about;
    char text[64];

    while ((got = read(call->upload_fd, piece, sizeof piece)) > 0)
        for (ssize_t i = 0; i < got; i++, at++)
            sum = sum * 31 + piece[i];
    if (fstat(call->upload_fd, &about) < 0 || about.st_nlink != 0 || at != call->upload_len)
        return error_set(err, ERR_CONFLICT, "not the file it should be");
    snprintf(text, sizeof text, "%llu %llx", (unsigned long long)at, (unsigned long long)sum);
    response_bytes(res, 200, "text/plain");
    return buf_append(response_body(res), str_of(text), err);
}

/* Waits until the test opens the gate. */
static bool slow(struct call *call UNUSED, struct response *res, struct error *err UNUSED)
{
    sem_post(&entered);
    sem_wait(&gate);
    response_empty(res, 204);
    return true;
}

static bool broken(struct call *call UNUSED, struct response *res, struct error *err)
{
    response_json(res, 200);
    return error_set(err, ERR_INTERNAL, "open /secret/path: Permission denied");
}

static bool mute(struct call *call UNUSED, struct response *res UNUSED, struct error *err UNUSED)
{
    return true;
}

static bool inject(struct call *call UNUSED, struct response *res, struct error *err)
{
    response_empty(res, 200);
    return response_header(res, "X-Bad", STR("a\r\nX-Injected: b"), err);
}

static bool big(struct call *call UNUSED, struct response *res, struct error *err)
{
    static char bytes[8 * 1024 * 1024];

    response_bytes(res, 200, "application/octet-stream");
    return buf_append(response_body(res), (struct str){bytes, sizeof bytes}, err);
}

static const struct route routes[] = {
    {METHOD_GET, "/health", 1, health, .instant = true},
    {METHOD_POST, "/health", 1, echo_post, .instant = true},
    {METHOD_GET, "/api/echo/:name", 1, echo_get, .scoped = true},
    {METHOD_POST, "/api/echo", 1, echo_post},
    {METHOD_DELETE, "/api/echo", 1, echo_post},
    {METHOD_POST, "/api/large", 1, echo_post, .body_max = LARGE_MAX},
    {METHOD_POST, "/api/upload", 1, upload, .body_max = UPLOAD_MAX, .upload = true},
    {METHOD_GET, "/api/slow", 1, slow},
    {METHOD_GET, "/api/broken", 1, broken},
    {METHOD_GET, "/api/mute", 1, mute},
    {METHOD_GET, "/api/inject", 1, inject},
    {METHOD_GET, "/api/big", 1, big},
};

static bool ask_on(int fd, const char *request, int want)
{
    return testing_say(fd, str_of(request)) && testing_hear(fd, &reply) && reply.status == want;
}

/* The server is still there and well. */
static bool is_alive(void)
{
    return testing_ask("GET /health HTTP/1.1\r\n" HOST END, &reply) == 200;
}

TEST(an_answer_has_a_length_and_an_id)
{
    CHECK(testing_ask("GET /health HTTP/1.1\r\n" HOST END, &reply) == 200);
    CHECK_STR(reply.body, "{\"status\":\"ok\"}");
    CHECK_STR(reply_header(&reply, "Content-Length"), "15");
    CHECK_STR(reply_header(&reply, "Content-Type"), "application/json");
    CHECK_STR(reply_header(&reply, "X-Everywhere"), "1");
    CHECK(strlen(reply_header(&reply, "X-Request-ID")) == ID_LEN);
}

TEST(one_connection_serves_many_requests)
{
    AUTO_FD int fd = testing_dial();

    for (int i = 0; i < 100; i++) {
        CHECK(ask_on(fd, "GET /api/echo/a%20b?q=1%2B1+2 HTTP/1.1\r\n" HOST END, 200));
        CHECK(strstr(reply.body, "\"name\":\"a b\"") && strstr(reply.body, "\"q\":\"1+1 2\""));
        CHECK_STR(reply_header(&reply, "X-Extra"), "yes");
        CHECK(ask_on(fd, "GET /health HTTP/1.1\r\n" HOST END, 200));
    }
}

TEST(errors_are_json_with_a_code)
{
    static const struct {
        int want;
        const char *code, *request;
    } rows[] = {
        {404, "not_found",           "GET /nothing HTTP/1.1\r\n" HOST END             },
        {405, "method_not_allowed",  "PUT /api/echo HTTP/1.1\r\n" HOST END            },
        {403, "permission_required",
         "GET /api/echo/a HTTP/1.1\r\nAuthorization: nobody\r\n" HOST END             },
        {400, "invalid_request",     "GET /api/echo/%zz HTTP/1.1\r\n" HOST END        },
        {400, "invalid_request",     "GET /api/echo/a%00b HTTP/1.1\r\n" HOST END      },
        {400, "invalid_request",     "GET /api/echo/a?q=%f HTTP/1.1\r\n" HOST END     },
        {400, "invalid_request",     "GET /api/echo/a?q=1&q=2 HTTP/1.1\r\n" HOST END  },
        {400, "invalid_request",     "GET /api/echo/a?limit=201 HTTP/1.1\r\n" HOST END},
        {400, "invalid_request",     "GET /api/echo/a?limit=+1 HTTP/1.1\r\n" HOST END },
        {400, "invalid_request",     "GET /api/echo/a?limit= HTTP/1.1\r\n" HOST END   },
        {500, "internal_error",      "GET /api/broken HTTP/1.1\r\n" HOST END          },
        {500, "internal_error",      "GET /api/mute HTTP/1.1\r\n" HOST END            },
        {500, "internal_error",      "GET /api/inject HTTP/1.1\r\n" HOST END          },
    };
    AUTO_FD int fd = testing_dial();
    char code[64];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(ask_on(fd, rows[i].request, rows[i].want));
        snprintf(code, sizeof code, "\"code\":\"%s\"", rows[i].code);
        CHECK(strstr(reply.body, code) && strstr(reply.body, "\"error\":\""));
        CHECK(!strstr(reply.body, "secret"));
        CHECK(!strstr(reply.head, "Injected"));
        CHECK(strlen(reply_header(&reply, "X-Request-ID")) == ID_LEN);
    }
}

TEST(a_wrong_method_names_the_right_ones)
{
    CHECK(testing_ask("PUT /api/echo HTTP/1.1\r\n" HOST END, &reply) == 405);
    CHECK_STR(reply_header(&reply, "Allow"), "POST, DELETE");
}

TEST(a_scoped_path_names_its_environment)
{
    CHECK(testing_ask("GET /api/projects/p/environments/pro%64/echo/a HTTP/1.1\r\n" HOST END,
                      &reply) == 200);
    CHECK(strstr(reply.body, "\"environment\":\"prod\""));
}

TEST(head_is_get_without_the_body)
{
    AUTO_FD int fd = testing_dial();

    CHECK(testing_say(fd, STR("HEAD /health HTTP/1.1\r\n" HOST END)));
    CHECK(testing_hear_headless(fd, &reply) && reply.status == 200);
    CHECK_STR(reply_header(&reply, "Content-Length"), "15");
    CHECK(ask_on(fd, "GET /health HTTP/1.1\r\n" HOST END, 200));
}

TEST(the_end_of_the_connection_follows_the_client)
{
    static const char *const requests[] = {
        "GET /health HTTP/1.0\r\n" HOST END,
        "GET /health HTTP/1.0\r\nConnection: keep-alive\r\n" HOST END,
        "GET /health HTTP/1.1\r\nConnection: close\r\n" HOST END,
    };

    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        AUTO_FD int fd = testing_dial();

        CHECK(ask_on(fd, requests[i], 200));
        CHECK_STR(reply_header(&reply, "Connection"), "close");
        CHECK(testing_is_closed(fd));
    }
}

TEST(pipelined_requests_are_answered_in_order)
{
    AUTO_FD int fd = testing_dial();
    static const char ask[] =
        "GET /api/echo/1 HTTP/1.1\r\n" HOST END "GET /health HTTP/1.1\r\n" HOST END
        "POST /api/echo HTTP/1.1\r\nContent-Length: 3\r\n" HOST END "two"
        "GET /api/echo/3 HTTP/1.1\r\n" HOST END;

    for (int round = 0; round < 20; round++)
        CHECK(testing_say(fd, str_of(ask)));
    for (int round = 0; round < 20; round++) {
        CHECK(testing_hear(fd, &reply) && strstr(reply.body, "\"name\":\"1\""));
        CHECK(testing_hear(fd, &reply) && strstr(reply.body, "\"status\""));
        CHECK(testing_hear(fd, &reply));
        CHECK_STR(reply.body, "two");
        CHECK(testing_hear(fd, &reply) && strstr(reply.body, "\"name\":\"3\""));
    }
}

TEST(bodies_come_by_length_or_in_chunks)
{
    AUTO_FD int fd = testing_dial();

    CHECK(ask_on(fd, "POST /api/echo HTTP/1.1\r\nContent-Length: 5\r\n" HOST END "hello", 201));
    CHECK_STR(reply.body, "hello");
    CHECK(ask_on(fd,
                 "POST /api/echo HTTP/1.1\r\n" CHUNKED HOST END "3\r\nhel\r\n2\r\nlo\r\n0" END END,
                 201));
    CHECK_STR(reply.body, "hello");
    CHECK(ask_on(fd, "POST /health HTTP/1.1\r\nContent-Length: 5\r\n" HOST END "hello", 201));
    CHECK_STR(reply.body, "hello");
    CHECK(ask_on(fd, "POST /api/echo HTTP/1.1\r\n" HOST END, 201));
    CHECK(reply.len == 0);
}

TEST(a_body_over_its_limit_is_refused_before_it_is_read)
{
    AUTO_FD int fd = testing_dial();
    int before = atomic_load(&testing_authorized);

    CHECK(ask_on(fd, "POST /api/large HTTP/1.1\r\nContent-Length: 1048577\r\n" HOST END, 413));
    CHECK(strstr(reply.body, "request_too_large"));
    CHECK(testing_is_closed(fd));
    CHECK(atomic_load(&testing_authorized) == before);
}

TEST(a_chunked_body_over_its_limit_is_refused_on_the_way)
{
    AUTO_FD int fd = testing_dial();
    static char chunk[70000] = "10000\r\n";

    memset(chunk + 7, 'a', 65536);
    memcpy(chunk + 7 + 65536, "\r\n", sizeof "\r\n");
    CHECK(testing_say(fd, STR("POST /api/large HTTP/1.1\r\n" CHUNKED HOST END)));
    for (int i = 0; i < 17; i++)
        CHECK(testing_say(fd, (struct str){chunk, 7 + 65536 + 2}));
    CHECK(testing_hear(fd, &reply) && reply.status == 413);
    CHECK(testing_is_closed(fd));
}

TEST(who_may_not_is_told_before_a_large_body_is_read)
{
    AUTO_FD int fd = testing_dial();

    CHECK(ask_on(fd,
                 "POST /api/large HTTP/1.1\r\nAuthorization: nobody\r\nContent-Length: 1000000\r\n"
                 "Expect: 100-continue\r\n" HOST END,
                 403));
    CHECK(testing_is_closed(fd));
}

TEST(who_expects_to_continue_is_told_to)
{
    AUTO_FD int fd = testing_dial();
    static char body[100000];

    memset(body, 'b', sizeof body);
    CHECK(ask_on(
        fd,
        "POST /api/large HTTP/1.1\r\nContent-Length: 100000\r\nExpect: 100-Continue\r\n" HOST END,
        100));
    CHECK(testing_say(fd, (struct str){body, sizeof body}));
    CHECK(testing_hear(fd, &reply) && reply.status == 201 && reply.len == sizeof body);
    CHECK(
        ask_on(fd,
               "POST /api/echo HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n" HOST END,
               100));
    CHECK(ask_on(fd, "hi", 201));
    CHECK_STR(reply.body, "hi");
}

TEST(a_chunked_upload_reaches_the_disk_whole)
{
    AUTO_FD int fd = testing_dial();
    char want[64];

    CHECK(testing_say(fd, STR("POST /api/upload HTTP/1.1\r\n" CHUNKED HOST END)));
    CHECK(testing_say_chunks(fd, 320, want));
    CHECK(testing_hear(fd, &reply) && reply.status == 200);
    CHECK_STR(reply.body, want);
    CHECK(ask_on(fd, "POST /api/upload HTTP/1.1\r\nContent-Length: 1\r\n" HOST END "a", 200));
    CHECK_STR(reply.body, "1 61");
    CHECK(ask_on(fd, "POST /api/upload HTTP/1.1\r\n" HOST END, 200));
    CHECK_STR(reply.body, "0 0");
}

TEST(bodies_in_memory_have_a_budget_together)
{
    enum { CLIENTS = 8 };
    static char piece[1000000];
    int fds[CLIENTS], refused = 0;

    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = testing_dial();
        CHECK(testing_say(fds[i],
                          STR("POST /api/large HTTP/1.1\r\nContent-Length: 1000001\r\n" HOST END)));
        testing_say(fds[i], (struct str){piece, sizeof piece});
    }
    for (int i = 0; i < CLIENTS; i++) {
        testing_say(fds[i], STR("z"));
        if (testing_hear(fds[i], &reply))
            refused += reply.status == 503;
        close(fds[i]);
    }
    CHECK(refused > 0 && refused < CLIENTS);
    CHECK(is_alive());
}

TEST(a_big_answer_arrives_through_a_narrow_socket)
{
    AUTO_FD int fd = testing_dial_narrow();

    CHECK(ask_on(fd, "GET /api/big HTTP/1.1\r\n" HOST END, 200));
    CHECK(reply.len == MIB(8));
    CHECK(ask_on(fd, "GET /health HTTP/1.1\r\n" HOST END, 200));
}

TEST(the_unix_socket_serves_and_says_so)
{
    AUTO_FD int fd = testing_dial_unix(), tcp = testing_dial();
    struct stat about;

    CHECK(stat(testing_unix_path, &about) == 0 && (about.st_mode & 0777) == 0600);
    CHECK(ask_on(fd, "GET /api/echo/a HTTP/1.1\r\n" HOST END, 200));
    CHECK(strstr(reply.body, "\"unix\":true,\"local\":true"));
    CHECK(ask_on(tcp, "GET /api/echo/a HTTP/1.1\r\n" HOST END, 200));
    CHECK(strstr(reply.body, "\"unix\":false,\"local\":true"));
}

TEST(a_client_that_leaves_while_it_is_served_harms_nobody)
{
    int fd = testing_dial();
    struct linger reset = {.l_onoff = 1};

    CHECK(testing_say(fd, STR("GET /api/slow HTTP/1.1\r\n" HOST END)));
    sem_wait(&entered);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    close(fd);
    CHECK(is_alive());

    int answers = atomic_load(&testing_answered);
    sem_post(&gate);
    CHECK(testing_answers_reach(answers + 1));
    CHECK(atomic_load(&testing_last_status) == 499 || atomic_load(&testing_last_status) == 204);
    CHECK(is_alive());
}

/* From here on there is no server any more. */
TEST(a_shutdown_finishes_what_has_begun_and_nothing_else)
{
    AUTO_FD int busy = testing_dial(), idle = testing_dial(), half = testing_dial();

    CHECK(ask_on(idle, "GET /health HTTP/1.1\r\n" HOST END, 200));
    CHECK(testing_say(half, STR("GET /health HTT")));
    CHECK(testing_say(busy, STR("GET /api/slow HTTP/1.1\r\n" HOST END)));
    sem_wait(&entered);
    testing_begin_stop(10000);
    CHECK(testing_is_closed(idle));
    CHECK(testing_is_closed(half));
    AUTO_FD int late = testing_dial();
    CHECK(late < 0);
    sem_post(&gate);
    CHECK(testing_hear(busy, &reply) && reply.status == 204);
    CHECK_STR(reply_header(&reply, "Connection"), "close");
    CHECK(testing_is_closed(busy));
}

/* Its own server, after the end of the other. */
TEST(a_shutdown_does_not_wait_for_ever)
{
    static const struct http_config nothing = {0};

    testing_stop();
    testing_start(routes, COUNT_OF(routes), &nothing);

    AUTO_FD int fd = testing_dial();

    CHECK(testing_say(fd, STR("GET /api/slow HTTP/1.1\r\n" HOST END)));
    sem_wait(&entered);
    testing_begin_stop(50);
    testing_join();
    CHECK(testing_is_closed(fd));
    sem_post(&gate);
}

int main(void)
{
    static const struct http_config tweak = {
        .json_max = 4096,
        .body_budget = MIB(4),
        .response_headers = "X-Everywhere: 1\r\n",
    };

    sem_init(&gate, 0, 0);
    sem_init(&entered, 0, 0);
    testing_start(routes, COUNT_OF(routes), &tweak);
    int status = test_run_all();
    testing_stop();
    return status;
}
