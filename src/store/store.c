#include "store/store.h"

#include <stdio.h>

#include "base/encode.h"
#include "store/backend.h"
#include "store/migrate.h"

enum { READERS_DEFAULT = 4, POOL_DEFAULT = 16, BUSY_MS_DEFAULT = 5000, CONNECTIONS_MAX = 1000 };

/* PostgreSQL's own limit is 8000. */
enum { TOPIC_MAX = 1024 };

static bool number_or_default(const char *what, int default_value, int max, int *number,
                              struct error *err)
{
    if (*number == 0)
        *number = default_value;
    if (*number < 1 || *number > max)
        return error_set(err, ERR_INVALID, "%s must be from 1 to %d", what, max);
    return true;
}

bool store_open(const struct store_config *config, struct store **store, struct error *err)
{
    struct store_config full = *config;
    static const char sqlite[] = "sqlite:";

    if (!number_or_default("readers", READERS_DEFAULT, CONNECTIONS_MAX, &full.readers, err) ||
        !number_or_default("pool size", POOL_DEFAULT, CONNECTIONS_MAX, &full.pool_size, err) ||
        !number_or_default("busy time", BUSY_MS_DEFAULT, INT32_MAX, &full.busy_ms, err))
        return false;
    if (strncmp(full.url, sqlite, strlen(sqlite)) == 0)
        return sqlite_store_open(&full, full.url + strlen(sqlite), store, err);
    if (strncmp(full.url, "postgres://", 11) == 0 || strncmp(full.url, "postgresql://", 13) == 0)
        return postgres_store_open(&full, store, err);
    return error_set(err, ERR_INVALID, "a database URL starts with sqlite: or postgres://");
}

void store_close(struct store *store)
{
    if (store)
        store->backend->close(store);
}

bool store_is_postgres(const struct store *store)
{
    return store->backend->is_postgres;
}

bool store_migrate(struct store *store, struct error *err)
{
    return migrate_to(store, all_migrations, n_migrations, err);
}

bool store_schema_version(struct store *store, int *have, int *want, struct error *err)
{
    if (!migrate_version(store, have, err))
        return false;
    *want = (int)n_migrations;
    return true;
}

bool store_begin(struct store *store, struct tx **tx, struct error *err)
{
    return store->backend->begin(store, TX_WRITE, tx, err);
}

bool store_begin_read(struct store *store, struct tx **tx, struct error *err)
{
    return store->backend->begin(store, TX_READ, tx, err);
}

bool store_commit(struct tx **tx, struct error *err)
{
    struct tx *ending = *tx;

    *tx = NULL;
    if (ending->has_failed) {
        *err = ending->why;
        ending->store->backend->rollback(ending);
        return false;
    }
    return ending->store->backend->commit(ending, err);
}

void store_rollback(struct tx **tx)
{
    struct tx *ending = *tx;

    *tx = NULL;
    if (ending)
        ending->store->backend->rollback(ending);
}

static bool may_continue(struct tx *tx, struct error *err)
{
    if (tx->has_failed)
        *err = tx->why;
    return !tx->has_failed;
}

/* Marks the transaction when a step of it failed. */
static bool keep_outcome(struct tx *tx, bool ok, const struct error *err)
{
    if (!ok) {
        tx->has_failed = true;
        tx->why = *err;
    }
    return ok;
}

static bool check_params(const struct query *query, const struct value *params, size_t n_params,
                         struct error *err)
{
    if (n_params != (size_t)query->n_params || n_params > QUERY_PARAMS_MAX)
        return error_set(err, ERR_INTERNAL, "%s takes %d parameters and was given %zu", query->name,
                         query->n_params, n_params);
    for (size_t i = 0; i < n_params; i++) {
        struct str text = params[i].bytes;

        if (params[i].kind != VALUE_TEXT || text.len == 0)
            continue;
        if (memchr(text.ptr, '\0', text.len) || !utf8_is_valid(text))
            return error_set(err, ERR_INVALID, "text must be UTF-8 without NUL");
    }
    return true;
}

bool store_run(struct tx *tx, const struct query *query, const struct value *params,
               size_t n_params, struct arena *arena, struct rows *rows, struct error *err)
{
    if (!may_continue(tx, err))
        return false;

    bool ok = check_params(query, params, n_params, err) &&
              tx->store->backend->run(tx, query, params, arena, rows, err);
    return keep_outcome(tx, ok, err);
}

bool store_script(struct tx *tx, const char *sql, struct error *err)
{
    return may_continue(tx, err) && keep_outcome(tx, tx->store->backend->script(tx, sql, err), err);
}

bool store_is_retryable(const struct error *err)
{
    return err->code == ERR_CONFLICT && err->sys == ERROR_SYS_RETRYABLE;
}

bool store_lost_race(struct error *err, const char *what)
{
    error_set(err, ERR_CONFLICT, "%s", what);
    err->sys = ERROR_SYS_RETRYABLE;
    return false;
}

bool store_notify(struct tx *tx, struct str topic, struct error *err)
{
    if (!may_continue(tx, err))
        return false;
    if (topic.len == 0 || topic.len > TOPIC_MAX || memchr(topic.ptr, '\0', topic.len))
        return error_set(err, ERR_INVALID, "a topic is 1 to %d bytes of text", TOPIC_MAX);
    return keep_outcome(tx, tx->store->backend->notify(tx, topic, err), err);
}

bool store_listen(struct store *store, int *fd, struct error *err)
{
    return store->backend->listen(store, fd, err);
}

bool store_notifications(struct store *store, store_notification *each, void *arg,
                         struct error *err)
{
    return store->backend->notifications(store, each, arg, err);
}

int64_t row_int(const struct rows *rows, size_t row, size_t column)
{
    const struct value *value = row_value(rows, row, column);

    return value->kind == VALUE_INT ? value->number : 0;
}

struct str row_str(const struct rows *rows, size_t row, size_t column)
{
    return row_value(rows, row, column)->bytes;
}

const char *row_text(const struct rows *rows, size_t row, size_t column)
{
    return row_value(rows, row, column)->bytes.ptr;
}

void row_id(const struct rows *rows, size_t row, size_t column, char id[ID_TEXT])
{
    struct str text = row_str(rows, row, column);

    snprintf(id, ID_TEXT, "%.*s", (int)text.len, text.ptr ? text.ptr : "");
}

bool row_is_null(const struct rows *rows, size_t row, size_t column)
{
    return row_value(rows, row, column)->kind == VALUE_NULL;
}

struct value *row_list_add(struct row_list *list)
{
    if (list->n_rows == list->max_rows) {
        size_t more = list->max_rows ? list->max_rows * 2 : 4;
        struct value *values =
            arena_array(list->arena, more * list->n_columns, sizeof(struct value));

        if (list->n_rows)
            memcpy(values, list->values, list->n_rows * list->n_columns * sizeof *values);
        list->values = values;
        list->max_rows = more;
    }
    return &list->values[list->n_rows++ * list->n_columns];
}
