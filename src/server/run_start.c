#include "server/run_start.h"

#include "model/queue_score.h"
#include "server/context.h"
#include "server/event.h"
#include "server/page.h"
#include "server/queue.h"
#include "server/workspace_join.h"
#include "store/queries.h"

enum { EVENT_PAYLOAD_MAX = 256 * 1024, EVENT_MAX = 2 * 1024 * 1024, REQUEST_MAX = 256 * 1024 };

void run_start_make_ids(struct run_start *start)
{
    id_make(start->workspace_id);
    id_make(start->session_id);
    id_make(start->run_id);
    size_t n = 0;
    for (const char *c = start->run_id; *c; c++)
        if (*c != '-')
            start->trace_id[n++] = *c;
    start->trace_id[n] = '\0';
}

static struct str found_str(const struct run_start *start, size_t column)
{
    return row_str(&start->found, 0, column);
}

static struct value found_value(const struct run_start *start, size_t column)
{
    return *row_value(&start->found, 0, column);
}

/* A deployment named by id or version, as its id. */
static bool find_deployment(struct run_start *start, struct value *id, struct error *err)
{
    struct str wanted = id_or_name(start->arena, start->spec->options.deployment_id);
    *id = V_NULL;
    if (!wanted.ptr)
        return true;
    struct rows rows;
    if (!STORE(start->tx, &deployment_peek, start->arena, &rows, err, V_TEXT(start->environment_id),
               V_STR(wanted)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such deployment");
    *id = V_STR(row_str(&rows, 0, DEPLOYMENT_PEEK_ID));
    return true;
}

static bool task_is_missing(struct run_start *start, struct error *err)
{
    struct rows rows;
    if (!STORE(start->tx, &task_is_known, start->arena, &rows, err, V_TEXT(start->environment_id),
               V_STR(start->spec->task_id), found_value(start, RUN_START_FIND_DEPLOYMENT_ID)))
        return false;
    if (row_int(&rows, 0, TASK_IS_KNOWN_N) == 0)
        return error_set(err, ERR_TASK_NOT_FOUND, "no deployment has such a task");
    /* Who names a deployment asks for that one; without a name it is the current one. */
    if (!start->spec->options.deployment_id.ptr && row_int(&rows, 0, TASK_IS_KNOWN_N_BEFORE) > 0)
        return error_set(err, ERR_TASK_ARCHIVED,
                         "the current deployment does not have the task any more");
    return error_set(err, ERR_TASK_NOT_DEPLOYED,
                     "the task is not part of the deployment that would run it");
}

/* A task without a payload parameter still takes what says nothing. */
static bool choose_payload(struct run_start *start, struct error *err)
{
    struct str payload = start->spec->payload;
    bool is_accepted = row_int(&start->found, 0, RUN_START_FIND_ACCEPTS_PAYLOAD) ||
                       str_equal(payload, STR("{}")) || str_equal(payload, STR("null"));

    if (!is_accepted && !start->drops_payload)
        return error_set(err, ERR_PAYLOAD_NOT_ACCEPTED, "the task takes no payload");
    start->payload = is_accepted ? payload : STR("{}");
    return true;
}

static bool check(struct run_start *start, struct error *err)
{
    const struct run_spec *spec = start->spec;
    if (row_is_null(&start->found, 0, RUN_START_FIND_DEPLOYMENT_ID))
        return error_set(err, ERR_NO_CURRENT_DEPLOYMENT,
                         "the environment has no current deployment");
    if (!str_equal(found_str(start, RUN_START_FIND_DEPLOYMENT_STATE), STR("deployed")))
        return error_set(err, ERR_NOT_DEPLOYED, "the deployment is not deployed");
    if (row_is_null(&start->found, 0, RUN_START_FIND_TASK_ROW_ID))
        return task_is_missing(start, err);
    if (!choose_payload(start, err))
        return false;

    struct str own = found_str(start, RUN_START_FIND_TASK_QUEUE);
    start->queue = spec->options.queue.name.ptr ? spec->options.queue.name : own;
    if (!str_equal(start->queue, own) && row_is_null(&start->found, 0, RUN_START_FIND_QUEUE_NAME))
        return error_set(err, ERR_QUEUE_NOT_DECLARED, "the deployment declares no such queue");
    return task_secrets_bind(start->tx, start->environment_id,
                             found_str(start, RUN_START_FIND_SECRETS), &spec->secrets, start->arena,
                             &start->secrets, err);
}

static void choose_terms(struct run_start *start)
{
    const struct run_spec *spec = start->spec;
    start->max_duration_seconds =
        spec->options.has_max_duration
            ? spec->options.max_duration_seconds
            : row_int(&start->found, 0, RUN_START_FIND_MAX_DURATION_SECONDS);
    start->ttl_ms = spec->ttl_ms ? spec->ttl_ms : row_int(&start->found, 0, RUN_START_FIND_TTL_MS);
    start->retry_policy =
        spec->retry_policy.ptr ? spec->retry_policy : found_str(start, RUN_START_FIND_RETRY_POLICY);
    if (start->retry_policy.len == 0)
        start->retry_policy = (struct str){0};
    start->score = queue_score(start->now, spec->options.priority);
}

static bool choose_lane(struct run_start *start, struct error *err)
{
    const struct rows *found = &start->found;
    bool has_limit = !row_is_null(found, 0, RUN_START_FIND_CONCURRENCY_LIMIT);
    struct str key = start->spec->options.concurrency_key;
    bool is_right = !row_is_null(found, 0, RUN_START_FIND_LANE_ID) &&
                    row_is_null(found, 0, RUN_START_FIND_MAX_LIVE) != has_limit &&
                    row_int(found, 0, RUN_START_FIND_MAX_LIVE) ==
                        row_int(found, 0, RUN_START_FIND_CONCURRENCY_LIMIT);
    if (is_right) {
        row_id(found, 0, RUN_START_FIND_LANE_ID, start->lane_id);
        return true;
    }

    struct rows rows;
    id_make(start->lane_id);
    if (!STORE(start->tx, &lane_upsert, start->arena, &rows, err, V_TEXT(start->lane_id),
               V_TEXT(start->environment_id), V_TEXT("run"), V_STR(start->queue),
               has_limit && key.ptr ? V_STR(key) : V_TEXT(""),
               found_value(start, RUN_START_FIND_CONCURRENCY_LIMIT), V_INT(start->now)))
        return false;
    row_id(&rows, 0, LANE_UPSERT_ID, start->lane_id);
    return queue_relimit(start->tx, start->lane_id, err);
}

static bool join_workspace(struct run_start *start, struct error *err)
{
    const struct workspace_guest guest = {
        .environment_id = start->environment_id,
        .deployment_id = found_str(start, RUN_START_FIND_DEPLOYMENT_ID),
        .fingerprint = found_str(start, RUN_START_FIND_FINGERPRINT),
        .cpu_millis = row_int(&start->found, 0, RUN_START_FIND_CPU_MILLIS),
        .memory_mib = row_int(&start->found, 0, RUN_START_FIND_MEMORY_MIB),
        .disk_mib = row_int(&start->found, 0, RUN_START_FIND_DISK_MIB),
    };

    return !start->joins_workspace || workspace_join(start->tx, start->workspace_id, &guest,
                                                     start->arena, &start->base_version, err);
}

bool run_start_prepare(struct run_start *start, struct error *err)
{
    struct value deployment;
    struct str key = start->spec->options.concurrency_key;
    if (!find_deployment(start, &deployment, err) ||
        !STORE(start->tx, &run_start_find, start->arena, &start->found, err,
               V_TEXT(start->environment_id), deployment, V_STR(start->spec->task_id),
               V_STR_OR_NULL(start->spec->options.queue.name), key.ptr ? V_STR(key) : V_TEXT("")))
        return false;
    if (start->found.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such environment");
    if (!check(start, err) || !join_workspace(start, err))
        return false;
    choose_terms(start);
    return choose_lane(start, err);
}

static bool insert_workspace(const struct run_start *start, struct error *err)
{
    return start->joins_workspace ||
           STORE(start->tx, &workspace_insert, NULL, NULL, err, V_TEXT(start->workspace_id),
                 V_TEXT(start->environment_id), found_value(start, RUN_START_FIND_DEPLOYMENT_ID),
                 found_value(start, RUN_START_FIND_SANDBOX_ID),
                 found_value(start, RUN_START_FIND_FINGERPRINT), V_INT(start->now));
}

static bool insert_session(const struct run_start *start, struct error *err)
{
    const struct session_terms *terms = &start->session;
    AUTO(buf_finish) struct buf request = {.max = REQUEST_MAX};
    struct rows rows;

    if (!run_spec_write(start->spec, &request, err) ||
        !STORE(start->tx, &session_insert, start->arena, &rows, err, V_TEXT(start->session_id),
               V_TEXT(start->environment_id), V_STR(start->spec->task_id),
               found_value(start, RUN_START_FIND_DEPLOYMENT_ID), V_TEXT(start->workspace_id),
               V_TEXT(start->run_id), V_STR_OR_NULL(terms->external_id),
               terms->fingerprint.ptr ? V_BYTES(terms->fingerprint) : V_NULL,
               V_STR(buf_str(&request)),
               terms->metadata.ptr ? V_STR(terms->metadata) : V_TEXT("{}"),
               terms->tags.ptr ? V_STR(terms->tags) : V_TEXT("[]"),
               terms->expires_ms ? V_INT(terms->expires_ms) : V_NULL, V_INT(start->now)))
        return false;
    return rows.n_changed == 1 ||
           store_lost_race(err, "another session has got this external_id meanwhile");
}

/* The choice of a deployment is kept: the next turn begins from there. */
static bool advance_session(const struct run_start *start, struct wakes *wakes, struct error *err)
{
    struct rows rows;

    wakes_add(wakes, "session:", start->session_id);
    if (!STORE(start->tx, &session_advance, start->arena, &rows, err, V_TEXT(start->session_id),
               V_TEXT(start->run_id), found_value(start, RUN_START_FIND_DEPLOYMENT_ID),
               V_INT(start->now)))
        return false;
    return rows.n_changed == 1 || store_lost_race(err, "the session ended meanwhile");
}

static struct value expiry(const struct run_start *start)
{
    return start->ttl_ms ? V_INT(start->now + start->ttl_ms) : V_NULL;
}

static bool insert_run(const struct run_start *start, struct error *err)
{
    const struct run_spec *spec = start->spec;
    return STORE(start->tx, &run_insert, NULL, NULL, err, V_TEXT(start->run_id),
                 V_TEXT(start->environment_id), V_TEXT(start->session_id),
                 V_TEXT(start->workspace_id), found_value(start, RUN_START_FIND_DEPLOYMENT_ID),
                 found_value(start, RUN_START_FIND_TASK_ROW_ID), V_TEXT(start->lane_id),
                 V_STR(spec->task_id), V_TEXT(start->reason), V_STR_OR_NULL(start->cause),
                 V_STR(start->queue), V_STR_OR_NULL(spec->options.concurrency_key),
                 V_INT(spec->options.priority), V_INT(start->score),
                 start->ttl_ms ? V_INT(start->ttl_ms) : V_NULL, expiry(start),
                 V_INT(start->max_duration_seconds), V_STR_OR_NULL(start->retry_policy),
                 V_STR(start->secrets.bindings), V_STR(start->secrets.names), V_STR(spec->metadata),
                 V_STR(spec->tags), V_TEXT(start->trace_id), V_TEXT(API_VERSION),
                 V_STR_OR_NULL(spec->sdk_version), V_STR_OR_NULL(spec->cli_version),
                 V_INT(start->now), V_INT(start->before ? start->before->turn_index + 1 : 0),
                 start->before ? V_TEXT(start->before->run_id) : V_NULL,
                 V_STR_OR_NULL(start->base_version)) &&
           STORE(start->tx, &run_values_insert, NULL, NULL, err, V_TEXT(start->run_id),
                 V_STR(start->payload));
}

static bool put_in_queue(const struct run_start *start, struct error *err)
{
    const struct queue_item item = {
        .kind = "run",
        .subject_id = start->run_id,
        .lane_id = start->lane_id,
        .environment_id = start->environment_id,
        .score_ms = start->score,
        .not_before_ms = start->now,
        .ttl_ms = start->ttl_ms ? start->now + start->ttl_ms : 0,
        .cpu_millis = row_int(&start->found, 0, RUN_START_FIND_CPU_MILLIS),
        .memory_mib = row_int(&start->found, 0, RUN_START_FIND_MEMORY_MIB),
        .disk_mib = row_int(&start->found, 0, RUN_START_FIND_DISK_MIB),
        .arch = found_str(start, RUN_START_FIND_ARCH),
        .compat = queue_network_needs(found_str(start, RUN_START_FIND_NETWORK)),
    };
    return queue_put(start->tx, &item, err);
}

static bool insert_event(const struct run_start *start, struct error *err)
{
    const struct run_spec *spec = start->spec;
    AUTO(buf_finish) struct buf attributes = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&attributes);
    json_open(&json, NULL);
    json_text(&json, "task_id", spec->task_id);
    json_string(&json, "session_id", start->session_id);
    json_string(&json, "workspace_id", start->workspace_id);
    json_text(&json, "deployment_id", found_str(start, RUN_START_FIND_DEPLOYMENT_ID));
    if (start->payload.len <= EVENT_PAYLOAD_MAX) {
        json_raw(&json, "payload", start->payload);
    } else {
        json_bool(&json, "payload_omitted", true);
        json_int(&json, "payload_bytes", (int64_t)start->payload.len);
    }
    json_int(&json, "max_duration_seconds", start->max_duration_seconds);
    json_raw(&json, "secret_names", start->secrets.names);
    if (start->retry_policy.ptr)
        json_raw(&json, "retry_policy", start->retry_policy);
    json_raw(&json, "metadata", spec->metadata);
    json_raw(&json, "tags", spec->tags);
    json_string(&json, "reason", start->reason);
    if (start->cause.ptr)
        json_raw(&json, "cause", start->cause);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    struct event event = {.kind = "run.created",
                          .source = start->source,
                          .is_sensitive = true,
                          .at_ms = start->now,
                          .attributes = buf_str(&attributes)};
    return run_event_first(start->tx, start->run_id, &event, err);
}

bool run_start_insert(struct run_start *start, struct wakes *wakes, struct error *err)
{
    wakes_add(wakes, "g", row_text(&start->found, 0, RUN_START_FIND_GROUP_ID));
    wakes_add(wakes, "env:", start->environment_id);
    if (start->before ? !advance_session(start, wakes, err)
                      : !insert_workspace(start, err) || !insert_session(start, err))
        return false;
    return insert_run(start, err) && put_in_queue(start, err) && insert_event(start, err);
}
