#include "server/caller.h"
#include "server/context.h"
#include "server/deployment_object.h"
#include "server/handlers.h"
#include "server/page.h"
#include "store/queries.h"

/* Tasks and sandboxes are the same two routes over different rows. */
struct part {
    const char *list; /* the plural, also the field */
    const struct query *read_list, *read_one;
    void (*write)(struct json_writer *json, const char *name, const struct rows *rows, size_t row);
    enum error_code missing;
};

static const struct part task_part = {"tasks", &task_list, &task_get, task_object_write,
                                      ERR_TASK_NOT_FOUND};
static const struct part sandbox_part = {"sandboxes", &sandbox_list, &sandbox_get,
                                         sandbox_object_write, ERR_NOT_FOUND};
_Static_assert((int)TASK_LIST_ID == (int)SANDBOX_LIST_ID, "both lists begin with the id");

static bool answer_list(struct call *call, const struct part *part, struct response *res,
                        struct error *err)
{
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!page_begin(call, part->list, (struct str){0}, true, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, part->read_list, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(page.at), V_INT(page_rows(&page))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, part->list);
    for (size_t i = 0; i < n; i++)
        part->write(&json, NULL, &rows, i);
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, TASK_LIST_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool find_one(struct call *call, const struct part *part, struct tx *tx, struct rows *rows,
                     struct error *err)
{
    if (!STORE(tx, part->read_one, call->arena, rows, err, V_TEXT(call_environment(call)),
               V_STR(id_or_name(call->arena, call_param(call, 0)))))
        return false;
    return rows->n_rows > 0 ||
           error_set(err, part->missing, "the current deployment has no such one");
}

bool task_list_get(struct call *call, struct response *res, struct error *err)
{
    return answer_list(call, &task_part, res, err);
}

bool task_one_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows, schema;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !find_one(call, &task_part, tx, &rows, err) ||
        !STORE(tx, &task_payload_schema, call->arena, &schema, err, V_TEXT(call_environment(call)),
               V_STR(row_str(&rows, 0, TASK_GET_ID))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    task_object_write_whole(&json, &rows, &schema);
    response_json(res, 200);
    return json_end(&json, err);
}

bool sandbox_list_get(struct call *call, struct response *res, struct error *err)
{
    return answer_list(call, &sandbox_part, res, err);
}

bool sandbox_one_get(struct call *call, struct response *res, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !find_one(call, &sandbox_part, tx, &rows, err))
        return false;

    struct json_writer json = json_begin(response_body(res));
    sandbox_object_write(&json, NULL, &rows, 0);
    response_json(res, 200);
    return json_end(&json, err);
}
