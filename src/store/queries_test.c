/* Every statement of the product prepares on both engines, with the parameters and columns that
 * its head names, and with types that both return alike. */
#include "store/queries.h"

#include <libpq-fe.h>
#include <sqlite3.h>

#include "store/store_suite.h"

/* The file of an empty database with the schema, or its URL; false when the test is over. */
static bool make_schema(struct fixture *fixture, enum store_engine engine)
{
    struct store *store = NULL;
    const char *skip = NULL;
    struct error err;
    bool ok = fixture_init(fixture, engine, &skip, &err) &&
              fixture_open(fixture, 0, &store, &err) && store_migrate(store, &err);

    store_close(store);
    if (!ok && skip) {
        test_skipped = skip;
    } else if (!ok) {
        printf("# %s\n", err.text);
        test_failed = 1;
    }
    return ok;
}

TEST(there_are_queries_and_their_names_differ)
{
    CHECK(n_queries > 0);
    for (size_t i = 0; i < n_queries; i++) {
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(all_queries[i]->name, all_queries[j]->name) != 0);
    }
}

static bool prepares_on_sqlite(sqlite3 *db, const struct query *query)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(db, query->sqlite, -1, &statement, NULL) != SQLITE_OK) {
        printf("# %s: %s\n", query->name, sqlite3_errmsg(db));
        return false;
    }

    int params = sqlite3_bind_parameter_count(statement);
    int columns = sqlite3_column_count(statement);

    sqlite3_finalize(statement);
    if (params == query->n_params && columns == query->n_columns)
        return true;
    printf("# %s names %d parameters and %d columns, and has %d and %d\n", query->name,
           query->n_params, query->n_columns, params, columns);
    return false;
}

TEST(every_query_prepares_on_sqlite)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    sqlite3 *db = NULL;
    bool ok = true;

    if (!make_schema(&fixture, ON_SQLITE))
        return;
    CHECK(sqlite3_open(fixture.url + strlen("sqlite:"), &db) == SQLITE_OK);
    for (size_t i = 0; i < n_queries; i++)
        ok &= prepares_on_sqlite(db, all_queries[i]);
    sqlite3_close(db);
    CHECK(ok);
}

/* The types read by postgres_connection.c. */
static bool is_readable(Oid type)
{
    return type == 20 || type == 23 || type == 21 || type == 16 || type == 25 || type == 1043 ||
           type == 19 || type == 17;
}

static bool describes_well(PGconn *db, const struct query *query)
{
    PGresult *result = PQdescribePrepared(db, query->name);
    bool ok = PQnparams(result) == query->n_params && PQnfields(result) == query->n_columns;

    if (!ok)
        printf("# %s names %d parameters and %d columns, and has %d and %d\n", query->name,
               query->n_params, query->n_columns, PQnparams(result), PQnfields(result));
    for (int column = 0; column < PQnfields(result); column++) {
        if (!is_readable(PQftype(result, column))) {
            printf("# %s: %s has a type of its own (%u): CAST it\n", query->name,
                   PQfname(result, column), PQftype(result, column));
            ok = false;
        }
    }
    PQclear(result);
    return ok;
}

static bool prepares_on_postgres(PGconn *db, const struct query *query)
{
    PGresult *result = PQprepare(db, query->name, query->postgres, 0, NULL);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;

    if (!ok)
        printf("# %s: %s", query->name, PQresultErrorMessage(result));
    PQclear(result);
    return ok && describes_well(db, query);
}

TEST(every_query_prepares_on_postgres)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    bool ok = true;

    if (!make_schema(&fixture, ON_POSTGRES))
        return;

    PGconn *db = PQconnectdb(fixture.url);

    for (size_t i = 0; i < n_queries; i++)
        ok &= prepares_on_postgres(db, all_queries[i]);
    PQfinish(db);
    CHECK(ok);
}

TEST_MAIN()
