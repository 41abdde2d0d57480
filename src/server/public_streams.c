/* Streams for whoever has a public access token of the session: inputs are sent, outputs read. */
#include "server/caller.h"
#include "server/handlers.h"
#include "server/public_access.h"
#include "server/stream_request.h"
#include "server/task_session_store.h"
#include "store/queries.h"

/* A token that was admitted, and what of its scope is more than the session. */
struct visit {
    struct public_bearer bearer;
    struct str correlation_id; /* ptr NULL: any */
};

/* The session of the path is the one of the scope; by which name it is called is the same. */
static bool is_its_session(struct call *call, const struct visit *visit, const char *session_id,
                           bool *is_its, struct error *err)
{
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    *is_its = false;
    if (!store_begin_read(server_of(call)->store, &tx, err))
        return false;
    if (!task_session_in(call, tx, visit->bearer.environment_id, id, err))
        return err->code == ERR_SESSION_NOT_FOUND;
    *is_its = strcmp(id, session_id) == 0;
    return true;
}

static bool admit(struct call *call, struct response *res, const char *scope_type,
                  enum stream_direction direction, struct visit *visit, struct stream_ref *ref,
                  struct error *err)
{
    struct str session, stream, name = task_session_param(call, 0);
    struct arena *arena = call->arena;
    bool is_its;

    *visit = (struct visit){0};
    if (!public_access_cors(res, err) ||
        !public_access_admit(call, res, scope_type, &visit->bearer, err))
        return false;
    if (visit->bearer.is_over || visit->bearer.is_used_up ||
        !json_find_text(visit->bearer.scope, "session_id", arena, &session) ||
        (json_find_text(visit->bearer.scope, "stream", arena, &stream) && !str_equal(stream, name)))
        return public_access_denied(call, err);
    const char *session_id = arena_text(arena, session);
    if (!is_its_session(call, visit, session_id, &is_its, err))
        return false;
    if (!is_its)
        return public_access_denied(call, err);
    json_find_text(visit->bearer.scope, "correlation_id", arena, &visit->correlation_id);
    return stream_ref_make(visit->bearer.environment_id, session_id, name, direction, ref, err);
}

static bool count_use(struct tx *tx, void *arg, struct error *err)
{
    return public_access_use(tx, arg, err);
}

bool public_input_post(struct call *call, struct response *res, struct error *err)
{
    struct stream_request request = {.also = count_use};
    struct visit visit;

    if (!admit(call, res, "session.input.send", STREAM_INPUT, &visit, &request.ref, err))
        return false;
    request.arg = &visit.bearer;
    request.entry.correlation_id = visit.correlation_id;
    request.entry.written_by = arena_printf(call->arena, "public:%s", visit.bearer.id);
    return stream_request_read(call, &request, err) && stream_request_do(call, &request, res, err);
}

/* After the answer is made: what was refused is no use. */
static bool count_read(struct call *call, const struct visit *visit, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(server_of(call)->store, &tx, err) &&
           public_access_use(tx, &visit->bearer, err) && store_commit(&tx, err);
}

typedef bool feed_answer(struct call *call, struct stream_feed *feed, struct response *res,
                         struct error *err);

static bool read_output(struct call *call, struct response *res, feed_answer *answer,
                        struct error *err)
{
    struct stream_feed feed = {.server = server_of(call)};
    struct visit visit;

    if (!admit(call, res, "session.output.read", STREAM_OUTPUT, &visit, &feed.ref, err))
        return false;
    memcpy(feed.public_id, visit.bearer.id, ID_TEXT);
    if (visit.correlation_id.ptr)
        snprintf(feed.correlation_id, sizeof feed.correlation_id, "%.*s",
                 (int)visit.correlation_id.len, visit.correlation_id.ptr);
    return answer(call, &feed, res, err) && count_read(call, &visit, err);
}

bool public_output_get(struct call *call, struct response *res, struct error *err)
{
    return read_output(call, res, stream_feed_answer, err);
}

bool public_output_read_get(struct call *call, struct response *res, struct error *err)
{
    return read_output(call, res, stream_feed_read, err);
}
