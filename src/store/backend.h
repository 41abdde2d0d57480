/* What an engine is to the rest of the store: a table of functions, and the two structs that
 * its own store and transaction begin with. Private to this folder.
 */
#pragma once

#include "store/store.h"

/* The `sys` of an ERR_CONFLICT that may go away when the transaction is begun again. */
enum { ERROR_SYS_RETRYABLE = 1 };

enum tx_kind { TX_READ, TX_WRITE };

struct store {
    const struct backend *backend;
};

struct tx {
    struct store *store;
    enum tx_kind kind;
    bool has_failed; /* only a rollback is possible then, on both engines */
    struct error why;
};

struct backend {
    bool is_postgres;

    /* A script that makes this transaction the only one that migrates. */
    const char *migration_lock;

    void (*close)(struct store *store);
    bool (*begin)(struct store *store, enum tx_kind kind, struct tx **tx, struct error *err);

    /* Both end the transaction and free it, whatever they return. */
    bool (*commit)(struct tx *tx, struct error *err);
    void (*rollback)(struct tx *tx);

    /* rows may be NULL: then the result is dropped. */
    bool (*run)(struct tx *tx, const struct query *query, const struct value *params,
                struct arena *arena, struct rows *rows, struct error *err);

    /* Several statements without parameters or results. */
    bool (*script)(struct tx *tx, const char *sql, struct error *err);

    bool (*notify)(struct tx *tx, struct str topic, struct error *err);
    bool (*listen)(struct store *store, int *fd, struct error *err);
    bool (*notifications)(struct store *store, store_notification *each, void *arg,
                          struct error *err);
};

bool sqlite_store_open(const struct store_config *config, const char *path, struct store **store,
                       struct error *err) MUST_USE;
bool postgres_store_open(const struct store_config *config, struct store **store,
                         struct error *err) MUST_USE;

/* Runs a script in the transaction, marking it failed as store_run does. */
bool store_script(struct tx *tx, const char *sql, struct error *err) MUST_USE;

/* Values of rows that are not counted before they are read, collected in an arena. */
struct row_list {
    struct arena *arena;
    struct value *values;
    size_t n_columns, n_rows, max_rows;
};

/* Room for one more row. */
struct value *row_list_add(struct row_list *list);
