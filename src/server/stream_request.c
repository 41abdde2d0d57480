#include "server/stream_request.h"

#include "server/idempotency.h"
#include "server/page.h"

struct append_body {
    struct str data, content_type, correlation_id, idempotency_key;
    struct key_origin idempotency_key_options;
};

#define TEXT_FIELD(name, most) \
    {#name, JSON_TEXT, offsetof(struct append_body, name), OPTIONAL, .max = (most)}

static const struct json_field append_fields[] = {
    {"data", JSON_RAW, offsetof(struct append_body, data), REQUIRED, .max = STREAM_RAW_MAX},
    TEXT_FIELD(content_type, STREAM_TYPE_MAX),
    TEXT_FIELD(correlation_id, 512),
    TEXT_FIELD(idempotency_key, 512),
    {"idempotency_key_options", JSON_OBJ, offsetof(struct append_body, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

bool stream_request_read(struct call *call, struct stream_request *request, struct error *err)
{
    struct stream_entry *entry = &request->entry;
    struct str scope = entry->correlation_id;
    struct append_body body;

    if (!call_body(call, append_fields, &body, sizeof body, err))
        return false;
    if (scope.ptr && body.correlation_id.ptr && !str_equal(scope, body.correlation_id))
        return error_set(err, ERR_TOKEN_SCOPE, "the token is for another correlation_id");
    if (body.correlation_id.ptr)
        entry->correlation_id = body.correlation_id;
    entry->content_type = body.content_type;
    entry->idempotency_key = body.idempotency_key;
    return stream_entry_read(body.data, call->arena, entry, err);
}

bool stream_request_do(struct call *call, const struct stream_request *request,
                       struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct stream_appended made;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) ||
        !stream_append(tx, &request->ref, &request->entry, call->arena, &made, &wakes, err) ||
        (request->also && !made.is_cached && !request->also(tx, request->arg, err)) ||
        !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    stream_record_write(&json, "record", &made.record);
    json_bool(&json, "is_cached", made.is_cached);
    if (made.continuation)
        json_string(&json, "continuation_status", made.continuation);
    json_close(&json);
    response_json(res, made.is_cached ? 200 : 201);
    return json_end(&json, err);
}
