/* Events of a run or deployment as a page or as a live stream, in one order without gap or
 * repetition: both read the store by cursor, and a wake-up only says "look again".
 */
#pragma once

#include "base/id.h"
#include "http/call.h"
#include "server/caller.h"
#include "store/store.h"

struct history {
    struct store *store;
    bool is_run;
    char owner_id[ID_TEXT];
    char deployment_id[ID_TEXT]; /* of a run */
    char session_id[ID_TEXT];    /* of a run */
    char trace_id[33];           /* of a run, else empty */
    int64_t cursor;              /* the last one sent */
    struct caller_hold hold;     /* of a stream: whose it is */
};

/* Answers with a page, or with a stream when the client asked for one. */
bool history_answer(struct call *call, const struct history *history, struct response *res,
                    struct error *err) MUST_USE;

/* Starts a frame of a stream: `id:`, `event:` and `data: `; one line of JSON must follow, then
 * sse_end. */
bool sse_begin(struct buf *out, int64_t cursor, const char *event, struct error *err) MUST_USE;
bool sse_end(struct buf *out, struct error *err) MUST_USE;
