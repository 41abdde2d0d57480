#include "store/migrate.h"

#include "base/time.h"
#include "store/backend.h"

static const char create_table[] = "CREATE TABLE IF NOT EXISTS schema_migrations ("
                                   "version BIGINT PRIMARY KEY, name TEXT NOT NULL, "
                                   "checksum TEXT NOT NULL, applied_ms BIGINT NOT NULL)";

static const struct query table_exists = {
    "migration_table_exists", 0, 1,
    "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
    "SELECT CASE WHEN to_regclass('schema_migrations') IS NULL THEN 0 ELSE 1 END"};

#define SAME_ON_BOTH(sql) (sql), (sql)

static const struct query list_applied = {
    "migration_list", 0, 3,
    SAME_ON_BOTH("SELECT version, name, checksum FROM schema_migrations ORDER BY version")};
enum { APPLIED_VERSION, APPLIED_NAME, APPLIED_CHECKSUM };

static const struct query insert_applied = {
    "migration_insert", 4, 0,
    SAME_ON_BOTH("INSERT INTO schema_migrations (version, name, checksum, applied_ms) "
                 "VALUES ($1, $2, $3, $4)")};

static const struct query highest_applied = {
    "migration_highest", 0, 1,
    SAME_ON_BOTH("SELECT COALESCE(MAX(version), 0) FROM schema_migrations")};

static bool check_applied(const struct rows *applied, const struct migration *migrations, size_t n,
                          struct error *err)
{
    if (applied->n_rows > n)
        return error_set(err, ERR_CONFLICT,
                         "the database has schema version %zu and this binary knows only %zu: "
                         "upgrade the binary",
                         applied->n_rows, n);
    for (size_t i = 0; i < applied->n_rows; i++) {
        if (row_int(applied, i, APPLIED_VERSION) != (int64_t)i + 1)
            return error_set(err, ERR_CONFLICT, "schema version %zu was never applied", i + 1);
        if (strcmp(row_text(applied, i, APPLIED_CHECKSUM), migrations[i].checksum) != 0)
            return error_set(err, ERR_CONFLICT,
                             "schema version %zu (%s) was made by another text than this "
                             "binary's (%s): use the binary that made the database",
                             i + 1, row_text(applied, i, APPLIED_NAME), migrations[i].name);
    }
    return true;
}

static bool apply(struct tx *tx, const struct migration *migration, size_t version,
                  struct error *err)
{
    const char *sql = store_is_postgres(tx->store) ? migration->postgres : migration->sqlite;

    if (!store_script(tx, sql, err) ||
        !STORE(tx, &insert_applied, NULL, NULL, err, V_INT(version), V_TEXT(migration->name),
               V_TEXT(migration->checksum), V_INT(time_now_ms())))
        return error_wrap(err, "migration %zu (%s)", version, migration->name);
    return true;
}

/* One migration in one transaction; *done when none was left. */
static bool step(struct store *store, const struct migration *migrations, size_t n, bool *done,
                 struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    struct rows applied = {0};

    if (!store_begin(store, &tx, err) || !store_script(tx, store->backend->migration_lock, err) ||
        !store_script(tx, create_table, err) || !STORE(tx, &list_applied, &arena, &applied, err) ||
        !check_applied(&applied, migrations, n, err))
        return false;
    *done = applied.n_rows == n;
    if (!*done && !apply(tx, &migrations[applied.n_rows], applied.n_rows + 1, err))
        return false;
    return store_commit(&tx, err);
}

bool migrate_to(struct store *store, const struct migration *migrations, size_t n,
                struct error *err)
{
    for (bool done = false; !done;) {
        if (!step(store, migrations, n, &done, err))
            return false;
    }
    return true;
}

bool migrate_version(struct store *store, int *version, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    struct rows rows;

    if (!store_begin_read(store, &tx, err) || !STORE(tx, &table_exists, &arena, &rows, err))
        return false;
    if (row_int(&rows, 0, 0) == 0) {
        *version = 0;
        return true;
    }
    if (!STORE(tx, &highest_applied, &arena, &rows, err))
        return false;
    *version = (int)row_int(&rows, 0, 0);
    return true;
}
