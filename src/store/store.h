/* The database: one dialect over SQLite and PostgreSQL, transactions, no ORM.
 *
 * A transaction belongs to one thread. store_commit returns true only when the change is
 * durable. On SQLite there is one writer (others wait their turn) and several readers; on
 * PostgreSQL a pool of connections. A lost connection is an error of that transaction
 * (ERR_UNAVAILABLE) and is replaced for the next one.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/id.h"
#include "store/query.h"

struct store;
struct tx;

enum value_kind { VALUE_NULL, VALUE_INT, VALUE_TEXT, VALUE_BYTES };

struct value {
    enum value_kind kind;
    int64_t number;
    struct str bytes;
};

#define V_INT(n)   ((struct value){VALUE_INT, (int64_t)(n), {0}})
#define V_TEXT(s)  ((struct value){VALUE_TEXT, 0, str_of(s)})
#define V_STR(s)   ((struct value){VALUE_TEXT, 0, s}) /* a struct str */
#define V_BYTES(s) ((struct value){VALUE_BYTES, 0, s})
#define V_NULL     ((struct value){0})
/* Null when the text or str is absent. */
#define V_TEXT_OR_NULL(s) ((s) ? V_TEXT(s) : V_NULL)
#define V_STR_OR_NULL(s)  ((s).ptr ? V_STR(s) : V_NULL)

struct rows {
    const struct value *values; /* n_rows * n_columns, in the arena */
    size_t n_rows, n_columns;
    int64_t n_changed; /* rows an INSERT, UPDATE or DELETE touched */
};

struct store_config {
    const char *url;        /* sqlite:/path, postgres://… */
    int readers, pool_size; /* SQLite readers (4); PostgreSQL connections (16) */
    int busy_ms;            /* longest wait for a lock of another process (5000) */
};

/* Zero in the config stands for the number in brackets above. */
bool store_open(const struct store_config *config, struct store **store,
                struct error *err) MUST_USE;

/* Every transaction has ended before it. Accepts NULL. */
void store_close(struct store *store);
bool store_is_postgres(const struct store *store);

/* Brings the schema up to this binary's; a newer one is refused (ERR_CONFLICT). */
bool store_migrate(struct store *store, struct error *err) MUST_USE;
bool store_schema_version(struct store *store, int *have, int *want, struct error *err) MUST_USE;

/* A thread has at most one writing transaction. It is short and takes no lock that another
 * thread holds while it commits: on SQLite commits that come together are made durable
 * together, so a commit may wait for the transactions that came right after it. */
bool store_begin(struct store *store, struct tx **tx, struct error *err) MUST_USE;

/* Reads only, from one snapshot. Commit and rollback are the same for it. */
bool store_begin_read(struct store *store, struct tx **tx, struct error *err) MUST_USE;

/* *tx is NULL after it, whatever it returns. What a writing transaction has read is certain
 * only when it has been committed, even if it changed nothing. */
bool store_commit(struct tx **tx, struct error *err) MUST_USE;
void store_rollback(struct tx **tx); /* accepts a NULL *tx */
#define AUTO_TX AUTO(store_rollback) struct tx *

/* After a failure the transaction can only be rolled back: to try an INSERT, write
 * ON CONFLICT DO NOTHING and look at n_changed. A broken constraint is ERR_CONFLICT. Without
 * rows the result is dropped and the arena may be NULL. */
bool store_run(struct tx *tx, const struct query *query, const struct value *params,
               size_t n_params, struct arena *arena, struct rows *rows, struct error *err) MUST_USE;

/* Whether the same transaction, begun again, may succeed: a deadlock or a serialization
 * failure of PostgreSQL, or a lost compare-and-set. */
bool store_is_retryable(const struct error *err);

/* For a compare-and-set that changed nothing: a conflict that is retryable. Returns false. */
bool store_lost_race(struct error *err, const char *what);

/* store_run(…) with the parameters written out:
 * STORE(tx, &run_get, arena, &rows, err, V_TEXT(id)) */
#define STORE(tx, query, arena, rows, err, ...)                                                \
    store_run(tx, query, (const struct value[]){__VA_ARGS__},                                  \
              sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value), arena, rows, \
              err)

static inline const struct value *row_value(const struct rows *rows, size_t row, size_t column)
{
    return &rows->values[row * rows->n_columns + column];
}

int64_t row_int(const struct rows *rows, size_t row, size_t column);      /* 0 when null */
struct str row_str(const struct rows *rows, size_t row, size_t column);   /* {0} when null */
const char *row_text(const struct rows *rows, size_t row, size_t column); /* NULL when null */
bool row_is_null(const struct rows *rows, size_t row, size_t column);
void row_id(const struct rows *rows, size_t row, size_t column,
            char id[ID_TEXT]); /* "" when null */

/* PostgreSQL: sends NOTIFY helmr_wake inside the transaction; SQLite: nothing (the caller wakes
 * its own process after the commit). */
bool store_notify(struct tx *tx, struct str topic, struct error *err) MUST_USE;

/* PostgreSQL: a descriptor that becomes readable on notifications, for a loop, and their
 * collection. SQLite: -1. When collecting fails the connection is lost: take the descriptor out
 * of the loop and listen again, which closes it; what was sent meanwhile is not told. */
typedef void store_notification(void *arg, struct str topic);
bool store_listen(struct store *store, int *fd, struct error *err) MUST_USE;
bool store_notifications(struct store *store, store_notification *each, void *arg,
                         struct error *err) MUST_USE;
