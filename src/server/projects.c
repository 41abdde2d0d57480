#include "base/json.h"
#include "model/grade.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/json_row.h"
#include "server/page.h"
#include "store/queries.h"

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

static bool write_environments(struct call *call, struct tx *tx, struct str project_id,
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
    if (!write_environments(call, tx, row_str(rows, row, PROJECT_FIND_ID), json, err))
        return false;
    json_close(json);
    return true;
}

static bool find_project(struct call *call, struct tx *tx, struct rows *rows, struct error *err)
{
    if (!STORE(tx, &project_find, call->arena, rows, err,
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
        !STORE(tx, &project_list, call->arena, &rows, err, V_TEXT(page.at),
               V_INT(page_rows(&page))))
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

bool project_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) || !find_project(call, tx, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    if (!write_project(call, tx, &json, &rows, 0, err))
        return false;
    response_json(res, 200);
    return json_end(&json, err);
}

bool environment_list_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) || !find_project(call, tx, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    if (!write_environments(call, tx, row_str(&rows, 0, PROJECT_FIND_ID), &json, err))
        return false;
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool environment_get(struct call *call, struct response *res, struct error *err)
{
    struct rows project, rows;
    struct str wanted = id_or_name(call->arena, call_param(call, 1));
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !find_project(call, tx, &project, err) ||
        !STORE(tx, &environment_list, call->arena, &rows, err,
               V_STR(row_str(&project, 0, PROJECT_FIND_ID))))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        if (!str_equal(wanted, row_str(&rows, i, ENVIRONMENT_LIST_ID)) &&
            !str_equal(wanted, row_str(&rows, i, ENVIRONMENT_LIST_SLUG)))
            continue;
        struct json_writer json = json_begin(response_body(res));
        write_environment(&json, &rows, i);
        response_json(res, 200);
        return json_end(&json, err);
    }
    return error_set(err, ERR_NOT_FOUND, "there is no such environment");
}
