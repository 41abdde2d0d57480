/* Stored secrets: named values of an environment, sealed at rest. A value goes in by PUT and out
 * only to a lease: a live build that asks for it by name, or a run that starts and whose task
 * declares it. No answer of the public API holds one. */
#include "base/id.h"
#include "base/json.h"
#include "base/secret.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/json_row.h"
#include "server/lease.h"
#include "server/page.h"
#include "server/secret_seal.h"
#include "server/task_secrets.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum { VALUE_MAX = WIRE_SECRET_VALUE_MAX };

struct value_body {
    struct str value;
};

static const struct json_field value_fields[] = {
    {"value", JSON_TEXT, offsetof(struct value_body, value), REQUIRED, .max = VALUE_MAX},
    {0},
};

static void wipe(struct str text)
{
    if (text.len > 0)
        bytes_wipe((void *)(uintptr_t)text.ptr, text.len);
}

static void write_secret(struct call *call, struct json_writer *json, struct str name,
                         int64_t created_ms, int64_t updated_ms)
{
    const struct scope *scope = &caller_of(call)->scope;

    json_open(json, NULL);
    json_string(json, "project_id", scope->project_id);
    json_string(json, "environment_id", scope->environment_id);
    json_text(json, "name", name);
    json_time(json, "created_at", created_ms);
    json_time(json, "updated_at", updated_ms);
    json_close(json);
}

bool secret_list_get(struct call *call, struct response *res, struct error *err)
{
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!page_begin(call, "secrets", (struct str){0}, false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &secret_list, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(page.at), V_INT(page_rows(&page))))
        return false;
    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "secrets");
    for (size_t i = 0; i < n; i++)
        write_secret(call, &json, row_str(&rows, i, SECRET_LIST_NAME),
                     row_int(&rows, i, SECRET_LIST_CREATED_MS),
                     row_int(&rows, i, SECRET_LIST_UPDATED_MS));
    json_close_list(&json);
    if (n < rows.n_rows)
        page_next(call, &page, row_str(&rows, n - 1, SECRET_LIST_ID), &json);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool not_found(struct str name, struct error *err)
{
    return error_set(err, ERR_SECRET_NOT_FOUND, "there is no secret %.*s here",
                     (int)(name.len > 128 ? 128 : name.len), name.ptr);
}

bool secret_one_get(struct call *call, struct response *res, struct error *err)
{
    struct str name = call_param(call, 0);
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!name_is_valid(NAME_SECRET, name))
        return not_found(name, err);
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &secret_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_STR(name)))
        return false;
    if (rows.n_rows == 0)
        return not_found(name, err);
    struct json_writer json = json_begin(response_body(res));
    write_secret(call, &json, name, row_int(&rows, 0, SECRET_GET_CREATED_MS),
                 row_int(&rows, 0, SECRET_GET_UPDATED_MS));
    response_json(res, 200);
    return json_end(&json, err);
}

static bool seal(struct call *call, struct str name, struct str value, struct sealed_secret *sealed,
                 struct error *err)
{
    bool fine = value.len > 0 || error_set(err, ERR_INVALID, "/value must not be empty");

    fine = fine &&
           secret_seal(&server_of(call)->keys, call_environment(call), name, value, sealed, err);
    wipe(value);
    return fine;
}

bool secret_put(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct str name = call_param(call, 0);
    AUTO(sealed_secret_finish) struct sealed_secret sealed = {0};
    struct value_body body;
    char id[ID_TEXT];
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!name_check(NAME_SECRET, "the name", name, err) ||
        !call_body(call, value_fields, &body, sizeof body, err) ||
        !seal(call, name, body.value, &sealed, err))
        return false;
    id_make(id);
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &secret_put_row, call->arena, &rows, err, V_TEXT(id),
               V_TEXT(call_environment(call)), V_STR(name), V_BYTES(buf_str(&sealed.value)),
               V_BYTES(buf_str(&sealed.wrapped)), V_TEXT(server->keys.ids[KEY_SECRET]),
               V_INT(time_now_ms())) ||
        !audit_call(tx, call, "secret.set", name, err) || !store_commit(&tx, err))
        return false;
    struct json_writer json = json_begin(response_body(res));
    write_secret(call, &json, name, row_int(&rows, 0, SECRET_PUT_ROW_CREATED_MS),
                 row_int(&rows, 0, SECRET_PUT_ROW_UPDATED_MS));
    response_json(res, row_int(&rows, 0, SECRET_PUT_ROW_VERSION) == 1 ? 201 : 200);
    return json_end(&json, err);
}

bool secret_delete(struct call *call, struct response *res, struct error *err)
{
    struct str name = call_param(call, 0);
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!name_is_valid(NAME_SECRET, name))
        return not_found(name, err);
    if (!store_begin(server_of(call)->store, &tx, err) ||
        !STORE(tx, &secret_remove, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_STR(name)))
        return false;
    if (rows.n_changed != 1)
        return not_found(name, err);
    if (!audit_call(tx, call, "secret.delete", name, err) || !store_commit(&tx, err))
        return false;
    response_empty(res, 204);
    return true;
}

/* The stored value in the arena; ERR_SECRET_NOT_FOUND when there is none. */
static bool open_secret(struct call *call, struct tx *tx, const char *environment, struct str name,
                        struct wire_secret *secret, struct error *err)
{
    AUTO(buf_finish) struct buf plain = {.max = VALUE_MAX};
    struct rows rows;

    if (!name_check(NAME_SECRET, "/names: a name", name, err) ||
        !STORE(tx, &secret_open, call->arena, &rows, err, V_TEXT(environment), V_STR(name)))
        return false;
    if (rows.n_rows == 0)
        return not_found(name, err);
    const struct stored_secret stored = {row_str(&rows, 0, SECRET_OPEN_SEALED),
                                         row_str(&rows, 0, SECRET_OPEN_WRAPPED),
                                         row_str(&rows, 0, SECRET_OPEN_KEY_ID)};
    if (!secret_unseal(&server_of(call)->keys, environment, name, &stored, &plain, err))
        return error_wrap(err, "secret %.*s", (int)name.len, name.ptr);
    secret->value = arena_str(call->arena, buf_str(&plain));
    secret->version = row_int(&rows, 0, SECRET_OPEN_VERSION);
    wipe(buf_str(&plain));
    return true;
}

/* What is missing is named all at once: nobody wants to hear of it one by one. */
static bool open_all(struct call *call, struct tx *tx, const char *environment,
                     const struct json_list *wanted, const struct json_list *opened,
                     struct error *err)
{
    const struct str *names = wanted->items;
    struct wire_secret *secrets = opened->items;
    const char *missing = "";

    for (size_t i = 0; i < wanted->n; i++) {
        if (open_secret(call, tx, environment, names[i], &secrets[i], err))
            continue;
        if (err->code != ERR_SECRET_NOT_FOUND)
            return false;
        missing = arena_printf(call->arena, "%s%s%.*s", missing, *missing ? ", " : "",
                               (int)names[i].len, names[i].ptr);
    }
    return !*missing || error_set(err, ERR_SECRET_MISSING, "not stored here: %.200s", missing);
}

static bool open_for_build(struct call *call, struct tx *tx, const struct lease_row *lease,
                           const struct json_list *wanted, struct json_list *opened,
                           struct error *err)
{
    struct wire_secret *secrets = arena_array(call->arena, wanted->n + 1, sizeof *secrets);

    for (size_t i = 0; i < wanted->n; i++)
        secrets[i].name = ((const struct str *)wanted->items)[i];
    *opened = (struct json_list){secrets, wanted->n};
    return open_all(call, tx, lease->environment_id, wanted, opened, err);
}

/* All that its task declares and nothing else, while the sandbox is made ready for it. */
static bool open_for_run(struct call *call, struct tx *tx, const struct lease_row *lease,
                         struct json_list *opened, struct error *err)
{
    struct json_list stored;

    if (lease->state != LEASE_STARTING && lease->state != LEASE_CHECKPOINTING)
        return error_set(err, ERR_CONFLICT, "a run is given its secrets while it starts");
    return task_secrets_of_run(tx, lease->subject_id, call->arena, opened, &stored, err) &&
           open_all(call, tx, lease->environment_id, &stored, opened, err);
}

/* What was handed out, and for what; the values are not in it. */
static bool audit_use(struct call *call, struct tx *tx, const struct lease_row *lease,
                      const struct json_list *list, struct error *err)
{
    struct audit_entry entry = audit_entry_of(call, "secret.use");
    const struct wire_secret *secrets = list->items;
    const char *names = "";

    for (size_t i = 0; i < list->n; i++)
        names = arena_printf(call->arena, "%s %.*s", names, (int)secrets[i].name.len,
                             secrets[i].name.ptr);
    entry.environment_id = lease->environment_id;
    entry.subject = str_of(arena_printf(call->arena, "%s:%s", lease->subject_id, names));
    return list->n == 0 || audit_write(tx, server_of(call), &entry, err);
}

bool lease_secrets_open(struct call *call, struct tx *tx, const struct lease_row *lease,
                        struct json_list *secrets, struct error *err)
{
    return open_for_run(call, tx, lease, secrets, err) && audit_use(call, tx, lease, secrets, err);
}

void lease_secrets_wipe(const struct json_list *secrets)
{
    const struct wire_secret *items = secrets->items;

    for (size_t i = 0; i < secrets->n; i++)
        wipe(items[i].value);
}

bool lease_secrets_post(struct call *call, struct response *res, struct error *err)
{
    struct wire_secrets_wanted wanted;
    struct wire_secrets answer = {0};
    struct lease_row lease = {0};
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_secrets_wanted_fields, &wanted, sizeof wanted, err) ||
        !store_begin(server_of(call)->store, &tx, err) ||
        !lease_open(tx, call, &wanted.fence, false, &lease, err))
        return false;
    bool fine = (lease.subject == SUBJECT_RUN
                     ? lease_secrets_open(call, tx, &lease, &answer.secrets, err)
                     : open_for_build(call, tx, &lease, &wanted.names, &answer.secrets, err) &&
                           audit_use(call, tx, &lease, &answer.secrets, err)) &&
                store_commit(&tx, err) && worker_answer(res, wire_secrets_fields, &answer, err);
    lease_secrets_wipe(&answer.secrets);
    return fine;
}
