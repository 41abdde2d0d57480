#include "server/environments.h"

#include "base/time.h"
#include "model/grade.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/json_row.h"
#include "server/page.h"
#include "server/projects.h"
#include "server/seed.h"
#include "store/queries.h"

struct limits_body {
    int64_t workspaces, storage_bytes;
    bool has_workspaces, has_storage;
};

struct environment_body {
    struct str name, slug, color_hex, worker_group, min_grade;
    struct limits_body limits;
    bool has_limits;
};

static const struct json_field limits_fields[] = {
    {"workspaces", JSON_INTEGER, offsetof(struct limits_body, workspaces), OPTIONAL,
     .max = INT64_MAX, .present = offsetof(struct limits_body, has_workspaces)},
    {"storage_bytes", JSON_INTEGER, offsetof(struct limits_body, storage_bytes), OPTIONAL,
     .max = INT64_MAX, .present = offsetof(struct limits_body, has_storage)},
    {0},
};

static const struct json_field environment_fields[] = {
    {"name", JSON_TEXT, offsetof(struct environment_body, name), OPTIONAL, .max = 200},
    {"slug", JSON_TEXT, offsetof(struct environment_body, slug), OPTIONAL, .max = 64},
    {"color_hex", JSON_TEXT, offsetof(struct environment_body, color_hex), OPTIONAL, .max = 16},
    {"worker_group", JSON_TEXT, offsetof(struct environment_body, worker_group), OPTIONAL,
     .max = 128},
    {"min_grade", JSON_TEXT, offsetof(struct environment_body, min_grade), OPTIONAL, .max = 32},
    {"limits", JSON_OBJ, offsetof(struct environment_body, limits), OPTIONAL,
     .fields = limits_fields, .present = offsetof(struct environment_body, has_limits)},
    {0},
};

static void write_environment(struct json_writer *json, const struct rows *rows, size_t row)
{
    enum grade grade = (enum grade)row_int(rows, row, ENVIRONMENT_LIST_MIN_GRADE);
    json_open(json, NULL);
    json_row_text(json, "id", rows, row, ENVIRONMENT_LIST_ID);
    json_row_text(json, "project_id", rows, row, ENVIRONMENT_LIST_PROJECT_ID);
    json_row_text(json, "slug", rows, row, ENVIRONMENT_LIST_SLUG);
    json_row_text(json, "name", rows, row, ENVIRONMENT_LIST_NAME);
    json_row_text(json, "color_hex", rows, row, ENVIRONMENT_LIST_COLOR_HEX);
    json_row_bool(json, "is_default", rows, row, ENVIRONMENT_LIST_IS_DEFAULT);
    json_row_text(json, "worker_group", rows, row, ENVIRONMENT_LIST_GROUP_NAME);
    json_string(json, "min_grade", grade_name(grade));
    json_open(json, "limits");
    json_row_int_if(json, "workspaces", rows, row, ENVIRONMENT_LIST_WORKSPACES_MAX);
    json_row_int_if(json, "storage_bytes", rows, row, ENVIRONMENT_LIST_STORAGE_BYTES_MAX);
    json_close(json);
    json_row_time(json, "created_at", rows, row, ENVIRONMENT_LIST_CREATED_MS);
    json_row_time(json, "updated_at", rows, row, ENVIRONMENT_LIST_UPDATED_MS);
    json_close(json);
}

bool environments_write(struct call *call, struct tx *tx, struct str project_id,
                        struct json_writer *json, struct error *err)
{
    struct rows rows;
    if (!STORE(tx, &environment_list, call->arena, &rows, err, V_STR(project_id)))
        return false;
    json_open_list(json, "environments");
    for (size_t i = 0; i < rows.n_rows; i++)
        write_environment(json, &rows, i);
    json_close_list(json);
    return true;
}

/* The row of that id or slug among those of environment_list. */
static bool find_in(struct tx *tx, struct arena *arena, struct str project_id, struct str wanted,
                    struct rows *rows, size_t *row, struct error *err)
{
    if (!STORE(tx, &environment_list, arena, rows, err, V_STR(project_id)))
        return false;
    for (*row = 0; *row < rows->n_rows; (*row)++)
        if (str_equal(wanted, row_str(rows, *row, ENVIRONMENT_LIST_ID)) ||
            str_equal(wanted, row_str(rows, *row, ENVIRONMENT_LIST_SLUG)))
            return true;
    return error_set(err, ERR_NOT_FOUND, "there is no such environment");
}

/* By the ids or slugs in the path. */
static bool environment_of(struct call *call, struct tx *tx, struct rows *rows, size_t *row,
                           struct error *err)
{
    struct rows project;
    return project_of(call, tx, &project, err) &&
           find_in(tx, call->arena, row_str(&project, 0, PROJECT_FIND_ID),
                   id_or_name(call->arena, call_param(call, 1)), rows, row, err);
}

static bool answer(struct response *res, int status, const struct rows *rows, size_t row,
                   struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    write_environment(&json, rows, row);
    response_json(res, status);
    return json_end(&json, err);
}

bool environment_list_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) || !project_of(call, tx, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    if (!environments_write(call, tx, row_str(&rows, 0, PROJECT_FIND_ID), &json, err))
        return false;
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool environment_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    size_t row;
    AUTO_TX tx = NULL;
    return store_begin_read(server_of(call)->store, &tx, err) &&
           environment_of(call, tx, &rows, &row, err) && answer(res, 200, &rows, row, err);
}

static bool read_body(struct call *call, struct environment_body *body, struct error *err)
{
    enum grade grade;
    if (!call_body(call, environment_fields, body, sizeof *body, err) ||
        (body->name.ptr && !name_check(NAME_TITLE, "/name", body->name, err)) ||
        (body->color_hex.ptr && !name_check(NAME_COLOUR, "/color_hex", body->color_hex, err)))
        return false;
    return !body->min_grade.ptr || grade_parse(body->min_grade, &grade) ||
           error_set(err, ERR_INVALID, "/min_grade must be shared-kernel, user-kernel or microvm");
}

static struct value limit(bool is_set, int64_t value)
{
    return is_set ? V_INT(value) : V_NULL;
}

/* What waits for a worker waits for one of the new grade, in the new group. */
static bool apply(struct call *call, struct tx *tx, struct str project_id, const char *id,
                  const struct environment_body *body, struct error *err)
{
    const char *group = NULL;
    struct value least = V_NULL;
    enum grade grade;
    if (body->worker_group.ptr && !project_group(call, tx, body->worker_group, &group, err))
        return false;
    if (body->min_grade.ptr && grade_parse(body->min_grade, &grade))
        least = V_INT(grade);
    const struct limits_body *limits = &body->limits;
    return STORE(tx, &environment_change, NULL, NULL, err, V_STR(project_id), V_TEXT(id),
                 V_STR_OR_NULL(body->slug), V_STR_OR_NULL(body->name),
                 V_STR_OR_NULL(body->color_hex), V_TEXT_OR_NULL(group), least,
                 V_INT(body->has_limits), limit(limits->has_workspaces, limits->workspaces),
                 limit(limits->has_storage, limits->storage_bytes), V_INT(time_now_ms())) ||
           project_slug_taken(err);
}

bool environment_create(struct call *call, struct response *res, struct error *err)
{
    struct environment_body body;
    struct rows project, rows;
    struct str slug;
    size_t row;
    char id[ID_TEXT], colour[COLOUR_TEXT];
    const char *group = "";
    AUTO_TX tx = NULL;
    if (!read_body(call, &body, err))
        return false;
    if (!body.name.ptr)
        return error_set(err, ERR_INVALID, "/name is required");
    if (!project_slug(call, body.slug, body.name, &slug, err) ||
        !store_begin(server_of(call)->store, &tx, err) || !project_of(call, tx, &project, err) ||
        !project_group(call, tx, body.worker_group, &group, err))
        return false;

    struct str project_id = row_str(&project, 0, PROJECT_FIND_ID);
    id_make(id);
    name_colour(slug, colour);
    if (!STORE(tx, &environment_insert, call->arena, &rows, err, V_TEXT(id), V_STR(project_id),
               V_STR(slug), V_STR(body.name), V_TEXT(colour), V_INT(0), V_TEXT(group),
               V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_SLUG_TAKEN, "this slug is taken");
    return apply(call, tx, project_id, id, &body, err) &&
           find_in(tx, call->arena, project_id, str_of(id), &rows, &row, err) &&
           answer(res, 201, &rows, row, err) &&
           audit_call(tx, call, "environment.create", str_of(id), err) && store_commit(&tx, err);
}

static bool protect(const struct rows *rows, size_t row, struct error *err)
{
    struct str slug = row_str(rows, row, ENVIRONMENT_LIST_SLUG);
    return !seed_protects(slug) ||
           error_set(err, ERR_ENVIRONMENT_PROTECTED, "%.*s can be neither renamed nor deleted",
                     (int)slug.len, slug.ptr);
}

static bool is_rename(const struct environment_body *body, const struct rows *rows, size_t row)
{
    return (body->slug.ptr && !str_equal(body->slug, row_str(rows, row, ENVIRONMENT_LIST_SLUG))) ||
           (body->name.ptr && !str_equal(body->name, row_str(rows, row, ENVIRONMENT_LIST_NAME)));
}

/* Polls of the group that has its work now look again. */
static bool wake_group(struct call *call, struct tx *tx, const char *id, struct wakes *wakes,
                       struct error *err)
{
    struct rows rows;
    if (!STORE(tx, &environment_group, call->arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 1)
        wakes_add(wakes, "g", row_text(&rows, 0, ENVIRONMENT_GROUP_GROUP_ID));
    return true;
}

bool environment_update(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct environment_body body;
    struct rows rows;
    struct wakes wakes = {0};
    size_t row;
    AUTO_TX tx = NULL;
    if (!read_body(call, &body, err) ||
        (body.slug.ptr && !project_slug(call, body.slug, body.name, &body.slug, err)) ||
        !store_begin(server->store, &tx, err) || !environment_of(call, tx, &rows, &row, err) ||
        (is_rename(&body, &rows, row) && !protect(&rows, row, err)))
        return false;
    const char *id = row_text(&rows, row, ENVIRONMENT_LIST_ID);
    struct str project_id = row_str(&rows, row, ENVIRONMENT_LIST_PROJECT_ID);
    wakes_add(&wakes, TOPIC_AUTH, "");
    return apply(call, tx, project_id, id, &body, err) && wake_group(call, tx, id, &wakes, err) &&
           find_in(tx, call->arena, project_id, str_of(id), &rows, &row, err) &&
           answer(res, 200, &rows, row, err) &&
           audit_call(tx, call, "environment.update", str_of(id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}

static bool check_empty(struct call *call, struct tx *tx, const char *id, struct error *err)
{
    struct rows rows;
    if (!STORE(tx, &environment_live, call->arena, &rows, err, V_TEXT(id)))
        return false;
    long long runs = row_int(&rows, 0, ENVIRONMENT_LIVE_RUNS),
              builds = row_int(&rows, 0, ENVIRONMENT_LIVE_BUILDS),
              workspaces = row_int(&rows, 0, ENVIRONMENT_LIVE_WORKSPACES);
    return runs + builds + workspaces == 0 ||
           error_set(err, ERR_PROJECT_NOT_EMPTY,
                     "not while something lives in it; live runs: %lld, pending builds: %lld, "
                     "workspaces: %lld",
                     runs, builds, workspaces);
}

bool environment_purge(struct call *call, struct tx *tx, const char *id, struct wakes *wakes,
                       struct error *err)
{
    /* Rows before those they refer to. */
    static const struct query *const steps[] = {
        &purge_schedule_fires,
        &purge_schedules,
        &purge_operations,
        &purge_log_chunks,
        &purge_run_events,
        &purge_attempts,
        &purge_run_values,
        &purge_ready,
        &purge_heads,
        &purge_shapes,
        &purge_image_claims,
        &purge_lease_operations,
        &purge_leases,
        &purge_idempotency,
        &purge_checkpoint_refs,
        &purge_checkpoints,
        &purge_version_refs,
        &purge_versions,
        &purge_environment_objects,
        &purge_environment_usage,
        &purge_workspace_tags,
        &purge_waits,
        &purge_continuations,
        &purge_public_access_tokens,
        &purge_tokens,
        &purge_stream_positions,
        &purge_stream_records,
        &purge_streams,
        &purge_runs,
        &purge_sessions,
        &purge_process_chunks,
        &purge_processes,
        &purge_mounts,
        &purge_workspaces,
        &purge_lanes,
        &purge_image_objects,
        &purge_deployment_queues,
        &purge_deployment_tasks,
        &purge_deployment_sandboxes,
        &purge_deployment_events,
        &purge_deployments,
        &purge_secrets,
        &purge_api_keys,
        &environment_delete_row,
    };
    if (!STORE(tx, &environment_retire, NULL, NULL, err, V_TEXT(id)) ||
        !check_empty(call, tx, id, err))
        return false;
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        if (!STORE(tx, steps[i], NULL, NULL, err, V_TEXT(id)))
            return false;
    wakes_add(wakes, TOPIC_AUTH, "");
    return true;
}

bool environment_delete(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct rows rows;
    struct wakes wakes = {0};
    size_t row;
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) || !environment_of(call, tx, &rows, &row, err) ||
        !protect(&rows, row, err) ||
        !environment_purge(call, tx, row_text(&rows, row, ENVIRONMENT_LIST_ID), &wakes, err) ||
        !audit_call(tx, call, "environment.delete", row_str(&rows, row, ENVIRONMENT_LIST_ID),
                    err) ||
        !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    response_empty(res, 204);
    return true;
}
