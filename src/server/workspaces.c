#include "server/workspaces.h"

#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/input.h"
#include "server/page.h"
#include "server/workspace_object.h"

enum { METADATA_MAX = 64 * 1024, TAG_MAX = 128 };

bool workspace_show(struct call *call, struct tx *tx, const char *id, int status,
                    struct response *res, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &workspace_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s", id);
    struct json_writer json = json_begin(response_body(res));
    workspace_object_write(&json, NULL, &rows, 0);
    response_json(res, status);
    return json_end(&json, err);
}

bool workspace_of_call(struct call *call, struct tx *tx, char id[ID_TEXT], struct error *err)
{
    struct rows rows;

    if (!id_parse(call_param(call, 0), id))
        return error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no such workspace");
    if (!STORE(tx, &workspace_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(id)))
        return false;
    return rows.n_rows > 0 ||
           error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s", id);
}

bool workspace_load_locked(struct tx *tx, const char *environment_id, const char *id,
                           struct arena *arena, struct workspace_row *row, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &workspace_lock, arena, &rows, err, V_TEXT(environment_id), V_TEXT(id)))
        return false;
    if (rows.n_rows == 0 ||
        !workspace_state_parse(row_str(&rows, 0, WORKSPACE_LOCK_STATE), &row->state))
        return error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s", id);
    row->current = row_str(&rows, 0, WORKSPACE_LOCK_CURRENT_VERSION_ID);
    return true;
}

bool workspace_is_active(const struct workspace_row *row, struct error *err)
{
    if (row->state == WORKSPACE_RECOVERY_REQUIRED)
        return error_set(err, ERR_WORKSPACE_RECOVERY,
                         "changes of the workspace were lost: mount it once to go on");
    return row->state == WORKSPACE_ACTIVE ||
           error_set(err, ERR_WORKSPACE_INACTIVE, "the workspace is %s",
                     workspace_state_name(row->state));
}

bool workspace_has_no_run(struct tx *tx, const char *id, struct arena *arena, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &workspace_writer, arena, &rows, err, V_TEXT(id)))
        return false;
    return rows.n_rows == 0 ||
           error_set(err, ERR_WORKSPACE_WRITER, "run %s writes to the workspace",
                     row_text(&rows, 0, WORKSPACE_WRITER_ID));
}

bool workspace_has_no_mount(struct tx *tx, const char *id, struct arena *arena, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &workspace_live_mount, arena, &rows, err, V_TEXT(id)))
        return false;
    return rows.n_rows == 0 ||
           error_set(err, ERR_WORKSPACE_WRITER, "the workspace is mounted: stop it first");
}

bool workspace_tag(struct tx *tx, const char *environment_id, const char *id,
                   const struct str *tags, size_t n, struct error *err)
{
    if (!STORE(tx, &workspace_tags_delete, NULL, NULL, err, V_TEXT(id)))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!STORE(tx, &workspace_tag_insert, NULL, NULL, err, V_TEXT(environment_id),
                   V_STR(tags[i]), V_TEXT(id)))
            return false;
    return true;
}

void workspace_wake(struct wakes *wakes, const char *environment_id, const char *id)
{
    wakes_add(wakes, "workspace:", id);
    wakes_add(wakes, "env:", environment_id);
}

bool workspace_one_get(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) &&
           workspace_of_call(call, tx, id, err) && workspace_show(call, tx, id, 200, res, err);
}

/* ptr NULL: any. */
struct workspace_filter {
    const struct query *query;
    struct str state, external_id, tag;
};

static bool read_text(struct call *call, const char *name, struct str *value, struct error *err)
{
    bool found = false;

    if (!call_query(call, name, value, &found, err))
        return false;
    if (!found)
        *value = (struct str){0};
    return true;
}

static bool read_filter(struct call *call, struct workspace_filter *filter, struct error *err)
{
    enum workspace_state state;

    if (!read_text(call, "state", &filter->state, err) ||
        !read_text(call, "external_id", &filter->external_id, err) ||
        !read_text(call, "tag", &filter->tag, err) ||
        (filter->external_id.ptr &&
         !name_check(NAME_EXTERNAL, "external_id", filter->external_id, err)))
        return false;
    if (filter->tag.ptr && (filter->tag.len == 0 || filter->tag.len > TAG_MAX))
        return error_set(err, ERR_INVALID, "tag must have 1 to %d bytes", TAG_MAX);
    if (filter->state.ptr && !str_equal(filter->state, STR("all")) &&
        !workspace_state_parse(filter->state, &state))
        return error_set(err, ERR_INVALID, "state must be all or the state of a workspace");
    filter->query = filter->state.ptr || filter->external_id.ptr ? &workspace_list_by
                    : filter->tag.ptr                            ? &workspace_list_tag
                                                                 : &workspace_list;
    return true;
}

static bool read_page(struct call *call, struct tx *tx, const struct workspace_filter *filter,
                      const struct page *page, struct rows *rows, struct error *err)
{
    struct value environment = V_TEXT(call_environment(call)), before = V_TEXT(page->at),
                 limit = V_INT(page_rows(page));
    bool is_any = str_equal(filter->state, STR("all"));

    if (filter->query == &workspace_list)
        return STORE(tx, filter->query, call->arena, rows, err, environment, before, limit);
    if (filter->query == &workspace_list_tag)
        return STORE(tx, filter->query, call->arena, rows, err, environment, before, limit,
                     V_STR(filter->tag));
    return STORE(tx, filter->query, call->arena, rows, err, environment, before, limit,
                 is_any ? V_NULL : V_STR_OR_NULL(filter->state), V_STR_OR_NULL(filter->external_id),
                 V_STR_OR_NULL(filter->tag));
}

static const char *text_or_none(struct str text, struct arena *arena)
{
    return text.ptr ? arena_text(arena, text) : "";
}

/* External ids are without white space around them, and tags come last. */
static struct str filter_text(struct call *call, const struct workspace_filter *filter)
{
    return str_of(arena_printf(call->arena, "%s %s\n%s", text_or_none(filter->state, call->arena),
                               text_or_none(filter->external_id, call->arena),
                               text_or_none(filter->tag, call->arena)));
}

bool workspace_list_get(struct call *call, struct response *res, struct error *err)
{
    struct workspace_filter filter;
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!read_filter(call, &filter, err) ||
        !page_begin(call, "workspaces", filter_text(call, &filter), false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !read_page(call, tx, &filter, &page, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "workspaces");
    for (size_t i = 0; i < n; i++)
        workspace_object_write(&json, NULL, &rows, i);
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, WORKSPACE_GET_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

struct update_body {
    struct str metadata, state;
    struct json_list tags;
    bool has_tags;
};

static const struct json_field update_fields[] = {
    {"metadata", JSON_RAW, offsetof(struct update_body, metadata), OPTIONAL, .max = METADATA_MAX},
    {"tags", JSON_LIST, offsetof(struct update_body, tags), OPTIONAL, .max = 32,
     .present = offsetof(struct update_body, has_tags)},
    {"state", JSON_TEXT, offsetof(struct update_body, state), OPTIONAL, .max = 32},
    {0},
};

/* To be what it is already is fine. An archived one has nothing that could still write to it. */
static bool move_to(struct call *call, struct tx *tx, const char *id, struct str wanted,
                    struct workspace_row *row, struct error *err)
{
    bool archives = str_equal(wanted, STR("archived"));

    if (!wanted.ptr || str_equal(wanted, str_of(workspace_state_name(row->state))))
        return true;
    if (!archives && !str_equal(wanted, STR("active")))
        return error_set(err, ERR_INVALID, "/state must be active or archived");
    if (!workspace_state_apply(&row->state, archives ? WORKSPACE_ARCHIVE : WORKSPACE_UNARCHIVE))
        return error_set(err, ERR_WORKSPACE_INACTIVE, "the workspace is %s",
                         workspace_state_name(row->state));
    return !archives || (workspace_has_no_run(tx, id, call->arena, err) &&
                         workspace_has_no_mount(tx, id, call->arena, err));
}

bool workspace_patch(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    const char *environment = call_environment(call);
    struct workspace_row row;
    struct update_body body;
    struct wakes wakes = {0};
    struct str metadata = {0}, tags = {0};
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    if (!call_body(call, update_fields, &body, sizeof body, err) ||
        (body.metadata.ptr &&
         !input_object(body.metadata, "metadata", METADATA_MAX, call->arena, &metadata, err)) ||
        (body.has_tags && !input_tags(body.tags.items, body.tags.n, call->arena, &tags, err)) ||
        !store_begin(server->store, &tx, err) || !workspace_of_call(call, tx, id, err) ||
        !workspace_load_locked(tx, environment, id, call->arena, &row, err))
        return false;
    if (row.state == WORKSPACE_DELETING || row.state == WORKSPACE_DELETED)
        return workspace_is_active(&row, err);
    workspace_wake(&wakes, environment, id);
    return move_to(call, tx, id, body.state, &row, err) &&
           STORE(tx, &workspace_change, NULL, NULL, err, V_TEXT(id), V_STR_OR_NULL(metadata),
                 V_STR_OR_NULL(tags), V_TEXT(workspace_state_name(row.state)),
                 V_INT(time_now_ms())) &&
           (!body.has_tags ||
            workspace_tag(tx, environment, id, body.tags.items, body.tags.n, err)) &&
           workspace_show(call, tx, id, 200, res, err) &&
           audit_call(tx, call, "workspace.update", str_of(id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}

/* The rest is the sweeper's: it is asked at once, and again after every stop of the server. */
static bool start_delete(struct call *call, struct tx *tx, const char *id, struct wakes *wakes,
                         struct error *err)
{
    const char *environment = call_environment(call);
    struct workspace_row row;

    if (!workspace_load_locked(tx, environment, id, call->arena, &row, err))
        return false;
    if (!workspace_state_apply(&row.state, WORKSPACE_DELETE))
        return true;
    workspace_wake(wakes, environment, id);
    return workspace_has_no_run(tx, id, call->arena, err) &&
           STORE(tx, &workspace_start_delete, NULL, NULL, err, V_TEXT(id), V_INT(time_now_ms())) &&
           audit_call(tx, call, "workspace.delete", str_of(id), err);
}

bool workspace_delete_one(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    return store_begin(server->store, &tx, err) && workspace_of_call(call, tx, id, err) &&
           start_delete(call, tx, id, &wakes, err) && workspace_show(call, tx, id, 202, res, err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}
