#include "server/projects.h"

#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/environments.h"
#include "server/handlers.h"
#include "server/json_row.h"
#include "server/page.h"
#include "server/seed.h"
#include "store/queries.h"

struct project_body {
    struct str name, slug;
    bool is_default, has_default;
};

static const struct json_field create_fields[] = {
    {"name", JSON_TEXT, offsetof(struct project_body, name), REQUIRED, .max = 200},
    {"slug", JSON_TEXT, offsetof(struct project_body, slug), OPTIONAL, .max = 64},
    {0},
};

static const struct json_field change_fields[] = {
    {"name", JSON_TEXT, offsetof(struct project_body, name), OPTIONAL, .max = 200},
    {"slug", JSON_TEXT, offsetof(struct project_body, slug), OPTIONAL, .max = 64},
    {"is_default", JSON_BOOL, offsetof(struct project_body, is_default), OPTIONAL,
     .present = offsetof(struct project_body, has_default)},
    {0},
};

static bool write_project(struct call *call, struct tx *tx, struct json_writer *json,
                          const struct rows *rows, size_t row, struct error *err)
{
    json_open(json, NULL);
    json_row_text(json, "id", rows, row, PROJECT_FIND_ID);
    json_row_text(json, "slug", rows, row, PROJECT_FIND_SLUG);
    json_row_text(json, "name", rows, row, PROJECT_FIND_NAME);
    json_row_bool(json, "is_default", rows, row, PROJECT_FIND_IS_DEFAULT);
    json_row_time(json, "created_at", rows, row, PROJECT_FIND_CREATED_MS);
    json_row_time(json, "updated_at", rows, row, PROJECT_FIND_UPDATED_MS);
    if (!environments_write(call, tx, row_str(rows, row, PROJECT_FIND_ID), json, err))
        return false;
    json_close(json);
    return true;
}

bool project_of(struct call *call, struct tx *tx, struct rows *rows, struct error *err)
{
    if (!STORE(tx, &project_find, call->arena, rows, err, V_TEXT(caller_of(call)->organization_id),
               V_STR(id_or_name(call->arena, call_param(call, 0)))))
        return false;
    return rows->n_rows == 1 || error_set(err, ERR_NOT_FOUND, "there is no such project");
}

bool project_list_get(struct call *call, struct response *res, struct error *err)
{
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!page_begin(call, "projects", (struct str){0}, false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &project_list, call->arena, &rows, err, V_TEXT(caller_of(call)->organization_id),
               V_TEXT(page.at), V_INT(page_rows(&page))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "projects");
    for (size_t i = 0; i < n; i++)
        if (!write_project(call, tx, &json, &rows, i, err))
            return false;
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, PROJECT_LIST_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool answer_project(struct call *call, struct tx *tx, struct str id, int status,
                           struct response *res, struct error *err)
{
    struct rows rows;
    struct json_writer json = json_begin(response_body(res));
    if (!STORE(tx, &project_find, call->arena, &rows, err, V_TEXT(caller_of(call)->organization_id),
               V_STR(id)))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_NOT_FOUND, "there is no such project");
    if (!write_project(call, tx, &json, &rows, 0, err))
        return false;
    response_json(res, status);
    return json_end(&json, err);
}

bool project_get(struct call *call, struct response *res, struct error *err)
{
    AUTO_TX tx = NULL;
    return store_begin_read(server_of(call)->store, &tx, err) &&
           answer_project(call, tx, id_or_name(call->arena, call_param(call, 0)), 200, res, err);
}

bool project_slug(struct call *call, struct str given, struct str name, struct str *slug,
                  struct error *err)
{
    char made[SLUG_TEXT], id[ID_TEXT];
    if (!given.ptr) {
        if (!name_slugify(name, made))
            return error_set(err, ERR_INVALID, "no slug can be made of this name: give one");
        given = arena_str(call->arena, str_of(made));
    }
    if (!name_check(NAME_SLUG, "/slug", given, err))
        return false;
    if (id_parse(given, id))
        return error_set(err, ERR_INVALID, "/slug must not look like an id");
    *slug = given;
    return true;
}

bool project_slug_taken(struct error *err)
{
    if (err->code != ERR_CONFLICT || store_is_retryable(err))
        return false;
    return error_set(err, ERR_SLUG_TAKEN, "this slug is taken");
}

bool project_group(struct call *call, struct tx *tx, struct str name, const char **id,
                   struct error *err)
{
    struct rows rows;
    struct str list = str_of(server_of(call)->config->worker_groups);
    if (!name.ptr)
        str_split(&list, ',', &name);
    if (!STORE(tx, &worker_group_find, call->arena, &rows, err,
               V_TEXT(caller_of(call)->organization_id), V_STR(name)))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_INVALID, "/worker_group: there is no worker group %.128s",
                         arena_text(call->arena, name));
    *id = row_text(&rows, 0, WORKER_GROUP_FIND_ID);
    return true;
}

bool project_create(struct call *call, struct response *res, struct error *err)
{
    struct project_body body;
    struct str slug;
    struct rows rows;
    char id[ID_TEXT];
    const char *group = "";
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;
    if (!call_body(call, create_fields, &body, sizeof body, err) ||
        !name_check(NAME_TITLE, "/name", body.name, err) ||
        !project_slug(call, body.slug, body.name, &slug, err))
        return false;
    id_make(id);
    if (!store_begin(server_of(call)->store, &tx, err) ||
        !project_group(call, tx, (struct str){0}, &group, err) ||
        !STORE(tx, &project_insert, call->arena, &rows, err, V_TEXT(id),
               V_TEXT(caller_of(call)->organization_id), V_STR(slug), V_STR(body.name), V_INT(0),
               V_INT(now)))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_SLUG_TAKEN, "this slug is taken");
    return seed_environments(tx, id, group, now, err) &&
           answer_project(call, tx, str_of(id), 201, res, err) &&
           audit_call(tx, call, "project.create", str_of(id), err) && store_commit(&tx, err);
}

static bool make_default(struct call *call, struct tx *tx, const char *id, struct error *err)
{
    const char *organization = caller_of(call)->organization_id;
    return STORE(tx, &project_undefault, NULL, NULL, err, V_TEXT(organization)) &&
           STORE(tx, &project_set_default, NULL, NULL, err, V_TEXT(organization), V_TEXT(id));
}

static bool read_change(struct call *call, struct project_body *body, struct error *err)
{
    if (!call_body(call, change_fields, body, sizeof *body, err) ||
        (body->name.ptr && !name_check(NAME_TITLE, "/name", body->name, err)) ||
        (body->slug.ptr && !project_slug(call, body->slug, body->name, &body->slug, err)))
        return false;
    return !body->has_default || body->is_default ||
           error_set(err, ERR_INVALID, "/is_default: make another project the default instead");
}

/* Keys carry the slugs of their scope, so what is known of them is forgotten. */
bool project_update(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct project_body body;
    struct rows rows;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    if (!read_change(call, &body, err) || !store_begin(server->store, &tx, err) ||
        !project_of(call, tx, &rows, err))
        return false;
    const char *id = row_text(&rows, 0, PROJECT_FIND_ID);
    if (!STORE(tx, &project_change, NULL, NULL, err, V_TEXT(caller_of(call)->organization_id),
               V_TEXT(id), V_STR_OR_NULL(body.slug), V_STR_OR_NULL(body.name),
               V_INT(time_now_ms())))
        return project_slug_taken(err);
    wakes_add(&wakes, TOPIC_AUTH, "");
    return (!body.has_default || make_default(call, tx, id, err)) &&
           answer_project(call, tx, str_of(id), 200, res, err) &&
           audit_call(tx, call, "project.update", str_of(id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}

bool project_delete(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct rows project, rows;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) || !project_of(call, tx, &project, err))
        return false;
    struct value id = V_STR(row_str(&project, 0, PROJECT_FIND_ID));
    if (row_int(&project, 0, PROJECT_FIND_IS_DEFAULT))
        return error_set(err, ERR_PROJECT_IS_DEFAULT,
                         "the default project cannot be deleted: make another the default first");
    if (!STORE(tx, &environment_list, call->arena, &rows, err, id))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++)
        if (!environment_purge(call, tx, row_text(&rows, i, ENVIRONMENT_LIST_ID), &wakes, err))
            return false;
    if (!STORE(tx, &purge_image_steps, NULL, NULL, err, id) ||
        !STORE(tx, &project_delete_row, NULL, NULL, err, id) ||
        !audit_call(tx, call, "project.delete", id.bytes, err) ||
        !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    response_empty(res, 204);
    return true;
}
