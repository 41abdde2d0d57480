/* Bytes on their way to a socket: a head, a body and a fixed tail, sent together.
 *
 * `sent` counts over all three. The owner may fill it again once it is drained.
 */
#pragma once

#include "base/buf.h"
#include "http/transport.h"

struct output {
    struct buf head, body;
    struct str tail;
    size_t sent;
};

enum output_result { OUTPUT_DRAINED, OUTPUT_BLOCKED, OUTPUT_BROKEN };

/* Sends what the socket takes now. */
enum output_result output_send(struct output *output, struct transport *transport);

static inline size_t output_left(const struct output *output)
{
    return output->head.len + output->body.len + output->tail.len - output->sent;
}

/* Empties it; buffers of at most `keep` bytes stay allocated for the next use. */
void output_reset(struct output *output, size_t keep);
