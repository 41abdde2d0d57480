#include "store/postgres_connection.h"

#include <errno.h>
#include <inttypes.h>

static void auto_clear(PGresult **result)
{
    PQclear(*result);
}

#define AUTO_RESULT AUTO(auto_clear) PGresult *

/* libpq ends its messages with a newline. */
static int first_line(const char *text)
{
    return (int)strcspn(text, "\n");
}

static bool fail_lost(struct postgres_connection *connection, struct error *err)
{
    const char *text = PQerrorMessage(connection->db);

    return error_set(err, ERR_UNAVAILABLE, "the connection to PostgreSQL was lost (%.*s)",
                     first_line(text), text);
}

/* What the server refused, in our codes, by the longest row that the SQLSTATE starts with. */
static bool fail(struct postgres_connection *connection, const PGresult *result, struct error *err)
{
    static const struct {
        const char *state;
        enum error_code code;
        int sys;
        const char *text;
    } meanings[] = {
        {"40001", ERR_CONFLICT,    ERROR_SYS_RETRYABLE, "another transaction was first"      },
        {"40P01", ERR_CONFLICT,    ERROR_SYS_RETRYABLE, "a deadlock was broken up"           },
        {"23",    ERR_CONFLICT,    0,                   "a constraint was broken"            },
        {"53100", ERR_UNAVAILABLE, ENOSPC,              "the disk is full: free some space"  },
        {"55P03", ERR_UNAVAILABLE, 0,                   "a row is locked by another process" },
        {"57014", ERR_UNAVAILABLE, ETIMEDOUT,           "the statement took too long"        },
        {"0A000", ERR_UNAVAILABLE, 0,                   "the schema changed under the server"},
        {"08",    ERR_UNAVAILABLE, 0,                   "the connection failed"              },
        {"25P03", ERR_UNAVAILABLE, ETIMEDOUT,           "the transaction took too long"      },
        {"53",    ERR_UNAVAILABLE, 0,                   "PostgreSQL is short of resources"   },
        {"57",    ERR_UNAVAILABLE, 0,                   "PostgreSQL is stopping or starting" },
        {"58",    ERR_UNAVAILABLE, 0,                   "PostgreSQL cannot use its files"    },
        {"22",    ERR_INVALID,     0,                   "a value does not fit"               },
        {"",      ERR_INTERNAL,    0,                   "database"                           },
    };
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    if (!state || !text)
        return fail_lost(connection, err);
    for (size_t i = 0; i < COUNT_OF(meanings); i++) {
        if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) == 0) {
            error_set(err, meanings[i].code, "%s (%.*s)", meanings[i].text, first_line(text), text);
            err->sys = meanings[i].sys;
            return false;
        }
    }
    return false;
}

static bool is_success(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

bool postgres_connection_script(struct postgres_connection *connection, const char *sql,
                                struct error *err)
{
    AUTO_RESULT result = PQexec(connection->db, sql);

    return is_success(result) || fail(connection, result, err);
}

bool postgres_connection_commit(struct postgres_connection *connection, struct error *err)
{
    AUTO_RESULT result = PQexec(connection->db, "COMMIT");

    if (!is_success(result)) {
        fail(connection, result, err);
        return error_wrap(err, "commit, which may have happened or not");
    }
    if (strcmp(PQcmdStatus(result), "COMMIT") != 0)
        return error_set(err, ERR_INTERNAL, "PostgreSQL rolled back instead of committing");
    return true;
}

bool postgres_connection_is_lost(const struct postgres_connection *connection)
{
    return PQstatus(connection->db) != CONNECTION_OK;
}

static void ignore_notice(void *arg UNUSED, const PGresult *result UNUSED)
{
}

bool postgres_connection_open(struct postgres_connection *connection, const char *url, int busy_ms,
                              struct error *err)
{
    /* What comes before dbname is a default that the URL may override. */
    static const char *const keywords[] = {
        "connect_timeout",  "keepalives_idle",  "keepalives_interval",
        "keepalives_count", "tcp_user_timeout", "fallback_application_name",
        "client_encoding",  "dbname",           NULL};
    const char *const values[COUNT_OF(keywords)] = {"5",     "10",    "5",    "3",
                                                    "20000", "helmr", "UTF8", url};

    connection->db = PQconnectdbParams(keywords, values, 1);
    if (!connection->db)
        abort();
    PQsetNoticeReceiver(connection->db, ignore_notice, NULL);
    if (PQstatus(connection->db) != CONNECTION_OK) {
        const char *text = PQerrorMessage(connection->db);

        error_set(err, ERR_UNAVAILABLE, "cannot connect to PostgreSQL (%.*s)", first_line(text),
                  text);
        postgres_connection_finish(connection);
        return false;
    }

    char settings[256];

    snprintf(settings, sizeof settings,
             "SET statement_timeout = 30000; SET lock_timeout = %d; "
             "SET idle_in_transaction_session_timeout = 60000; "
             "SET synchronous_commit = on",
             busy_ms);
    if (!postgres_connection_script(connection, settings, err)) {
        postgres_connection_finish(connection);
        return false;
    }
    return true;
}

void postgres_connection_finish(struct postgres_connection *connection)
{
    PQfinish(connection->db);
    connection->db = NULL;
    map_finish(&connection->prepared);
}

static bool prepare(struct postgres_connection *connection, const struct query *query,
                    struct error *err)
{
    struct str key = {(const char *)&query, sizeof(const struct query *)};

    if (map_find(&connection->prepared, key))
        return true;

    AUTO_RESULT result = PQprepare(connection->db, query->name, query->postgres, 0, NULL);

    if (!is_success(result))
        return fail(connection, result, err);
    map_put(&connection->prepared, key, connection);
    return true;
}

/* Parameters as libpq wants them. Numbers go as text, because the server may have given `$1`
 * any integer type; bytes and text go as they are. */
struct params {
    const char *values[QUERY_PARAMS_MAX];
    int lengths[QUERY_PARAMS_MAX], formats[QUERY_PARAMS_MAX];
    char numbers[QUERY_PARAMS_MAX][24];
};

enum { FORMAT_TEXT, FORMAT_BINARY };

static bool fill_params(struct params *out, const struct value *params, int n, struct error *err)
{
    for (int i = 0; i < n; i++) {
        const struct value *value = &params[i];

        if (value->bytes.len > INT32_MAX)
            return error_set(err, ERR_TOO_LARGE, "a value is too large for the database");
        out->formats[i] = FORMAT_TEXT;
        switch (value->kind) {
        case VALUE_NULL: out->values[i] = NULL; break;
        case VALUE_INT:
            snprintf(out->numbers[i], sizeof out->numbers[i], "%" PRId64, value->number);
            out->values[i] = out->numbers[i];
            break;
        case VALUE_TEXT:
        case VALUE_BYTES:
            out->values[i] = value->bytes.ptr ? value->bytes.ptr : "";
            out->lengths[i] = (int)value->bytes.len;
            out->formats[i] = FORMAT_BINARY;
            break;
        }
    }
    return true;
}

/* The types our columns and expressions may have, by their fixed numbers in pg_type. */
static const struct {
    Oid type;
    enum value_kind kind;
    int size; /* of a number */
} column_types[] = {
    {20,   VALUE_INT,   8}, /* bigint */
    {23,   VALUE_INT,   4}, /* integer */
    {21,   VALUE_INT,   2}, /* smallint */
    {16,   VALUE_INT,   1}, /* boolean */
    {25,   VALUE_TEXT,  0}, /* text */
    {1043, VALUE_TEXT,  0}, /* varchar */
    {19,   VALUE_TEXT,  0}, /* name */
    {17,   VALUE_BYTES, 0}, /* bytea */
};

static int64_t read_number(const char *bytes, int size)
{
    uint64_t number = 0;

    for (int i = 0; i < size; i++)
        number = number << 8 | (uint8_t)bytes[i];

    /* Carries the sign of a short number up. */
    int unused_bits = 64 - size * 8;
    return (int64_t)(number << unused_bits) >> unused_bits;
}

static bool read_value(const PGresult *result, int row, int column, struct arena *arena,
                       struct value *value, struct error *err)
{
    if (PQgetisnull(result, row, column)) {
        *value = V_NULL;
        return true;
    }

    Oid type = PQftype(result, column);
    const char *bytes = PQgetvalue(result, row, column);
    int len = PQgetlength(result, row, column);

    for (size_t i = 0; i < COUNT_OF(column_types); i++) {
        if (column_types[i].type != type)
            continue;
        value->kind = column_types[i].kind;
        if (value->kind == VALUE_INT)
            value->number = read_number(bytes, column_types[i].size);
        else
            value->bytes = arena_str(arena, (struct str){bytes, (size_t)len});
        return true;
    }
    return error_set(err, ERR_INTERNAL, "column %s has a type of its own (%u): CAST it",
                     PQfname(result, column), type);
}

static bool read_rows(const PGresult *result, struct arena *arena, struct rows *rows,
                      struct error *err)
{
    int n_rows = PQntuples(result), n_columns = PQnfields(result);
    size_t n_values = (size_t)n_rows * (size_t)n_columns;
    struct value *values = arena_array(arena, n_values, sizeof *values);
    bool is_select = strncmp(PQcmdStatus((PGresult *)result), "SELECT", 6) == 0;

    for (int row = 0; row < n_rows; row++) {
        for (int column = 0; column < n_columns; column++) {
            struct value *value = &values[(size_t)row * (size_t)n_columns + (size_t)column];

            if (!read_value(result, row, column, arena, value, err))
                return false;
        }
    }
    *rows = (struct rows){
        .values = values,
        .n_rows = (size_t)n_rows,
        .n_columns = (size_t)n_columns,
        .n_changed = is_select ? 0 : strtoll(PQcmdTuples((PGresult *)result), NULL, 10),
    };
    return true;
}

bool postgres_connection_run(struct postgres_connection *connection, const struct query *query,
                             const struct value *params, struct arena *arena, struct rows *rows,
                             struct error *err)
{
    struct params filled;

    if (!prepare(connection, query, err) || !fill_params(&filled, params, query->n_params, err))
        return error_wrap(err, "%s", query->name);

    AUTO_RESULT result = PQexecPrepared(connection->db, query->name, query->n_params, filled.values,
                                        filled.lengths, filled.formats, FORMAT_BINARY);

    if (!is_success(result))
        return fail(connection, result, err) || error_wrap(err, "%s", query->name);
    return !rows || read_rows(result, arena, rows, err) || error_wrap(err, "%s", query->name);
}
