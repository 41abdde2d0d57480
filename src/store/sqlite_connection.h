/* One SQLite connection with the statements it has prepared. Used by one thread at a time. */
#pragma once

#include <sqlite3.h>

#include "base/map.h"
#include "store/backend.h"

struct sqlite_connection {
    sqlite3 *db;
    struct map statements; /* by the address of the query */
    struct sqlite_connection *next;
};

bool sqlite_connection_open(struct sqlite_connection *connection, const char *path,
                            enum tx_kind kind, int busy_ms, struct error *err) MUST_USE;
void sqlite_connection_finish(struct sqlite_connection *connection);

bool sqlite_connection_run(struct sqlite_connection *connection, const struct query *query,
                           const struct value *params, struct arena *arena, struct rows *rows,
                           struct error *err) MUST_USE;
bool sqlite_connection_script(struct sqlite_connection *connection, const char *sql,
                              struct error *err) MUST_USE;

/* Whether a transaction is open: SQLite ends it by itself after some failures. */
bool sqlite_connection_is_open(const struct sqlite_connection *connection);
