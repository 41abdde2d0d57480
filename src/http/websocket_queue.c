#include "http/websocket_queue.h"

enum { KEPT_MAX = 16 * 1024 };

struct mark {
    uint32_t len;
    uint32_t kind;
};

bool websocket_queue_put(struct websocket_queue *queue, enum websocket_kind kind, struct str bytes,
                         struct error *err)
{
    struct mark mark = {.len = (uint32_t)bytes.len, .kind = kind};
    size_t before = queue->bytes.len;

    if (!buf_append(&queue->bytes, (struct str){(char *)&mark, sizeof mark}, err))
        return false;
    if (buf_append(&queue->bytes, bytes, err))
        return true;
    queue->bytes.len = before;
    return false;
}

static struct mark mark_at(const struct websocket_queue *queue)
{
    struct mark mark;

    memcpy(&mark, queue->bytes.bytes + queue->at, sizeof mark);
    return mark;
}

bool websocket_queue_peek(const struct websocket_queue *queue, enum websocket_kind *kind,
                          struct str *bytes)
{
    if (websocket_queue_is_empty(queue))
        return false;

    struct mark mark = mark_at(queue);

    *kind = mark.kind;
    *bytes = (struct str){queue->bytes.bytes + queue->at + sizeof mark, mark.len};
    return true;
}

void websocket_queue_skip(struct websocket_queue *queue)
{
    queue->at += sizeof(struct mark) + mark_at(queue).len;
}

void websocket_queue_reset(struct websocket_queue *queue)
{
    size_t max = queue->bytes.max;

    if (queue->bytes.cap > KEPT_MAX)
        buf_finish(&queue->bytes);
    queue->bytes.len = queue->at = 0;
    queue->bytes.max = max;
}
