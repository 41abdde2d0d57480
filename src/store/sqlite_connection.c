#include "store/sqlite_connection.h"

#include <errno.h>

static bool fail_with(struct sqlite_connection *connection, enum error_code code, const char *text,
                      struct error *err)
{
    int sys = sqlite3_system_errno(connection->db);

    error_set(err, code, "%s (%s)", text, sqlite3_errmsg(connection->db));
    err->sys = code == ERR_CONFLICT ? 0 : sys;
    return false;
}

/* What went wrong last, in our codes. */
static bool fail(struct sqlite_connection *connection, struct error *err)
{
    static const struct {
        int result;
        enum error_code code;
        const char *text;
    } meanings[] = {
        {SQLITE_CONSTRAINT, ERR_CONFLICT,    "a constraint was broken"                     },
        {SQLITE_BUSY,       ERR_UNAVAILABLE, "the database is locked by another process"   },
        {SQLITE_LOCKED,     ERR_UNAVAILABLE, "the database is locked by another connection"},
        {SQLITE_FULL,       ERR_UNAVAILABLE, "the disk is full: free some space"           },
        {SQLITE_IOERR,      ERR_UNAVAILABLE, "the database file cannot be read or written" },
        {SQLITE_CANTOPEN,   ERR_UNAVAILABLE, "the database file cannot be opened"          },
        {SQLITE_PROTOCOL,   ERR_UNAVAILABLE, "the database file cannot be locked"          },
        {SQLITE_NOMEM,      ERR_UNAVAILABLE, "the database is out of memory"               },
        {SQLITE_READONLY,   ERR_INTERNAL,    "the database cannot be written here"         },
        {SQLITE_CORRUPT,    ERR_INTERNAL,    "the database file is damaged"                },
        {SQLITE_NOTADB,     ERR_INTERNAL,    "the file is not a database"                  },
        {SQLITE_TOOBIG,     ERR_TOO_LARGE,   "a value is too large for the database"       },
    };
    int result = sqlite3_errcode(connection->db) & 0xff;

    /* The shared-memory file cannot grow on a full disk either, and calls that an I/O error. */
    if (sqlite3_system_errno(connection->db) == ENOSPC &&
        (result == SQLITE_IOERR || result == SQLITE_CANTOPEN))
        result = SQLITE_FULL;
    for (size_t i = 0; i < COUNT_OF(meanings); i++) {
        if (meanings[i].result == result)
            return fail_with(connection, meanings[i].code, meanings[i].text, err);
    }
    return error_set(err, ERR_INTERNAL, "database: %s", sqlite3_errmsg(connection->db));
}

bool sqlite_connection_script(struct sqlite_connection *connection, const char *sql,
                              struct error *err)
{
    if (sqlite3_exec(connection->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return fail(connection, err);
    return true;
}

bool sqlite_connection_is_open(const struct sqlite_connection *connection)
{
    return !sqlite3_get_autocommit(connection->db);
}

static bool set_up(struct sqlite_connection *connection, enum tx_kind kind, int busy_ms,
                   struct error *err)
{
    static const char *const pragmas[] = {
        [TX_WRITE] = "PRAGMA journal_mode = WAL;"
                     "PRAGMA synchronous = FULL;"
                     "PRAGMA foreign_keys = ON;"
                     "PRAGMA journal_size_limit = 67108864;"
                     /* 16 MiB: output is written in megabytes, and each copy back costs a sync. */
                     "PRAGMA wal_autocheckpoint = 4096;"
                     "PRAGMA temp_store = MEMORY;"
                     "PRAGMA trusted_schema = OFF;",
        [TX_READ] = "PRAGMA query_only = ON;"
                    "PRAGMA temp_store = MEMORY;"
                    "PRAGMA trusted_schema = OFF;",
    };

    sqlite3_extended_result_codes(connection->db, 1);

    /* "x" is then never a string, as on PostgreSQL. */
    sqlite3_db_config(connection->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_db_config(connection->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
    if (sqlite3_busy_timeout(connection->db, busy_ms) != SQLITE_OK)
        return fail(connection, err);
    return sqlite_connection_script(connection, pragmas[kind], err);
}

bool sqlite_connection_open(struct sqlite_connection *connection, const char *path,
                            enum tx_kind kind, int busy_ms, struct error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;

    if (sqlite3_open_v2(path, &connection->db, flags, NULL) != SQLITE_OK) {
        if (!connection->db)
            abort();
        return fail(connection, err);
    }
    return set_up(connection, kind, busy_ms, err);
}

void sqlite_connection_finish(struct sqlite_connection *connection)
{
    size_t at = 0;
    struct str key;
    void *statement;

    while (map_next(&connection->statements, &at, &key, &statement))
        sqlite3_finalize(statement);
    map_finish(&connection->statements);
    sqlite3_close(connection->db);
    connection->db = NULL;
}

static bool prepare(struct sqlite_connection *connection, const struct query *query,
                    sqlite3_stmt **statement, struct error *err)
{
    struct str key = {(const char *)&query, sizeof(const struct query *)};

    *statement = map_find(&connection->statements, key);
    if (*statement)
        return true;
    if (sqlite3_prepare_v3(connection->db, query->sqlite, -1, SQLITE_PREPARE_PERSISTENT, statement,
                           NULL) != SQLITE_OK)
        return fail(connection, err);
    map_put(&connection->statements, key, *statement);
    return true;
}

/* The bytes are borrowed: they outlive the statement's use, which ends in a reset. */
static int bind_value(sqlite3_stmt *statement, int index, const struct value *value)
{
    /* A NULL pointer would bind NULL, not the empty text. */
    const char *bytes = value->bytes.ptr ? value->bytes.ptr : "";

    switch (value->kind) {
    case VALUE_NULL: return sqlite3_bind_null(statement, index);
    case VALUE_INT: return sqlite3_bind_int64(statement, index, value->number);
    case VALUE_TEXT:
        return sqlite3_bind_text64(statement, index, bytes, value->bytes.len, SQLITE_STATIC,
                                   SQLITE_UTF8);
    case VALUE_BYTES:
        return sqlite3_bind_blob64(statement, index, bytes, value->bytes.len, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

/* SQLite numbers `$2` by where it first stands, so parameters are bound by name. */
static bool bind_all(struct sqlite_connection *connection, sqlite3_stmt *statement,
                     const struct query *query, const struct value *params, struct error *err)
{
    int count = sqlite3_bind_parameter_count(statement);

    for (int index = 1; index <= count; index++) {
        const char *name = sqlite3_bind_parameter_name(statement, index);
        long number = name && name[0] == '$' ? strtol(name + 1, NULL, 10) : 0;

        if (number < 1 || number > query->n_params)
            return error_set(err, ERR_INTERNAL, "%s has a parameter %s", query->name, name);
        if (bind_value(statement, index, &params[number - 1]) != SQLITE_OK)
            return fail(connection, err);
    }
    return true;
}

static struct str copy_bytes(struct arena *arena, const void *bytes, int len)
{
    return arena_str(arena, (struct str){bytes ? bytes : "", (size_t)len});
}

static bool read_value(sqlite3_stmt *statement, int column, struct arena *arena,
                       struct value *value, struct error *err)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL: *value = V_NULL; return true;
    case SQLITE_INTEGER: *value = V_INT(sqlite3_column_int64(statement, column)); return true;
    case SQLITE_TEXT:
        *value = V_STR(copy_bytes(arena, sqlite3_column_text(statement, column),
                                  sqlite3_column_bytes(statement, column)));
        return true;
    case SQLITE_BLOB:
        *value = V_BYTES(copy_bytes(arena, sqlite3_column_blob(statement, column),
                                    sqlite3_column_bytes(statement, column)));
        return true;
    default: return error_set(err, ERR_INTERNAL, "column %d is a floating-point number", column);
    }
}

static bool read_row(sqlite3_stmt *statement, struct row_list *list, struct error *err)
{
    struct value *values = row_list_add(list);

    for (size_t i = 0; i < list->n_columns; i++) {
        if (!read_value(statement, (int)i, list->arena, &values[i], err))
            return false;
    }
    return true;
}

static bool step_all(struct sqlite_connection *connection, sqlite3_stmt *statement,
                     struct arena *arena, struct rows *rows, struct error *err)
{
    struct row_list list = {.arena = arena, .n_columns = (size_t)sqlite3_column_count(statement)};
    int result;

    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        if (rows && !read_row(statement, &list, err))
            return false;
    }
    if (result != SQLITE_DONE)
        return fail(connection, err);
    if (rows)
        *rows = (struct rows){
            .values = list.values,
            .n_rows = list.n_rows,
            .n_columns = list.n_columns,
            .n_changed = sqlite3_stmt_readonly(statement) ? 0 : sqlite3_changes64(connection->db),
        };
    return true;
}

bool sqlite_connection_run(struct sqlite_connection *connection, const struct query *query,
                           const struct value *params, struct arena *arena, struct rows *rows,
                           struct error *err)
{
    sqlite3_stmt *statement;

    if (!prepare(connection, query, &statement, err))
        return error_wrap(err, "%s", query->name);

    bool ok = bind_all(connection, statement, query, params, err) &&
              step_all(connection, statement, arena, rows, err);

    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return ok || error_wrap(err, "%s", query->name);
}
