/* The versions of a workspace: which there are, and going back to one of them. */
#include "base/json.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/mount_store.h"
#include "server/page.h"
#include "server/versions.h"
#include "server/workspace_object.h"
#include "server/workspaces.h"

enum { LIMIT_DEFAULT = 50, UNMOUNT_WAIT_MS = 30 * 1000 };

static const struct json_field no_fields[] = {{0}};

static bool read_kind(struct call *call, struct str *kind, struct error *err)
{
    bool found = false;

    if (!call_query(call, "kind", kind, &found, err))
        return false;
    if (!found)
        *kind = (struct str){0};
    return !found || str_equal(*kind, STR("user")) || str_equal(*kind, STR("system")) ||
           error_set(err, ERR_INVALID, "kind must be user or system");
}

/* As of other lists, but shorter unless asked for. */
static bool begin_page(struct call *call, struct str kind, struct page *page, struct error *err)
{
    struct str workspace = call_param(call, 0), limit;
    bool found = false;
    const char *filter = arena_printf(call->arena, "%.64s %.*s", arena_text(call->arena, workspace),
                                      (int)kind.len, kind.ptr ? kind.ptr : "");

    if (!call_query(call, "limit", &limit, &found, err) ||
        !page_begin(call, "versions", str_of(filter), false, page, err))
        return false;
    if (!found)
        page->limit = LIMIT_DEFAULT;
    return true;
}

bool version_list_get(struct call *call, struct response *res, struct error *err)
{
    struct page page;
    struct rows rows;
    struct str kind;
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    if (!read_kind(call, &kind, err) || !begin_page(call, kind, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !workspace_of_call(call, tx, id, err) ||
        !STORE(tx, &version_list, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(id), V_TEXT(page.at), V_INT(page_rows(&page)), V_STR_OR_NULL(kind)))
        return false;
    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "versions");
    for (size_t i = 0; i < n; i++)
        version_object_write(&json, NULL, &rows, i);
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, VERSION_GET_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool version_of_call(struct call *call, struct tx *tx, const char *workspace_id,
                            struct rows *rows, struct error *err)
{
    char id[ID_TEXT];

    if (!id_parse(call_param(call, 1), id))
        return error_set(err, ERR_VERSION_NOT_FOUND, "there is no such version");
    if (!STORE(tx, &version_get, call->arena, rows, err, V_TEXT(call_environment(call)),
               V_TEXT(workspace_id), V_TEXT(id)))
        return false;
    return rows->n_rows > 0 ||
           error_set(err, ERR_VERSION_NOT_FOUND, "the workspace has no version %s", id);
}

bool version_one_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !workspace_of_call(call, tx, id, err) || !version_of_call(call, tx, id, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    version_object_write(&json, NULL, &rows, 0);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool answer(struct response *res, const char *version, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));

    json_open(&json, NULL);
    json_string(&json, "version_id", version);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

/* A mount in which nothing runs is captured and ended first. */
static bool wait_for_mount(struct call *call, struct tx **tx, const char *id,
                           const struct wakes *wakes, struct response *res, struct error *err)
{
    if (call->is_last_try)
        return error_set(err, ERR_WORKSPACE_WRITER,
                         "the workspace is being unmounted; try again in a moment");
    response_park(res, arena_printf(call->arena, "workspace:%s", id), UNMOUNT_WAIT_MS);
    return hub_commit(&server_of(call)->hub, tx, wakes, err);
}

bool version_restore_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    const char *environment = call_environment(call);
    struct workspace_row row;
    struct wakes wakes = {0};
    struct rows rows;
    char id[ID_TEXT], version[ID_TEXT], nothing;
    bool is_free;
    AUTO_TX tx = NULL;

    if (!call_body(call, no_fields, &nothing, sizeof nothing, err) ||
        !store_begin(server->store, &tx, err) || !workspace_of_call(call, tx, id, err) ||
        !version_of_call(call, tx, id, &rows, err) ||
        !workspace_load_locked(tx, environment, id, call->arena, &row, err) ||
        !workspace_is_active(&row, err) ||
        !mount_make_way(tx, environment, id, call->arena, &is_free, &wakes, err))
        return false;
    if (!is_free)
        return wait_for_mount(call, &tx, id, &wakes, res, err);
    const struct version_place place = {
        .environment_id = environment,
        .workspace_id = id,
        .base = row.current,
        .generation = VERSION_OF_SERVER,
    };
    return version_adopt(server, tx, row_text(&rows, 0, VERSION_GET_ID), &place, call->arena,
                         version, &wakes, err) &&
           answer(res, version, err) &&
           audit_call(tx, call, "workspace.restore", str_of(id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}
