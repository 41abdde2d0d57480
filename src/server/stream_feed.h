/* Records of a stream as a page or as a live stream, in one order without gap or repetition: both
 * read the store by sequence, and a wake-up only says "look again". */
#pragma once

#include "server/caller.h"
#include "server/context.h"
#include "server/stream_store.h"

struct stream_feed {
    struct server *server;
    struct stream_ref ref;
    char correlation_id[513]; /* "": every record */
    int64_t cursor;           /* the last one sent */
    struct caller_hold hold;  /* of a live stream: whose it is */
    char public_id[ID_TEXT];  /* the public access token whose it is instead; "": none */
};

/* Reads the cursor and the correlation id of the request, then answers with a page, or with a
 * stream when the client asked for one. A correlation id that is set already stays, and another
 * one in the request is ERR_TOKEN_SCOPE. */
bool stream_feed_answer(struct call *call, struct stream_feed *feed, struct response *res,
                        struct error *err) MUST_USE;

/* {record|null}: the first one after the cursor. */
bool stream_feed_read(struct call *call, struct stream_feed *feed, struct response *res,
                      struct error *err) MUST_USE;
