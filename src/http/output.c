#include "http/output.h"

/* The parts from `sent` on; returns how many are not empty. */
static size_t parts_left(const struct output *output, struct iovec parts[3])
{
    struct str all[3] = {buf_str(&output->head), buf_str(&output->body), output->tail};
    size_t skip = output->sent, n = 0;

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (skip >= all[i].len) {
            skip -= all[i].len;
            continue;
        }
        parts[n++] = (struct iovec){(char *)all[i].ptr + skip, all[i].len - skip};
        skip = 0;
    }
    return n;
}

enum output_result output_send(struct output *output, struct transport *transport)
{
    while (output_left(output) > 0) {
        struct iovec parts[3];
        size_t sent;
        enum transport_result result =
            transport_write(transport, parts, parts_left(output, parts), &sent);

        if (result != TRANSPORT_MOVED)
            return result == TRANSPORT_BLOCKED_WRITE ? OUTPUT_BLOCKED : OUTPUT_BROKEN;
        output->sent += sent;
    }
    return OUTPUT_DRAINED;
}

static void empty(struct buf *buf, size_t keep)
{
    if (buf->cap > keep)
        buf_finish(buf);
    buf->len = 0;
}

void output_reset(struct output *output, size_t keep)
{
    empty(&output->head, keep);
    empty(&output->body, keep);
    output->tail = (struct str){0};
    output->sent = 0;
}
