#include "http/client.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/own.h"
#include "base/test.h"
#include "http/testing.h"

static struct http_client *client;
static struct error err;
static char header_seen[64];
static uint64_t sent_last, sink_total;
static volatile bool abort_flag;

static bool echo(struct call *call, struct response *res, struct error *why)
{
    struct str key = call_header(call, STR("authorization"));

    response_bytes(res, 200, "text/plain");
    return response_header(res, "X-Key", key, why) &&
           response_header(res, "X-Type", call_header(call, STR("content-type")), why) &&
           buf_append(response_body(res), call->request->body, why);
}

static bool upload(struct call *call, struct response *res, struct error *why)
{
    char first[8] = "";
    char text[64];

    if (pread(call->upload_fd, first, 7, 0) < 0)
        return error_errno(why, "read");
    snprintf(text, sizeof text, "%llu %s", (unsigned long long)call->upload_len, first);
    response_bytes(res, 200, "text/plain");
    return buf_append(response_body(res), str_of(text), why);
}

static bool redirect(struct call *call UNUSED, struct response *res, struct error *why)
{
    response_empty(res, 302);
    return response_header(res, "Location", STR("/echo"), why);
}

static bool forever(struct call *call UNUSED, struct response *res, struct error *why UNUSED)
{
    response_park(res, "never", 60000);
    return true;
}

static bool pull(void *state UNUSED, struct buf *out, bool *more, bool *over UNUSED,
                 struct error *why)
{
    *more = true;
    return buf_append(out, STR("data: x\n\n"), why);
}

static bool endless(struct call *call UNUSED, struct response *res, struct error *why UNUSED)
{
    response_stream(res, &(struct response_source){
                             .content_type = "text/event-stream",
                             .is_sse = true,
                             .pull = pull,
                         });
    return true;
}

static const struct route routes[] = {
    {METHOD_GET, "/echo", 1, echo},
    {METHOD_POST, "/echo", 1, echo},
    {METHOD_DELETE, "/echo", 1, echo},
    {METHOD_PUT, "/upload", 1, upload, .body_max = MIB(8), .upload = true},
    {METHOD_PUT, "/small", 1, upload, .body_max = 1024, .upload = true},
    {METHOD_GET, "/redirect", 1, redirect},
    {METHOD_GET, "/forever", 1, forever},
    {METHOD_GET, "/endless", 1, endless},
};

static struct http_answer answer = {.body.max = KIB(64)};

static bool send(const struct http_request *request)
{
    return http_client_send(client, request, &answer, &err);
}

static bool body_is(const char *want)
{
    return str_equal(buf_str(&answer.body), str_of(want));
}

static void note_header(void *arg, struct str name, struct str value)
{
    if (str_equal_nocase(name, str_of(arg)))
        snprintf(header_seen, sizeof header_seen, "%.*s", (int)value.len, value.ptr);
}

static void note_progress(void *arg UNUSED, uint64_t sent, uint64_t total UNUSED)
{
    sent_last = sent;
}

static bool sink(void *arg, struct str bytes)
{
    sink_total += bytes.len;
    return sink_total < *(const uint64_t *)arg;
}

static bool open_at(const char *address)
{
    http_client_destroy(TAKE(client));
    return http_client_create(address, &client, &err);
}

static bool open_tcp(const char *host)
{
    char address[128];

    snprintf(address, sizeof address, "http://%s:%d/", host, testing_port);
    return open_at(address);
}

static bool open_unix(void)
{
    char address[128];

    snprintf(address, sizeof address, "unix:%s", testing_unix_path);
    return open_at(address);
}

TEST(methods_bodies_and_statuses_come_through)
{
    CHECK(open_tcp("127.0.0.1"));
    CHECK(send(&(struct http_request){.method = "GET", .path = "/echo?x=1"}));
    CHECK(answer.status == 200 && body_is(""));
    CHECK(send(&(struct http_request){
        .method = "POST",
        .path = "/echo",
        .body = STR("{\"a\":1}"),
        .on_header = note_header,
        .on_header_arg = (char[]){"x-type"},
    }));
    CHECK(answer.status == 200 && body_is("{\"a\":1}"));
    CHECK_STR(header_seen, "application/json");
    CHECK(send(&(struct http_request){.method = "POST", .path = "/echo"}));
    CHECK(answer.status == 200 && body_is(""));
    CHECK(send(&(struct http_request){.method = "DELETE", .path = "/echo"}));
    CHECK(answer.status == 200);
    CHECK(send(&(struct http_request){.method = "GET", .path = "/nothing"}));
    CHECK(answer.status == 404);
}

TEST(a_redirect_is_an_answer_like_any_other)
{
    CHECK(open_tcp("127.0.0.1"));
    CHECK(send(&(struct http_request){.method = "GET", .path = "/redirect"}));
    CHECK(answer.status == 302);
}

TEST(a_bearer_goes_to_loopback_and_unix_sockets)
{
    AUTO(secret_finish) struct secret key = secret_create(STR("k1"));
    const struct http_request request = {
        .method = "GET",
        .path = "/echo",
        .on_header = note_header,
        .on_header_arg = (char[]){"x-key"},
    };

    for (int i = 0; i < 3; i++) {
        CHECK(i == 0 ? open_unix() : open_tcp(i == 1 ? "localhost" : "127.0.0.1"));
        http_client_set_bearer(client, &key);
        CHECK(send(&request));
        CHECK_STR(header_seen, "Bearer k1");
        http_client_set_bearer(client, NULL);
        CHECK(send(&request));
        CHECK_STR(header_seen, "");
    }
}

TEST(a_bearer_never_crosses_a_network_in_clear_text)
{
    static const char *const addresses[] = {
        "http://192.0.2.1:80",
        "http://127.0.0.1.example.invalid",
        "http://localhost.example.invalid",
        "http://[2001:db8::1]:80",
    };
    AUTO(secret_finish) struct secret key = secret_create(STR("k1"));

    for (size_t i = 0; i < COUNT_OF(addresses); i++) {
        CHECK(open_at(addresses[i]));
        http_client_set_bearer(client, &key);
        CHECK(!send(&(struct http_request){.method = "GET", .path = "/", .timeout_ms = 1000}));
        CHECK(err.code == ERR_INVALID && strstr(err.text, "https"));
    }
}

TEST(addresses_and_headers_that_are_none_are_refused)
{
    static const char *const addresses[] = {
        "",           "ftp://h", "unix:relative",     "http://u:p@h",
        "http://h?x", "http://", "file:///etc/passwd"};
    AUTO(secret_finish) struct secret key = secret_create(STR("k\r\nX: y"));

    for (size_t i = 0; i < COUNT_OF(addresses); i++)
        CHECK(!open_at(addresses[i]) && err.code == ERR_INVALID);
    CHECK(open_unix());
    http_client_set_bearer(client, &key);
    CHECK(!send(&(struct http_request){.method = "GET", .path = "/echo"}));
    CHECK(err.code == ERR_INVALID);
}

TEST(nobody_there_is_told_apart_from_too_slow)
{
    CHECK(open_at("unix:/nonexistent/socket"));
    CHECK(!send(&(struct http_request){.method = "GET", .path = "/"}));
    CHECK(err.code == ERR_UNAVAILABLE && strstr(err.text, "/nonexistent/socket"));
    CHECK(open_tcp("127.0.0.1"));
    CHECK(!send(&(struct http_request){.method = "GET", .path = "/forever", .timeout_ms = 50}));
    CHECK(err.code == ERR_TIMEOUT);
    CHECK(!send(&(struct http_request){.method = "GET", .path = "/forever", .stall_ms = 50}));
    CHECK(err.code == ERR_TIMEOUT);
}

TEST(a_file_is_sent_with_its_progress)
{
    AUTO_FD int fd = memfd_create("upload", MFD_CLOEXEC);
    struct http_request request = {
        .method = "PUT",
        .path = "/upload",
        .content_type = "application/x-tar",
        .body_fd = fd,
        .body_fd_len = 5000000,
        .progress = note_progress,
    };

    CHECK(fd > 0 && ftruncate(fd, 5000000) == 0 && pwrite(fd, "content", 7, 0) == 7);
    CHECK(open_tcp("127.0.0.1"));
    CHECK(send(&request) && answer.status == 200 && body_is("5000000 content"));
    CHECK(sent_last == 5000000);
    request.path = "/small";
    CHECK(send(&request) && answer.status == 413);
}

TEST(a_body_of_unknown_length_is_sent_to_its_end_or_not_at_all)
{
    volatile bool is_given_up = false;
    struct http_request request = {
        .method = "PUT",
        .path = "/upload",
        .content_type = "application/x-tar",
        .body_is_stream = true,
        .abort = &is_given_up,
    };
    int ends[2];

    CHECK(open_tcp("127.0.0.1"));
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], "content", 7) == 7);
    close(ends[1]);
    AUTO_FD int whole = ends[0];
    request.body_fd = whole;
    CHECK(send(&request) && answer.status == 200 && body_is("7 content"));

    CHECK(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], "content", 7) == 7);
    close(ends[1]);
    AUTO_FD int half = ends[0];
    request.body_fd = half;
    is_given_up = true;
    CHECK(!send(&request));
}

TEST(a_stream_goes_to_the_sink_until_it_has_enough)
{
    uint64_t enough = 1000;

    sink_total = 0;
    CHECK(open_unix());
    CHECK(send(&(struct http_request){
        .method = "GET",
        .path = "/endless",
        .sink = sink,
        .sink_arg = &enough,
    }));
    CHECK(answer.status == 200 && sink_total >= enough && answer.body.len == 0);
    CHECK(send(&(struct http_request){.method = "GET", .path = "/nothing", .sink = sink}));
    CHECK(answer.status == 404 && answer.body.len > 0);
}

TEST(an_answer_over_its_limit_is_an_error)
{
    CHECK(open_unix());
    CHECK(!send(&(struct http_request){.method = "GET", .path = "/endless"}));
    CHECK(err.code == ERR_TOO_LARGE);
}

TEST(an_exchange_can_be_stopped)
{
    CHECK(open_tcp("127.0.0.1"));
    abort_flag = true;
    CHECK(!send(&(struct http_request){.method = "GET", .path = "/forever", .abort = &abort_flag}));
    CHECK(err.code == ERR_CANCELLED);
}

int main(void)
{
    static const struct http_config tweak = {0};

    testing_start(routes, COUNT_OF(routes), &tweak);
    int status = test_run_all();
    http_client_destroy(client);
    buf_finish(&answer.body);
    testing_begin_stop(5000);
    testing_stop();
    return status;
}
