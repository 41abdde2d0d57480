/* Mounts of a workspace, for people: asked for, and stopped. */
#include "base/time.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/idempotency.h"
#include "server/mount_store.h"
#include "server/page.h"
#include "server/process_object.h"
#include "server/workspaces.h"

static bool answer(struct call *call, struct tx *tx, const char *id, int status,
                   struct response *res, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &mount_get, call->arena, &rows, err, V_TEXT(call_environment(call)), V_TEXT(id)))
        return false;
    struct json_writer json = json_begin(response_body(res));
    mount_object_write(&json, NULL, &rows, 0);
    response_json(res, status);
    return json_end(&json, err);
}

static const struct json_field nothing_fields[] = {{0}};

bool workspace_materialize_post(struct call *call, struct response *res, struct error *err)
{
    struct mount_row mount;
    char workspace[ID_TEXT], nothing;
    struct wakes wakes = {0};
    bool is_new;
    AUTO_TX tx = NULL;

    return call_body(call, nothing_fields, &nothing, sizeof nothing, err) &&
           workspace_of_path(call, workspace, err) &&
           store_begin(server_of(call)->store, &tx, err) &&
           mount_want(tx, call_environment(call), workspace, call->arena, &mount, &is_new, &wakes,
                      err) &&
           answer(call, tx, mount.id, is_new ? 202 : 200, res, err) &&
           (!is_new || audit_call(tx, call, "workspace.mount", str_of(workspace), err)) &&
           hub_commit(&server_of(call)->hub, &tx, &wakes, err);
}

struct stop_body {
    struct str idempotency_key, idempotency_key_ttl;
    struct key_origin idempotency_key_options;
};

static const struct json_field stop_fields[] = {
    {"idempotency_key", JSON_TEXT, offsetof(struct stop_body, idempotency_key), OPTIONAL,
     .max = 512},
    {"idempotency_key_ttl", JSON_RAW, offsetof(struct stop_body, idempotency_key_ttl), OPTIONAL,
     .max = 256},
    {"idempotency_key_options", JSON_OBJ, offsetof(struct stop_body, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

/* The same key again must not stop what was mounted since. */
static bool claim_stop(struct call *call, struct tx *tx, const struct stop_body *body,
                       const char *workspace, char first[ID_TEXT], struct error *err)
{
    const struct process_key key = {.key = body->idempotency_key, .ttl = body->idempotency_key_ttl};

    return process_claim_key(call, tx, "POST /api/workspaces/:workspace/stop", &key, workspace,
                             first, err);
}

bool workspace_stop_post(struct call *call, struct response *res, struct error *err)
{
    char workspace[ID_TEXT], first[ID_TEXT];
    struct wakes wakes = {0};
    struct stop_body body;
    bool is_over;
    AUTO_TX tx = NULL;

    if (!call_body(call, stop_fields, &body, sizeof body, err) ||
        !store_begin(server_of(call)->store, &tx, err) ||
        !workspace_of_call(call, tx, workspace, err) ||
        !claim_stop(call, tx, &body, workspace, first, err))
        return false;
    bool is_cached = first[0];
    return (is_cached ||
            (mount_end(tx, call_environment(call), workspace, call->arena, &is_over, &wakes, err) &&
             audit_call(tx, call, "workspace.stop", str_of(workspace), err))) &&
           workspace_show(call, tx, workspace, is_cached ? 200 : 202, res, err) &&
           hub_commit(&server_of(call)->hub, &tx, &wakes, err);
}
