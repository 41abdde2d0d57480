#include "http/server.h"

#include "base/json.h"
#include "base/own.h"
#include "base/test.h"
#include "http/testing.h"

#define HOST "Host: h\r\n"
#define END  "\r\n"

static struct reply reply;

static bool health(struct call *call UNUSED, struct response *res, struct error *err)
{
    response_json(res, 200);
    return buf_append(response_body(res), STR("{\"status\":\"ok\"}"), err);
}

static bool echo_get(struct call *call, struct response *res, struct error *err)
{
    struct str value = {0};
    bool found;

    if (!call_query(call, "q", &value, &found, err))
        return false;

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_text(&json, "name", call_param(call, 0));
    json_text(&json, "q", value);
    json_text(&json, "project", call->match.project);
    json_bool(&json, "unix", call->over_unix_socket);
    json_bool(&json, "local", call->peer_is_local);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool echo_post(struct call *call, struct response *res, struct error *err)
{
    response_bytes(res, 201, "text/plain");
    return buf_append(response_body(res), call->request->body, err);
}

static const struct route routes[] = {
    {METHOD_GET, "/health", 1, health, .instant = true},
    {METHOD_GET, "/api/echo/:name", 1, echo_get, .scoped = true},
    {METHOD_POST, "/api/echo", 1, echo_post},
};

TEST(an_answer_has_a_length_and_an_id)
{
    CHECK(testing_ask("GET /health HTTP/1.1\r\n" HOST END, &reply) == 200);
    CHECK_STR(reply.body, "{\"status\":\"ok\"}");
    CHECK_STR(reply_header(&reply, "Content-Length"), "15");
    CHECK_STR(reply_header(&reply, "Content-Type"), "application/json");
    CHECK(strlen(reply_header(&reply, "X-Request-ID")) == ID_LEN);
}

TEST(one_connection_serves_many_requests)
{
    AUTO_FD int fd = testing_dial();

    for (int i = 0; i < 100; i++) {
        CHECK(testing_say(fd, STR("GET /api/echo/a%20b?q=1%2B1+2 HTTP/1.1\r\n" HOST END)));
        CHECK(testing_hear(fd, &reply) && reply.status == 200);
        CHECK(strstr(reply.body, "\"name\":\"a b\"") && strstr(reply.body, "\"q\":\"1+1 2\""));
        CHECK(testing_say(fd, STR("GET /health HTTP/1.1\r\n" HOST END)));
        CHECK(testing_hear(fd, &reply) && reply.status == 200);
    }
}

int main(void)
{
    static const struct http_config tweak = {0};

    testing_start(routes, COUNT_OF(routes), &tweak);
    int status = test_run_all();
    testing_begin_stop(5000);
    testing_stop();
    return status;
}
