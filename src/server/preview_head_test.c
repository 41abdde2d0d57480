#include "server/preview_head.h"

#include "base/own.h"
#include "base/test.h"

static const struct preview_side side = {.prefix = "/w/one/3000", .port = 3000};
static struct buf out;
static struct preview_answer answer;
static struct error err;

static bool translate(const char *head)
{
    buf_finish(&out);
    out.max = KIB(64);
    return preview_answer_head(str_of(head), &side, &out, &answer, &err);
}

static bool has(const char *text)
{
    return out.len > 0 && memmem(out.bytes, out.len, text, strlen(text));
}

TEST(an_answer_keeps_what_is_for_the_browser)
{
    CHECK(translate("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nX-A: b: c\r\n"
                    "Content-Length: 7\r\n\r\n"));
    CHECK(answer.status == 404 && answer.has_length && answer.length == 7);
    CHECK(has("HTTP/1.1 404 \r\n") && has("\r\nContent-Type: text/html\r\nX-A: b: c\r\n"));
    CHECK(has("\r\nConnection: close\r\n") && has("\r\nContent-Length: 7\r\n\r\n"));
    buf_finish(&out);
}

TEST(what_is_for_one_connection_or_for_the_whole_origin_stays_behind)
{
    CHECK(translate("HTTP/1.0 200 OK\r\nconnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\n"
                    "X-Hop: 1\r\nUpgrade: h2c\r\nService-Worker-Allowed: /\r\n"
                    "clear-site-data: \"*\"\r\nStrict-Transport-Security: max-age=9\r\n"
                    "Alt-Svc: h3\r\nETag: \"e\"\r\n\r\n"));
    CHECK(!has("eep-") && !has("Hop") && !has("pgrade") && !has("orker") && !has("site-data"));
    CHECK(!has("Strict") && !has("Alt-Svc") && has("ETag: \"e\"") && !answer.has_length);
    buf_finish(&out);
}

TEST(cookies_stay_below_the_prefix_and_none_is_ours)
{
    CHECK(translate("HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/; Domain=example.org; HttpOnly\r\n"
                    "Set-Cookie: b=2\r\nset-cookie: helmr_preview=x; Path=/\r\n"
                    "Set-Cookie: helmr_session_dev=y\r\nSet-Cookie: __Host-helmr_session=z\r\n"
                    "Set-Cookie: c=3; pAtH =/w/other/; Secure\r\n\r\n"));
    CHECK(has("Set-Cookie: a=1; HttpOnly; Path=/w/one/3000/\r\n"));
    CHECK(has("Set-Cookie: b=2; Path=/w/one/3000/\r\n"));
    CHECK(has("Set-Cookie: c=3; Secure; Path=/w/one/3000/\r\n"));
    CHECK(!has("helmr_") && !has("example.org") && !has("other"));
    buf_finish(&out);
}

TEST(a_path_to_go_to_is_below_the_prefix)
{
    CHECK(translate("HTTP/1.1 302 Found\r\nLocation: /login?a\r\n\r\n"));
    CHECK(has("Location: /w/one/3000/login?a\r\n"));
    CHECK(translate("HTTP/1.1 302 Found\r\nLocation: https://example.org/\r\n\r\n"));
    CHECK(has("Location: https://example.org/\r\n"));
    CHECK(translate("HTTP/1.1 302 Found\r\nLocation: next\r\n\r\n") && has("Location: next\r\n"));
    buf_finish(&out);
}

TEST(chunks_go_through_and_beat_a_length)
{
    CHECK(translate("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nContent-Length: 5\r\n\r\n"));
    CHECK(!answer.has_length && has("Transfer-Encoding: chunked\r\n") && !has("Content-Length"));
    CHECK(translate("HTTP/1.1 100 Continue\r\n\r\n") && answer.status == 100 && out.len == 0);
    buf_finish(&out);
}

static const struct preview_side socket_side = {.prefix = "/w/one/3000",
                                                .port = 3000,
                                                .accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="};

#define SWITCHES "HTTP/1.1 101 Switching Protocols\r\n"
#define ACCEPTS  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"

static bool agree(const char *head)
{
    buf_finish(&out);
    out.max = KIB(64);
    return preview_answer_head(str_of(head), &socket_side, &out, &answer, &err);
}

TEST(a_websocket_is_agreed_on_as_it_was_asked_for)
{
    CHECK(agree(SWITCHES
                "connection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n" ACCEPTS
                "Sec-WebSocket-Protocol: vite-hmr\r\nX-Mine: 1\r\n"
                "Sec-WebSocket-Extensions: permessage-deflate\r\nSet-Cookie: a=1\r\n\r\n"));
    CHECK(answer.status == 101 && !answer.has_length);
    CHECK(has(SWITCHES "Connection: Upgrade\r\nUpgrade: websocket\r\n" ACCEPTS));
    CHECK(has("\r\nSec-WebSocket-Protocol: vite-hmr\r\nX-Mine: 1\r\n"));
    CHECK(has("\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"));
    CHECK(has("\r\nSet-Cookie: a=1; Path=/w/one/3000/\r\n\r\n") && !has("keep-alive"));
    CHECK(agree("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") && answer.status == 403);
    CHECK(has("\r\nConnection: close\r\n"));
    buf_finish(&out);
}

TEST(a_websocket_that_was_not_asked_for_is_refused)
{
    static const char *const heads[] = {
        SWITCHES "Upgrade: websocket\r\n" ACCEPTS "\r\n",
        SWITCHES "Connection: Upgrade\r\n" ACCEPTS "\r\n",
        SWITCHES "Connection: Upgrade\r\nUpgrade: h2c\r\n" ACCEPTS "\r\n",
        SWITCHES "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        SWITCHES "Connection: Upgrade\r\nUpgrade: websocket\r\n" ACCEPTS ACCEPTS "\r\n",
        SWITCHES "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                 "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        SWITCHES "Connection: Upgrade\r\nUpgrade: websocket\r\n" ACCEPTS
                 "Content-Length: 1\r\n\r\n",
        SWITCHES "Connection: Upgrade\r\nUpgrade: websocket\r\n" ACCEPTS
                 "Transfer-Encoding: chunked\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(heads); i++)
        CHECK(!agree(heads[i]) && err.code == ERR_INVALID);
    CHECK(!translate(SWITCHES "Connection: Upgrade\r\nUpgrade: websocket\r\n" ACCEPTS "\r\n"));
    buf_finish(&out);
}

TEST(what_is_no_answer_is_refused)
{
    static const char *const heads[] = {
        "",
        "\r\n\r\n",
        "220 mail ready\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 999 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: empty\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX Y: space\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(heads); i++)
        CHECK(!translate(heads[i]) && err.code == ERR_INVALID);
    buf_finish(&out);
}

TEST_MAIN()
