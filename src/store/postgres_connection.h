/* One PostgreSQL connection with the statements it has prepared. Used by one thread at a time.
 *
 * A connection that is lost says ERR_UNAVAILABLE until it is connected again.
 */
#pragma once

#include <libpq-fe.h>

#include "base/map.h"
#include "store/backend.h"

struct postgres_connection {
    PGconn *db;          /* NULL when not connected */
    struct map prepared; /* by the address of the query */
    struct postgres_connection *next;
};

bool postgres_connection_open(struct postgres_connection *connection, const char *url, int busy_ms,
                              struct error *err) MUST_USE;
void postgres_connection_finish(struct postgres_connection *connection);

bool postgres_connection_run(struct postgres_connection *connection, const struct query *query,
                             const struct value *params, struct arena *arena, struct rows *rows,
                             struct error *err) MUST_USE;
bool postgres_connection_script(struct postgres_connection *connection, const char *sql,
                                struct error *err) MUST_USE;

/* A COMMIT that the server answered with anything else did not commit. */
bool postgres_connection_commit(struct postgres_connection *connection, struct error *err) MUST_USE;

bool postgres_connection_is_lost(const struct postgres_connection *connection);
