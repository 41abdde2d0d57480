/* POST workspaces: a workspace that no run brought along, empty or with the files of a version. */
#include "base/hash.h"
#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/idempotency.h"
#include "server/input.h"
#include "server/page.h"
#include "server/quota.h"
#include "server/versions.h"
#include "server/workspace_object.h"
#include "server/workspaces.h"

enum { METADATA_MAX = 64 * 1024 };

struct create_body {
    struct str sandbox_id, deployment_id, from_version_id, external_id, metadata;
    struct str idempotency_key, idempotency_key_ttl;
    struct key_origin idempotency_key_options;
    struct json_list tags;
};

static const struct json_field create_fields[] = {
    {"sandbox_id", JSON_TEXT, offsetof(struct create_body, sandbox_id), REQUIRED, .max = 128},
    {"deployment_id", JSON_TEXT, offsetof(struct create_body, deployment_id), OPTIONAL, .max = 128},
    {"from_version_id", JSON_TEXT, offsetof(struct create_body, from_version_id), OPTIONAL,
     .max = 64},
    {"external_id", JSON_TEXT, offsetof(struct create_body, external_id), OPTIONAL, .max = 512},
    {"metadata", JSON_RAW, offsetof(struct create_body, metadata), OPTIONAL, .max = METADATA_MAX},
    {"tags", JSON_LIST, offsetof(struct create_body, tags), OPTIONAL, .max = 32},
    {"idempotency_key", JSON_TEXT, offsetof(struct create_body, idempotency_key), OPTIONAL,
     .max = 512},
    {"idempotency_key_ttl", JSON_RAW, offsetof(struct create_body, idempotency_key_ttl), OPTIONAL,
     .max = 256},
    {"idempotency_key_options", JSON_OBJ, offsetof(struct create_body, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

/* A workspace on its way. */
struct making {
    struct call *call;
    struct server *server;
    struct tx *tx;
    struct create_body body;
    struct str metadata, tags, forked_from;
    char id[ID_TEXT], from[ID_TEXT]; /* from: the version of a branch, or empty */
    uint8_t fingerprint[BLAKE2B_LEN];
    int64_t now, ttl_ms;
    struct wakes wakes;
};

static void make_fingerprint(struct making *making)
{
    const struct create_body *body = &making->body;
    const struct str pieces[] = {
        body->sandbox_id,  body->deployment_id, str_of(making->from),
        body->external_id, making->metadata,    making->tags,
    };
    struct blake2b state;

    blake2b_init(&state, (struct str){0});
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        uint64_t len = pieces[i].len;
        blake2b_update(&state, (struct str){(const char *)&len, sizeof len});
        blake2b_update(&state, pieces[i]);
    }
    blake2b_final(&state, making->fingerprint);
}

static bool read_request(struct making *making, struct error *err)
{
    struct call *call = making->call;
    struct create_body *body = &making->body;

    making->metadata = STR("{}");
    making->ttl_ms = DAY_MS;
    if (!call_body(call, create_fields, body, sizeof *body, err) ||
        !name_check(NAME_ID, "sandbox_id", body->sandbox_id, err) ||
        (body->external_id.ptr &&
         !name_check(NAME_EXTERNAL, "external_id", body->external_id, err)) ||
        (body->idempotency_key.ptr &&
         !name_check(NAME_EXTERNAL, "idempotency_key", body->idempotency_key, err)) ||
        (body->idempotency_key_ttl.ptr &&
         !input_duration(body->idempotency_key_ttl, "idempotency_key_ttl", 365 * DAY_MS,
                         &making->ttl_ms, err)) ||
        (body->metadata.ptr && !input_object(body->metadata, "metadata", METADATA_MAX, call->arena,
                                             &making->metadata, err)) ||
        !input_tags(body->tags.items, body->tags.n, call->arena, &making->tags, err))
        return false;
    if (body->from_version_id.ptr && !id_parse(body->from_version_id, making->from))
        return error_set(err, ERR_VERSION_NOT_FOUND, "there is no such version");
    make_fingerprint(making);
    return true;
}

/* *found is the workspace that an earlier request of the same kind made, or empty. */
static bool find_made(struct making *making, char found[ID_TEXT], struct error *err)
{
    const char *environment = call_environment(making->call);
    struct idempotency claim = {
        .environment_id = environment,
        .route = "POST /api/workspaces",
        .key = making->body.idempotency_key,
        .subject_id = making->id,
        .now = making->now,
        .ttl_ms = making->ttl_ms,
    };
    struct str fingerprint = {(const char *)making->fingerprint, sizeof making->fingerprint};
    struct rows rows;

    found[0] = '\0';
    memcpy(claim.fingerprint, making->fingerprint, sizeof claim.fingerprint);
    if (claim.key.ptr &&
        !idempotency_claim_key(making->tx, &claim, making->call->arena, found, err))
        return false;
    if (found[0] || !making->body.external_id.ptr)
        return true;
    if (!STORE(making->tx, &workspace_named, making->call->arena, &rows, err, V_TEXT(environment),
               V_STR(making->body.external_id)))
        return false;
    if (rows.n_rows == 0)
        return true;
    if (!str_equal(row_str(&rows, 0, WORKSPACE_NAMED_CREATE_FINGERPRINT), fingerprint))
        return error_set(err, ERR_IDEMPOTENCY_MISMATCH,
                         "a workspace with this external_id was made with other parameters");
    row_id(&rows, 0, WORKSPACE_NAMED_ID, found);
    return true;
}

/* A deployment named by id or version, as its id. */
static bool find_deployment(struct making *making, struct value *id, struct error *err)
{
    struct arena *arena = making->call->arena;
    struct str wanted = id_or_name(arena, making->body.deployment_id);
    struct rows rows;

    *id = V_NULL;
    if (!wanted.ptr)
        return true;
    if (!STORE(making->tx, &deployment_peek, arena, &rows, err,
               V_TEXT(call_environment(making->call)), V_STR(wanted)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such deployment");
    *id = V_STR(row_str(&rows, 0, DEPLOYMENT_PEEK_ID));
    return true;
}

static bool find_sandbox(struct making *making, struct rows *sandbox, struct error *err)
{
    struct value deployment;

    if (!find_deployment(making, &deployment, err) ||
        !STORE(making->tx, &workspace_sandbox, making->call->arena, sandbox, err,
               V_TEXT(call_environment(making->call)), deployment, V_STR(making->body.sandbox_id)))
        return false;
    if (sandbox->n_rows == 0 || row_is_null(sandbox, 0, WORKSPACE_SANDBOX_DEPLOYMENT_ID))
        return error_set(err, ERR_NO_CURRENT_DEPLOYMENT,
                         "the environment has no current deployment");
    if (!str_equal(row_str(sandbox, 0, WORKSPACE_SANDBOX_DEPLOYMENT_STATE), STR("deployed")))
        return error_set(err, ERR_NOT_DEPLOYED, "the deployment is not deployed");
    return !row_is_null(sandbox, 0, WORKSPACE_SANDBOX_SANDBOX_ID) ||
           error_set(err, ERR_SANDBOX_NOT_DEPLOYED, "the deployment has no such sandbox");
}

/* A version says what is deleted of its image, so it goes with no other. */
static bool find_source(struct making *making, const struct rows *sandbox, struct error *err)
{
    struct rows rows;

    if (!making->from[0])
        return true;
    if (!STORE(making->tx, &version_source, making->call->arena, &rows, err,
               V_TEXT(call_environment(making->call)), V_TEXT(making->from)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_VERSION_NOT_FOUND, "there is no version %s", making->from);
    if (!str_equal(row_str(&rows, 0, VERSION_SOURCE_FINGERPRINT),
                   row_str(sandbox, 0, WORKSPACE_SANDBOX_FINGERPRINT)))
        return error_set(err, ERR_WORKSPACE_SANDBOX,
                         "the version was made in another sandbox; name the deployment_id of its "
                         "workspace %s",
                         row_text(&rows, 0, VERSION_SOURCE_WORKSPACE_ID));
    making->forked_from = row_str(&rows, 0, VERSION_SOURCE_WORKSPACE_ID);
    return true;
}

static bool insert(struct making *making, const struct rows *sandbox, struct error *err)
{
    const char *environment = call_environment(making->call);
    struct str fingerprint = {(const char *)making->fingerprint, sizeof making->fingerprint};
    struct rows rows;

    if (!STORE(making->tx, &workspace_create, making->call->arena, &rows, err, V_TEXT(making->id),
               V_TEXT(environment), *row_value(sandbox, 0, WORKSPACE_SANDBOX_DEPLOYMENT_ID),
               *row_value(sandbox, 0, WORKSPACE_SANDBOX_SANDBOX_ID),
               *row_value(sandbox, 0, WORKSPACE_SANDBOX_FINGERPRINT),
               V_STR_OR_NULL(making->body.external_id), V_BYTES(fingerprint),
               V_STR_OR_NULL(making->forked_from), V_STR(making->metadata), V_STR(making->tags),
               V_INT(making->now)))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "another workspace has got this external_id meanwhile");
    workspace_wake(&making->wakes, environment, making->id);
    return workspace_tag(making->tx, environment, making->id, making->body.tags.items,
                         making->body.tags.n, err);
}

static bool branch(struct making *making, struct error *err)
{
    const struct version_place place = {
        .environment_id = call_environment(making->call),
        .workspace_id = making->id,
        .generation = VERSION_OF_SERVER,
    };
    char version[ID_TEXT];

    return !making->from[0] || version_adopt(making->server, making->tx, making->from, &place,
                                             making->call->arena, version, &making->wakes, err);
}

static bool answer(struct making *making, const char *id, int status, struct response *res,
                   struct error *err)
{
    struct rows rows;

    if (!STORE(making->tx, &workspace_get, making->call->arena, &rows, err,
               V_TEXT(call_environment(making->call)), V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_GONE, "the workspace of this idempotency key is gone");
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    workspace_object_write(&json, "workspace", &rows, 0);
    json_bool(&json, "is_cached", status == 200);
    json_close(&json);
    response_json(res, status);
    return json_end(&json, err);
}

static bool make(struct making *making, struct response *res, struct error *err)
{
    struct rows sandbox;

    return find_sandbox(making, &sandbox, err) && find_source(making, &sandbox, err) &&
           insert(making, &sandbox, err) && branch(making, err) &&
           quota_take_workspace(making->tx, call_environment(making->call), err) &&
           answer(making, making->id, 201, res, err) &&
           audit_call(making->tx, making->call, "workspace.create", str_of(making->id), err) &&
           hub_commit(&making->server->hub, &making->tx, &making->wakes, err);
}

static void finish_making(struct making *making)
{
    store_rollback(&making->tx);
}

bool workspace_create_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_making)
    struct making making = {.call = call, .server = server_of(call), .now = time_now_ms()};
    char found[ID_TEXT];

    id_make(making.id);
    if (!read_request(&making, err) || !store_begin(making.server->store, &making.tx, err) ||
        !find_made(&making, found, err))
        return false;
    /* Committed as well: the first one may not be durable yet. */
    if (found[0])
        return answer(&making, found, 200, res, err) && store_commit(&making.tx, err);
    return make(&making, res, err);
}
