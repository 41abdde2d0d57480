#include "server/preview_proxy.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/own.h"
#include "server/context.h"
#include "server/relay.h"

enum { PIECE = 64 * 1024, ANSWER_PIECE = 256 * 1024 };

struct proxy {
    struct relay_end *end;
    struct caller_hold hold;
    struct preview_side side;
    struct buf request; /* what is to be sent next */
    int body_fd;        /* the rest of it; -1: none */
    uint64_t body_at, body_len;
    struct buf head; /* of the answer, until it is whole */
    struct preview_answer answer;
    bool has_head, is_head_request;
};

static void release(void *state)
{
    struct proxy *proxy = state;

    relay_leave(proxy->end);
    if (proxy->body_fd >= 0)
        close(proxy->body_fd);
    buf_finish(&proxy->request);
    buf_finish(&proxy->head);
    free(proxy);
}

static bool read_body(struct proxy *proxy, struct error *err)
{
    char bytes[PIECE];
    uint64_t left = proxy->body_len - proxy->body_at;
    ssize_t n = pread(proxy->body_fd, bytes, left < sizeof bytes ? left : sizeof bytes,
                      (off_t)proxy->body_at);

    if (n <= 0)
        return error_errno(err, "reading a body again");
    proxy->body_at += (uint64_t)n;
    return buf_append(&proxy->request, (struct str){bytes, (size_t)n}, err);
}

static bool send_request(struct proxy *proxy, struct error *err)
{
    size_t taken = 1;

    while (taken > 0) {
        if (proxy->request.len == 0 && proxy->body_at < proxy->body_len && !read_body(proxy, err))
            return false;
        if (!relay_write(proxy->end, buf_str(&proxy->request), &taken, err))
            return false;
        buf_consume(&proxy->request, taken);
    }
    return true;
}

static bool has_no_body(const struct proxy *proxy)
{
    return proxy->is_head_request || proxy->answer.status == 204 || proxy->answer.status == 304;
}

/* Without an answer that can be passed on we say so, which is our own words. */
static bool say_bad_gateway(struct buf *out, bool *over, struct error *err)
{
    *over = true;
    return buf_append(out,
                      STR("HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n"
                          "Content-Type: text/plain; charset=utf-8\r\n"
                          "Cache-Control: no-store\r\n\r\n"
                          "The program in the sandbox did not answer with HTTP.\n"),
                      err);
}

/* Up to the head of the final answer; those before it are for nobody. */
static bool take_head(struct proxy *proxy, struct buf *out, bool *is_bad, struct error *err)
{
    const char *end;
    struct error wrong;

    while (!proxy->has_head && proxy->head.len > 0 &&
           (end = memmem(proxy->head.bytes, proxy->head.len, "\r\n\r\n", 4))) {
        struct str head = {proxy->head.bytes, (size_t)(end - proxy->head.bytes) + 4};

        if (!preview_answer_head(head, &proxy->side, out, &proxy->answer, &wrong)) {
            *is_bad = true;
            return true;
        }
        buf_consume(&proxy->head, head.len);
        proxy->has_head = proxy->answer.status >= 200 || proxy->answer.status == 101;
    }
    *is_bad = !proxy->has_head && proxy->head.len >= PREVIEW_HEAD_MAX;
    if (!proxy->has_head)
        return true;
    if (has_no_body(proxy)) {
        proxy->answer.has_length = true;
        proxy->answer.length = 0;
    }
    return buf_append(out, buf_str(&proxy->head), err);
}

static bool pull_head(struct proxy *proxy, struct buf *out, bool *over, struct error *err)
{
    bool is_bad = false;

    if (!relay_read(proxy->end, PREVIEW_HEAD_MAX - proxy->head.len, &proxy->head, over, err) ||
        !take_head(proxy, out, &is_bad, err))
        return false;
    if (is_bad || (*over && !proxy->has_head)) {
        out->len = 0;
        return say_bad_gateway(out, over, err);
    }
    if (proxy->has_head && proxy->answer.has_length) {
        uint64_t *left = &proxy->answer.length, body = proxy->head.len;

        if (body > *left)
            out->len -= (size_t)(body - *left);
        *left -= body < *left ? body : *left;
        *over = *left == 0;
    }
    return true;
}

static bool pull_body(struct proxy *proxy, struct buf *out, bool *over, struct error *err)
{
    struct preview_answer *answer = &proxy->answer;
    size_t most =
        answer->has_length && answer->length < ANSWER_PIECE ? (size_t)answer->length : ANSWER_PIECE;

    if (!relay_read(proxy->end, most, out, over, err))
        return false;
    if (!answer->has_length)
        return true;
    answer->length -= out->len;
    if (*over && answer->length > 0)
        return error_set(err, ERR_UNAVAILABLE, "the program's answer was cut");
    *over = answer->length == 0;
    return true;
}

static bool pull(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct proxy *proxy = state;

    if (!caller_still_may(&proxy->hold))
        return error_set(err, ERR_UNAUTHENTICATED, "the credential is not valid any more");
    if (!send_request(proxy, err) ||
        !(proxy->has_head ? pull_body(proxy, out, over, err) : pull_head(proxy, out, over, err)))
        return false;
    *more = out->len > 0;
    return true;
}

/* Of a WebSocket both ways go on as bytes; of anything else the request is over. */
static bool take(void *state, struct str bytes, size_t *taken, struct error *err)
{
    struct proxy *proxy = state;

    if (!caller_still_may(&proxy->hold))
        return error_set(err, ERR_UNAUTHENTICATED, "the credential is not valid any more");
    if (!proxy->has_head)
        return true;
    *taken = bytes.len;
    return proxy->answer.status != 101 || relay_write(proxy->end, bytes, taken, err);
}

bool preview_pass(struct call *call, const struct preview_grant *grant,
                  const struct preview_side *side, struct response *res, struct error *err)
{
    const struct request *request = call->request;
    struct proxy *proxy = alloc(sizeof *proxy);
    bool is_spooled = call->upload_fd >= 0;
    char topic[TOPIC_TEXT];

    *proxy = (struct proxy){
        .hold = grant->hold,
        .side = *side,
        .request.max = KIB(64) + PREVIEW_HEAD_MAX + PIECE,
        .body_fd = is_spooled ? fcntl(call->upload_fd, F_DUPFD_CLOEXEC, 0) : -1,
        .body_len = is_spooled ? call->upload_len : 0,
        .head.max = PREVIEW_HEAD_MAX,
        .is_head_request = request->method == METHOD_HEAD,
    };
    if ((is_spooled && proxy->body_fd < 0 && !error_errno(err, "dup")) ||
        !preview_request_head(call, side, is_spooled ? call->upload_len : request->body.len,
                              &proxy->request, err) ||
        (!is_spooled && !buf_append(&proxy->request, request->body, err)) ||
        !relay_join_here(server_of(call)->relays, call->id, &proxy->end, err)) {
        relay_forget(server_of(call)->relays, call->id);
        release(proxy);
        return false;
    }
    relay_topic(call->id, topic);
    response_stream(res, &(struct response_source){.topic = topic,
                                                   .content_type = "",
                                                   .writes_head = true,
                                                   .pull = pull,
                                                   .take = request->upgrade ? take : NULL,
                                                   .release = release,
                                                   .state = proxy});
    return true;
}
