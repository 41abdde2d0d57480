#include "server/token_answer.h"

#include "base/json.h"
#include "server/caller.h"
#include "server/token_object.h"

enum { BY_MAX = 4096 };

bool token_data(struct str raw, struct arena *arena, struct str *data, struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = WAIT_DATA_MAX};

    *data = STR("null");
    if (!raw.ptr)
        return true;
    if (!json_canonical(raw, WAIT_DATA_MAX, &out, err))
        return error_wrap(err, "data");
    *data = arena_str(arena, buf_str(&out));
    return true;
}

static bool write_by(const struct token_answer *answer, struct buf *out, struct error *err)
{
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "type", answer->by_type);
    json_string(&json, "id", answer->by_id);
    if (answer->by_name && *answer->by_name)
        json_string(&json, "name", answer->by_name);
    json_close(&json);
    return json_end(&json, err);
}

static bool complete(struct call *call, struct tx *tx, const char *environment_id,
                     const struct token_answer *answer, bool *already, struct wakes *wakes,
                     struct error *err)
{
    struct server *server = server_of(call);
    AUTO(buf_finish) struct buf by = {.max = BY_MAX};
    struct audit_entry entry = answer->entry;
    struct token_hold hold;

    if (!write_by(answer, &by, err) || !token_hold(tx, answer->token_id, call->arena, &hold, err))
        return false;
    if (strcmp(hold.token.environment_id, environment_id) != 0)
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", answer->token_id);
    if (!token_complete(tx, &hold, answer->data, buf_str(&by), already, wakes, err))
        return false;
    if (answer->also && !answer->also(tx, answer->arg, *already, err))
        return false;
    entry.environment_id = environment_id;
    entry.subject = str_of(answer->token_id);
    return *already || audit_write(tx, server, &entry, err);
}

bool token_answer(struct call *call, const char *environment_id, const struct token_answer *answer,
                  struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wakes wakes = {0};
    struct rows rows;
    bool already;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) ||
        !complete(call, tx, environment_id, answer, &already, &wakes, err) ||
        !STORE(tx, &token_get, call->arena, &rows, err, V_TEXT(environment_id),
               V_TEXT(answer->token_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", answer->token_id);
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "status", already ? "already_completed" : "completed");
    token_object_write(&json, "token", &rows, 0);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err) && hub_commit(&server->hub, &tx, &wakes, err);
}
