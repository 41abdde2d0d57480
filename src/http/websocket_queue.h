/* Whole messages of a WebSocket one after another, between the loop and a pool thread.
 *
 * Each is stored as its length, its kind and its bytes; they are read in order and stay until the
 * queue is emptied, so that one which cannot be taken yet is simply read again.
 */
#pragma once

#include "http/websocket.h"

struct websocket_queue {
    struct buf bytes;
    size_t at; /* of the next one to be read */
};

bool websocket_queue_put(struct websocket_queue *queue, enum websocket_kind kind, struct str bytes,
                         struct error *err) MUST_USE;

/* The next message without going past it; false: there is none. */
bool websocket_queue_peek(const struct websocket_queue *queue, enum websocket_kind *kind,
                          struct str *bytes);
void websocket_queue_skip(struct websocket_queue *queue);

static inline bool websocket_queue_is_empty(const struct websocket_queue *queue)
{
    return queue->at == queue->bytes.len;
}

/* Forgets everything; a small buffer is kept. */
void websocket_queue_reset(struct websocket_queue *queue);
