#include "http/websocket_reply.h"

#include <stdlib.h>

enum { HEAD_MAX = 16 * 1024, REPLY_MAX = 128 * 1024, BODY_MAX = 64 * 1024 };

void websocket_reply_finish(struct websocket_reply *reply)
{
    buf_finish(&reply->bytes);
}

struct str websocket_reply_rest(const struct websocket_reply *reply)
{
    return (struct str){reply->bytes.bytes + reply->head_len, reply->bytes.len - reply->head_len};
}

static bool is_none(struct error *err)
{
    return error_set(err, ERR_UNAVAILABLE, "whoever is there does not speak WebSocket");
}

/* The value of the header in the head, or empty. */
static struct str header_of(const struct websocket_reply *reply, struct str name)
{
    struct str rest = {reply->bytes.bytes, reply->head_len}, line, key;

    while (str_split(&rest, '\n', &line)) {
        if (str_split(&line, ':', &key) && str_equal_nocase(key, name) && line.ptr)
            return str_trim(line, STR(" \t\r"));
    }
    return (struct str){0};
}

static bool read_status(struct websocket_reply *reply, struct error *err)
{
    static const struct str version = STR("HTTP/1.1 ");
    const char *at = reply->bytes.bytes + version.len;

    if (reply->head_len < version.len + 5 ||
        memcmp(reply->bytes.bytes, version.ptr, version.len) != 0)
        return is_none(err);
    for (int i = 0; i < 3; i++) {
        if (at[i] < '0' || at[i] > '9')
            return is_none(err);
        reply->status = reply->status * 10 + (at[i] - '0');
    }
    return true;
}

static bool is_agreed(const struct websocket_reply *reply)
{
    char accept[WEBSOCKET_ACCEPT_TEXT];

    websocket_accept_of(str_of(reply->key), accept);
    return str_equal_nocase(header_of(reply, STR("upgrade")), STR("websocket")) &&
           str_equal(header_of(reply, STR("sec-websocket-accept")), str_of(accept)) &&
           str_equal(header_of(reply, STR("sec-websocket-protocol")), str_of(reply->protocol));
}

static bool read_length(struct websocket_reply *reply, struct error *err)
{
    struct str text = header_of(reply, STR("content-length"));

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || reply->body_len > BODY_MAX)
            return is_none(err);
        reply->body_len = reply->body_len * 10 + (size_t)(text.ptr[i] - '0');
    }
    reply->has_length = text.len > 0;
    return true;
}

static bool read_head(struct websocket_reply *reply, struct error *err)
{
    const char *end = memmem(reply->bytes.bytes, reply->bytes.len, "\r\n\r\n", 4);

    if (!end)
        return reply->bytes.len <= HEAD_MAX || is_none(err);
    reply->head_len = (size_t)(end - reply->bytes.bytes) + 4;
    if (!read_status(reply, err))
        return false;
    if (reply->status != 101)
        return read_length(reply, err);
    reply->is_whole = true;
    return is_agreed(reply) || is_none(err);
}

bool websocket_reply_feed(struct websocket_reply *reply, struct str bytes, bool is_over,
                          struct error *err)
{
    reply->bytes.max = REPLY_MAX;
    if (bytes.len > 0 && !buf_append(&reply->bytes, bytes, err))
        return false;
    if (reply->head_len == 0 && reply->bytes.len > 0 && !read_head(reply, err))
        return false;
    if (reply->head_len > 0 && !reply->is_whole)
        reply->is_whole =
            is_over || (reply->has_length && websocket_reply_rest(reply).len >= reply->body_len);
    if (is_over && !reply->is_whole)
        return error_set(err, ERR_UNAVAILABLE, "the server has left");
    return true;
}
