/* Server-sent events as they come in, for clients: bytes in any portions, one call per event.
 *
 * An event is bounded; comments and unknown fields are skipped; the verdict never depends on
 * how the bytes were cut.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum { SSE_LINE_MAX = 4 * 1024 * 1024 };

struct sse_event {
    struct str id;   /* the last id seen, also of an earlier event: what Last-Event-ID wants */
    struct str name; /* "message" when it has none */
    struct str data; /* lines joined with \n */
};

struct sse_reader {
    /* False ends the reading without an error. */
    bool (*on_event)(void *arg, const struct sse_event *event);
    void *arg;
    struct buf line, data, name, id;
    bool has_data, after_return, is_over;
};

void sse_reader_init(struct sse_reader *reader,
                     bool (*on_event)(void *arg, const struct sse_event *event), void *arg);
void sse_reader_finish(struct sse_reader *reader);

/* ERR_TOO_LARGE for an event over its limit. */
bool sse_reader_push(struct sse_reader *reader, struct str bytes, struct error *err) MUST_USE;
