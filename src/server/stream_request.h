/* A request to append to a stream, with an account or with a public access token. */
#pragma once

#include "server/stream_append.h"
#include "server/stream_feed.h"

struct stream_request {
    struct stream_ref ref;
    struct stream_entry entry; /* written_by is the caller's to set */
    /* Besides, in the same transaction, when a record was made. */
    bool (*also)(struct tx *tx, void *arg, struct error *err);
    void *arg;
};

/* The body into the entry. A correlation id that is set already stays, and another one in the
 * request is ERR_TOKEN_SCOPE. */
bool stream_request_read(struct call *call, struct stream_request *request,
                         struct error *err) MUST_USE;

/* Appends, and answers with the record. */
bool stream_request_do(struct call *call, const struct stream_request *request,
                       struct response *res, struct error *err) MUST_USE;
