#include "http/websocket_client.h"

#include <poll.h>
#include <stdio.h>

#include "base/own.h"
#include "base/secret.h"
#include "base/time.h"
#include "http/client_state.h"
#include "http/websocket_reply.h"

enum {
    HEAD_MAX = 16 * 1024,
    OUTPUT_MAX = 4 * 1024 * 1024,
    TURN_MAX = 256 * 1024,
    PIECE = 16 * 1024,
};

struct websocket_client {
    CURL *curl;
    struct websocket *frames;
    struct buf early; /* came together with the answer */
    curl_socket_t fd;
    int64_t heard_ms;
    bool is_held, has_more, is_over;
    char error_text[CURL_ERROR_SIZE];
};

void websocket_client_destroy(struct websocket_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->curl);
    websocket_destroy(client->frames);
    buf_finish(&client->early);
    free(client);
}

static void destroy(struct websocket_client **client)
{
    websocket_client_destroy(*client);
}

static bool connect_to(const struct http_client *server, struct websocket_client *client,
                       struct error *err)
{
    curl_easy_setopt(client->curl, CURLOPT_URL, server->base);
    client_set_connection(server, client->curl, client->error_text);
    curl_easy_setopt(client->curl, CURLOPT_CONNECT_ONLY, 1L);

    CURLcode result = curl_easy_perform(client->curl);

    if (result != CURLE_OK)
        return client_explain(server, result, client->error_text, err);
    if (curl_easy_getinfo(client->curl, CURLINFO_ACTIVESOCKET, &client->fd) != CURLE_OK)
        return error_set(err, ERR_UNAVAILABLE, "%s has left", server->base);
    return true;
}

/* "http://host:port/prefix" in its parts. */
static struct str host_of(const char *base)
{
    const char *start = strstr(base, "://") + 3;

    return (struct str){start, strcspn(start, "/")};
}

static bool add(struct buf *out, struct error *err, const char *name, struct str value)
{
    return buf_append(out, str_of(name), err) && buf_append(out, value, err) &&
           buf_append(out, STR("\r\n"), err);
}

static bool write_request(const struct http_client *server, const struct websocket_dial *dial,
                          const char *key, struct buf *out, struct error *err)
{
    struct str host = host_of(server->base);
    const char *prefix = host.ptr + host.len;

    if (!buf_append(out, STR("GET "), err) || !buf_append(out, str_of(prefix), err) ||
        !buf_append(out, str_of(dial->path), err) || !add(out, err, " HTTP/1.1", (struct str){0}) ||
        !add(out, err, "Host: ", host) || !add(out, err, "Upgrade: ", STR("websocket")) ||
        !add(out, err, "Connection: ", STR("Upgrade")) ||
        !add(out, err, "Sec-WebSocket-Version: ", STR("13")) ||
        !add(out, err, "Sec-WebSocket-Key: ", str_of(key)) ||
        !add(out, err, "Sec-WebSocket-Protocol: ", str_of(dial->protocol)) ||
        (server->bearer && !add(out, err, server->bearer, (struct str){0})))
        return false;
    for (size_t i = 0; dial->headers && dial->headers[i]; i++) {
        if (client_has_control_byte(dial->headers[i]))
            return error_set(err, ERR_INVALID, "a header would hold a control byte");
        if (!add(out, err, dial->headers[i], (struct str){0}))
            return false;
    }
    return buf_append(out, STR("\r\n"), err);
}

static bool wait_for(const struct websocket_client *client, short events, int64_t until_ms,
                     struct error *err)
{
    struct pollfd one = {.fd = client->fd, .events = events};
    int64_t left = until_ms - time_boot_ms();

    if (left <= 0 || poll(&one, 1, (int)left) <= 0)
        return error_set(err, ERR_TIMEOUT, "the server did not answer in time");
    return true;
}

static bool send_whole(struct websocket_client *client, struct str bytes, int64_t until_ms,
                       struct error *err)
{
    while (bytes.len > 0) {
        size_t sent = 0;
        CURLcode result = curl_easy_send(client->curl, bytes.ptr, bytes.len, &sent);

        if (result == CURLE_AGAIN) {
            if (!wait_for(client, POLLOUT, until_ms, err))
                return false;
        } else if (result != CURLE_OK) {
            return error_set(err, ERR_UNAVAILABLE, "%s", curl_easy_strerror(result));
        }
        bytes = (struct str){bytes.ptr + sent, bytes.len - sent};
    }
    return true;
}

/* Reads until the answer is whole: its head, and for a refusal its body. */
static bool hear_answer(struct websocket_client *client, struct websocket_reply *reply,
                        int64_t until_ms, struct error *err)
{
    char piece[PIECE];

    for (;;) {
        size_t got = 0;
        CURLcode result = curl_easy_recv(client->curl, piece, sizeof piece, &got);

        if (result == CURLE_AGAIN) {
            if (!wait_for(client, POLLIN, until_ms, err))
                return false;
            continue;
        }
        bool is_over = result != CURLE_OK || got == 0;
        if (!websocket_reply_feed(reply, (struct str){piece, got}, is_over, err))
            return false;
        if (reply->is_whole)
            return true;
    }
}

static bool shake_hands(const struct http_client *server, const struct websocket_dial *dial,
                        struct websocket_client *client, struct http_answer *refusal,
                        struct error *err)
{
    AUTO(buf_finish) struct buf request = {.max = HEAD_MAX};
    AUTO(websocket_reply_finish) struct websocket_reply reply = {.protocol = dial->protocol};
    int64_t until_ms = time_boot_ms() + dial->timeout_ms;

    websocket_make_key(reply.key);
    if (!write_request(server, dial, reply.key, &request, err))
        return false;
    bool ok = send_whole(client, buf_str(&request), until_ms, err) &&
              hear_answer(client, &reply, until_ms, err);
    bytes_wipe(request.bytes, request.len);
    if (!ok)
        return false;
    if (reply.status != 101) {
        refusal->status = reply.status;
        return buf_append(&refusal->body, websocket_reply_rest(&reply), err) &&
               error_set(err, ERR_UNAVAILABLE, "the server answered %d", reply.status);
    }
    client->early.max = websocket_reply_rest(&reply).len;
    return buf_append(&client->early, websocket_reply_rest(&reply), err);
}

bool websocket_client_open(const struct http_client *server, const struct websocket_dial *dial,
                           const struct websocket_events *events, void *arg,
                           struct websocket_client **made, struct http_answer *refusal,
                           struct error *err)
{
    refusal->status = 0;
    if (!client_may_send(server, dial->path, err))
        return false;

    AUTO(destroy) struct websocket_client *client = alloc(sizeof *client);

    *client = (struct websocket_client){
        .curl = curl_easy_init(),
        .frames = websocket_create(WEBSOCKET_CLIENT, events, arg, OUTPUT_MAX),
        .heard_ms = time_boot_ms(),
        .has_more = true,
    };
    if (!client->curl)
        abort();
    if (!connect_to(server, client, err) || !shake_hands(server, dial, client, refusal, err))
        return false;
    *made = TAKE(client);
    return true;
}

int websocket_client_fd(const struct websocket_client *client)
{
    return client->fd;
}

short websocket_client_wants(const struct websocket_client *client)
{
    return (short)((client->is_held ? 0 : POLLIN) |
                   (websocket_client_unsent(client) > 0 ? POLLOUT : 0));
}

bool websocket_client_has_more(const struct websocket_client *client)
{
    return client->has_more && !client->is_held;
}

static void read_some(struct websocket_client *client)
{
    char piece[PIECE];

    client->has_more = true;
    websocket_feed(client->frames, buf_str(&client->early));
    buf_finish(&client->early);
    for (size_t all = 0; all < TURN_MAX && !client->is_held;) {
        size_t got = 0;
        CURLcode result = curl_easy_recv(client->curl, piece, sizeof piece, &got);

        if (result == CURLE_AGAIN) {
            client->has_more = false;
            return;
        }
        if (result != CURLE_OK || got == 0) {
            client->is_over = true;
            return;
        }
        client->heard_ms = time_boot_ms();
        websocket_feed(client->frames, (struct str){piece, got});
        all += got;
    }
}

static void write_some(struct websocket_client *client)
{
    struct buf *out = websocket_output(client->frames);

    while (out->len > 0) {
        size_t sent = 0;
        CURLcode result = curl_easy_send(client->curl, out->bytes, out->len, &sent);

        if (result == CURLE_AGAIN)
            return;
        if (result != CURLE_OK) {
            client->is_over = true;
            return;
        }
        buf_consume(out, sent);
    }
}

bool websocket_client_turn(struct websocket_client *client, struct error *err)
{
    if (!client->is_held)
        read_some(client);
    write_some(client);
    if (websocket_is_ending(client->frames) && websocket_client_unsent(client) == 0)
        return error_set(err, ERR_CANCELLED, "the connection was closed");
    if (client->is_over || websocket_is_choked(client->frames))
        return error_set(err, ERR_UNAVAILABLE, "the connection broke");
    return true;
}

void websocket_client_hold(struct websocket_client *client, bool is_held)
{
    client->is_held = is_held;
}

bool websocket_client_send(struct websocket_client *client, enum websocket_kind kind,
                           struct str bytes, struct error *err)
{
    return websocket_send(client->frames, kind, bytes, err);
}

size_t websocket_client_unsent(const struct websocket_client *client)
{
    return websocket_output(client->frames)->len;
}

void websocket_client_close(struct websocket_client *client, enum websocket_close code,
                            const char *reason)
{
    websocket_close(client->frames, code, reason);
}

int websocket_client_code(const struct websocket_client *client)
{
    return websocket_peer_code(client->frames);
}

const char *websocket_client_reason(const struct websocket_client *client)
{
    return websocket_peer_reason(client->frames);
}

int64_t websocket_client_heard_ms(const struct websocket_client *client)
{
    return client->heard_ms;
}
