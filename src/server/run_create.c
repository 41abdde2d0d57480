#include "base/json.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/idempotency.h"
#include "server/run_object.h"
#include "server/run_start.h"
#include "store/queries.h"

static struct value found_value(const struct run_start *start, size_t column)
{
    return *row_value(&start->found, 0, column);
}

/* The new run from what is known, so that nothing is read back. */
static bool answer(const struct run_start *start, struct response *res, struct error *err)
{
    const struct run_spec *spec = start->spec;
    struct value row[RUN_COLUMNS] = {
        [RUN_GET_ID] = V_TEXT(start->run_id),
        [RUN_GET_ENVIRONMENT_ID] = V_TEXT(start->environment_id),
        [RUN_GET_PROJECT_ID] = found_value(start, RUN_START_FIND_PROJECT_ID),
        [RUN_GET_SESSION_ID] = V_TEXT(start->session_id),
        [RUN_GET_WORKSPACE_ID] = V_TEXT(start->workspace_id),
        [RUN_GET_DEPLOYMENT_ID] = found_value(start, RUN_START_FIND_DEPLOYMENT_ID),
        [RUN_GET_DEPLOYMENT_TASK_ID] = found_value(start, RUN_START_FIND_TASK_ROW_ID),
        [RUN_GET_DEPLOYMENT_VERSION] = found_value(start, RUN_START_FIND_DEPLOYMENT_VERSION),
        [RUN_GET_TASK_ID] = V_STR(spec->task_id),
        [RUN_GET_STATE] = V_TEXT("queued"),
        [RUN_GET_STATUS] = V_TEXT("queued"),
        [RUN_GET_ATTEMPT] = V_INT(1),
        [RUN_GET_TURN_INDEX] = V_INT(0),
        [RUN_GET_REASON] = V_TEXT(start->reason),
        [RUN_GET_QUEUE] = V_STR(start->queue),
        [RUN_GET_CONCURRENCY_KEY] = V_STR_OR_NULL(spec->options.concurrency_key),
        [RUN_GET_PRIORITY] = V_INT(spec->options.priority),
        [RUN_GET_TTL_MS] = start->ttl_ms ? V_INT(start->ttl_ms) : V_NULL,
        [RUN_GET_MAX_DURATION_SECONDS] = V_INT(start->max_duration_seconds),
        [RUN_GET_ACTIVE_MS] = V_INT(0),
        [RUN_GET_RETRY_POLICY] = V_STR_OR_NULL(start->retry_policy),
        [RUN_GET_SECRET_NAMES] = V_STR(start->secrets.names),
        [RUN_GET_METADATA] = V_STR(spec->metadata),
        [RUN_GET_TAGS] = V_STR(spec->tags),
        [RUN_GET_API_VERSION] = V_TEXT(API_VERSION),
        [RUN_GET_SDK_VERSION] = V_STR_OR_NULL(spec->sdk_version),
        [RUN_GET_CLI_VERSION] = V_STR_OR_NULL(spec->cli_version),
        [RUN_GET_CREATED_MS] = V_INT(start->now),
        [RUN_GET_UPDATED_MS] = V_INT(start->now),
        [RUN_GET_PAYLOAD] = V_STR(start->payload),
    };
    const struct rows rows = {.values = row, .n_rows = 1, .n_columns = RUN_COLUMNS};
    struct json_writer json = json_begin(response_body(res));
    run_object_write(&json, NULL, &rows, 0, false);
    response_json(res, 201);
    return json_end(&json, err);
}

/* The run that an earlier start with the same key made. */
static bool answer_cached(struct run_start *start, const char *run_id, struct response *res,
                          struct error *err)
{
    struct rows rows;
    if (!STORE(start->tx, &run_get, start->arena, &rows, err, V_TEXT(start->environment_id),
               V_TEXT(run_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_GONE, "the run of this idempotency key is gone");
    struct json_writer json = json_begin(response_body(res));
    run_object_write(&json, NULL, &rows, 0, true);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool claim_key(struct run_start *start, char first[ID_TEXT], struct error *err)
{
    struct idempotency claim = {
        .environment_id = start->environment_id,
        .route = "POST /api/runs",
        .key = start->spec->options.idempotency_key,
        .subject_id = start->run_id,
        .now = start->now,
        .ttl_ms = start->spec->idempotency_ttl_ms,
    };
    first[0] = '\0';
    if (!claim.key.ptr)
        return true;
    run_spec_fingerprint(start->spec, claim.fingerprint);
    return idempotency_claim_key(start->tx, &claim, start->arena, first, err);
}

bool run_create(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct run_spec spec;
    struct run_start start = {.arena = call->arena,
                              .environment_id = call_environment(call),
                              .spec = &spec,
                              .reason = "api",
                              .now = time_now_ms()};
    if (!run_spec_read(call, &spec, err))
        return false;
    run_start_make_ids(&start);

    char first[ID_TEXT];
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err))
        return false;
    start.tx = tx;
    if (!claim_key(&start, first, err))
        return false;
    if (first[0])
        /* Committed as well: the first start may be one that is not durable yet. */
        return answer_cached(&start, first, res, err) && store_commit(&tx, err);
    if (!run_start_prepare(&start, err)) {
        if (!start.secrets.missing.ptr)
            return false;
        response_error(res, err, start.secrets.missing);
        return true;
    }
    struct wakes wakes = {0};
    return run_start_insert(&start, &wakes, err) &&
           audit_call(tx, call, "run.create", str_of(start.run_id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err) && answer(&start, res, err);
}
