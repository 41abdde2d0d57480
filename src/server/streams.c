/* Streams of a session, for those who have an API key or are signed in. */
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/stream_request.h"
#include "server/task_session_store.h"
#include "store/queries.h"

/* The stream that the path names, and its session. */
static bool find_stream(struct call *call, enum stream_direction direction, struct stream_ref *ref,
                        struct error *err)
{
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) &&
           task_session_of_call(call, tx, id, err) &&
           stream_ref_make(call_environment(call), id, task_session_param(call, 0), direction, ref,
                           err);
}

bool session_streams_get(struct call *call, struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !task_session_of_call(call, tx, id, err))
        return false;
    json_open(&json, NULL);
    json_open_list(&json, "streams");
    if (!stream_list_write(tx, id, call->arena, &json, err))
        return false;
    json_close_list(&json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool append(struct call *call, enum stream_direction direction, struct response *res,
                   struct error *err)
{
    struct stream_request request = {0};
    char by[STREAM_BY_TEXT];

    caller_label(caller_of(call), by);
    request.entry.written_by = by;
    return find_stream(call, direction, &request.ref, err) &&
           stream_request_read(call, &request, err) && stream_request_do(call, &request, res, err);
}

bool stream_input_post(struct call *call, struct response *res, struct error *err)
{
    return append(call, STREAM_INPUT, res, err);
}

bool stream_output_post(struct call *call, struct response *res, struct error *err)
{
    return append(call, STREAM_OUTPUT, res, err);
}

static bool find_feed(struct call *call, enum stream_direction direction, struct stream_feed *feed,
                      struct error *err)
{
    *feed = (struct stream_feed){.server = server_of(call), .hold = caller_hold(call)};
    return find_stream(call, direction, &feed->ref, err);
}

bool stream_input_get(struct call *call, struct response *res, struct error *err)
{
    struct stream_feed feed;

    return find_feed(call, STREAM_INPUT, &feed, err) && stream_feed_answer(call, &feed, res, err);
}

bool stream_output_get(struct call *call, struct response *res, struct error *err)
{
    struct stream_feed feed;

    return find_feed(call, STREAM_OUTPUT, &feed, err) && stream_feed_answer(call, &feed, res, err);
}

bool stream_output_read_get(struct call *call, struct response *res, struct error *err)
{
    struct stream_feed feed;

    return find_feed(call, STREAM_OUTPUT, &feed, err) && stream_feed_read(call, &feed, res, err);
}
