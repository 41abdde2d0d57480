/* Tokens, for those who have an API key or are signed in. */
#include "base/json.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/page.h"
#include "server/token_answer.h"
#include "server/token_object.h"

enum { REASON_MAX = 16 * 1024 };

static bool load(struct call *call, struct tx *tx, const char *id, struct rows *rows,
                 struct error *err)
{
    if (!STORE(tx, &token_get, call->arena, rows, err, V_TEXT(call_environment(call)), V_TEXT(id)))
        return false;
    return rows->n_rows > 0 || error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", id);
}

bool token_create_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct token_request request;
    struct rows rows;
    char id[ID_TEXT];
    bool is_cached;
    AUTO_TX tx = NULL;

    if (!call_body(call, token_request_fields, &request, sizeof request, err) ||
        !store_begin(server->store, &tx, err) ||
        !token_request_do(server, tx, call_environment(call), NULL, &request, call->arena, id,
                          &is_cached, err) ||
        !load(call, tx, id, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    if (!token_object_write_whole(&json, NULL, server, &rows, is_cached, call->arena, err) ||
        !store_commit(&tx, err))
        return false;
    response_json(res, is_cached ? 200 : 201);
    return json_end(&json, err);
}

static bool read_tokens(struct call *call, struct tx *tx, const struct page *page,
                        struct str status, struct rows *rows, struct error *err)
{
    struct value environment = V_TEXT(call_environment(call)), before = V_TEXT(page->at),
                 limit = V_INT(page_rows(page));

    return status.ptr ? STORE(tx, &token_list_status, call->arena, rows, err, environment, before,
                              limit, V_STR(status))
                      : STORE(tx, &token_list, call->arena, rows, err, environment, before, limit);
}

bool token_list_get(struct call *call, struct response *res, struct error *err)
{
    struct str status = {0};
    enum token_state state;
    struct page page;
    struct rows rows;
    bool found;
    AUTO_TX tx = NULL;

    if (!call_query(call, "status", &status, &found, err))
        return false;
    if (!found || str_equal(status, STR("all")))
        status = (struct str){0};
    else if (!token_state_parse(status, &state))
        return error_set(err, ERR_INVALID, "status must be all or the status of a token");
    if (!page_begin(call, "tokens", status, false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !read_tokens(call, tx, &page, status, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "tokens");
    for (size_t i = 0; i < n; i++)
        token_object_write(&json, NULL, &rows, i);
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, TOKEN_GET_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool token_one_get(struct call *call, struct response *res, struct error *err)
{
    char id[ID_TEXT];
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!id_parse(call_param(call, 0), id))
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no such token");
    if (!store_begin_read(server_of(call)->store, &tx, err) || !load(call, tx, id, &rows, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    token_object_write(&json, NULL, &rows, 0);
    response_json(res, 200);
    return json_end(&json, err);
}

/* The token that the path names, itself or by the wait for it. */
static bool find(struct call *call, char id[ID_TEXT], struct error *err)
{
    char given[ID_TEXT];
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!id_parse(call_param(call, 0), given))
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no such token");
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &token_find, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(given)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s, and no wait for one",
                         given);
    row_id(&rows, 0, TOKEN_FIND_ID, id);
    return true;
}

struct complete_body {
    struct str data;
};

static const struct json_field complete_fields[] = {
    {"data", JSON_RAW, offsetof(struct complete_body, data), OPTIONAL, .max = WAIT_RAW_MAX},
    {0},
};

bool token_complete_post(struct call *call, struct response *res, struct error *err)
{
    const struct caller *caller = caller_of(call);
    bool is_key = caller->kind == CALLER_KEY;
    struct complete_body body;
    char id[ID_TEXT];
    struct token_answer answer = {
        .token_id = id,
        .by_type = is_key ? "key" : "user",
        .by_id = is_key ? caller->id : caller->user_id,
        .by_name = *caller->name ? caller->name : caller->email,
        .entry = audit_entry_of(call, "token.complete"),
    };

    return call_body(call, complete_fields, &body, sizeof body, err) &&
           token_data(body.data, call->arena, &answer.data, err) && find(call, id, err) &&
           token_answer(call, call_environment(call), &answer, res, err);
}

struct cancel_body {
    struct str reason;
};

static const struct json_field cancel_fields[] = {
    {"reason", JSON_TEXT, offsetof(struct cancel_body, reason), OPTIONAL, .max = REASON_MAX},
    {0},
};

/* Cancelling twice is as good as once. */
static bool cancel(struct call *call, struct tx *tx, const char *id, struct str reason,
                   struct wakes *wakes, struct error *err)
{
    const struct token_end end = {.on = TOKEN_CANCEL, .reason = reason};
    struct token_hold hold;

    if (!token_hold(tx, id, call->arena, &hold, err))
        return false;
    switch (hold.token.state) {
    case TOKEN_CANCELLED: return true;
    case TOKEN_COMPLETED:
        return error_set(err, ERR_TOKEN_CONFLICT, "the token was completed already");
    case TOKEN_EXPIRED: return error_set(err, ERR_TOKEN_EXPIRED, "the token has expired");
    case TOKEN_PENDING:
    case TOKEN_STATE_COUNT: break;
    }
    return token_end(tx, &hold, &end, wakes, err) &&
           audit_call(tx, call, "token.cancel", str_of(id), err);
}

bool token_cancel_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    struct cancel_body body;
    struct rows rows;
    char id[ID_TEXT];
    AUTO_TX tx = NULL;

    if (!call_body(call, cancel_fields, &body, sizeof body, err) || !find(call, id, err) ||
        !store_begin(server->store, &tx, err) || !cancel(call, tx, id, body.reason, &wakes, err) ||
        !load(call, tx, id, &rows, err) || !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    token_object_write(&json, NULL, &rows, 0);
    response_json(res, 200);
    return json_end(&json, err);
}
