#include "store/migrate.h"

#include <pthread.h>

#include "store/store_suite.h"

static const struct migration more[] = {
    {"one",   "a", SAME_ON_BOTH("CREATE TABLE one (id BIGINT); CREATE TABLE two (id BIGINT);")},
    {"three", "b", SAME_ON_BOTH("ALTER TABLE one ADD COLUMN more TEXT;")                      },
    {"four",  "c", SAME_ON_BOTH("CREATE TABLE four (id BIGINT);")                             },
};

/* A test of the two that has no schema yet. */
#define EMPTY_TEST(id)                             \
    static void id(const struct fixture *fixture); \
    TEST(id##_on_sqlite)                           \
    {                                              \
        with_empty(ON_SQLITE, id);                 \
    }                                              \
    TEST(id##_on_postgres)                         \
    {                                              \
        with_empty(ON_POSTGRES, id);               \
    }                                              \
    static void id(const struct fixture *fixture)

static void with_empty(enum store_engine engine, void (*body)(const struct fixture *fixture))
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    const char *skip = NULL;
    struct error err;

    if (!fixture_init(&fixture, engine, &skip, &err)) {
        if (skip)
            SKIP(skip);
        CHECK_OK(false);
    }
    body(&fixture);
}

static void auto_close_store(struct store **store)
{
    store_close(*store);
}

#define AUTO_STORE AUTO(auto_close_store) struct store *

static bool table_is_there(struct store *store, const struct query *probe)
{
    AUTO_TX tx = NULL;
    struct error err;

    return store_begin_read(store, &tx, &err) && STORE(tx, probe, NULL, NULL, &err);
}

EMPTY_TEST(a_new_database_gets_this_binarys_schema)
{
    AUTO_STORE store = NULL;
    struct error err;
    int have = -1, want = -1;

    CHECK_OK(fixture_open(fixture, 0, &store, &err));
    CHECK_OK(store_schema_version(store, &have, &want, &err));
    CHECK(have == 0 && want == (int)n_migrations && want > 0);
    CHECK_OK(store_migrate(store, &err));
    CHECK_OK(store_schema_version(store, &have, &want, &err));
    CHECK(have == want);
    CHECK_OK(store_migrate(store, &err));
}

EMPTY_TEST(only_what_is_missing_is_applied)
{
    AUTO_STORE store = NULL;
    struct error err;
    int have = -1;

    CHECK_OK(fixture_open(fixture, 0, &store, &err));
    CHECK_OK(migrate_to(store, more, 1, &err));
    CHECK_OK(migrate_version(store, &have, &err));
    CHECK(have == 1);

    /* Applying the first again would fail: its tables are there. */
    CHECK_OK(migrate_to(store, more, 3, &err));
    CHECK_OK(migrate_version(store, &have, &err));
    CHECK(have == 3);
}

EMPTY_TEST(a_newer_schema_is_refused)
{
    AUTO_STORE store = NULL;
    struct error err;
    int have = -1;

    CHECK_OK(fixture_open(fixture, 0, &store, &err));
    CHECK_OK(migrate_to(store, more, 3, &err));
    CHECK(!migrate_to(store, more, 2, &err));
    CHECK(err.code == ERR_CONFLICT);
    CHECK_STR(err.text, "the database has schema version 3 and this binary knows only 2: "
                        "upgrade the binary");
    CHECK_OK(migrate_version(store, &have, &err));
    CHECK(have == 3);
}

EMPTY_TEST(a_schema_made_by_another_text_is_refused)
{
    struct migration other[] = {more[0], more[1]};
    AUTO_STORE store = NULL;
    struct error err;

    CHECK_OK(fixture_open(fixture, 0, &store, &err));
    CHECK_OK(migrate_to(store, more, 1, &err));
    other[0].checksum = "changed";
    CHECK(!migrate_to(store, other, 2, &err));
    CHECK(err.code == ERR_CONFLICT && strstr(err.text, "one"));
}

EMPTY_TEST(a_migration_that_fails_leaves_nothing_behind)
{
    static const struct query from_one = {"test_from_one", 0, 1,
                                          SAME_ON_BOTH("SELECT id FROM one")};
    static const struct query from_half = {"test_from_half", 0, 1,
                                           SAME_ON_BOTH("SELECT id FROM half")};
    struct migration broken[] = {
        more[0],
        {"half", "x",
             SAME_ON_BOTH("CREATE TABLE half (id BIGINT); INSERT INTO missing (id) VALUES (1);")},
    };
    AUTO_STORE store = NULL;
    struct error err;
    int have = -1;

    CHECK_OK(fixture_open(fixture, 0, &store, &err));
    CHECK(!migrate_to(store, broken, 2, &err));
    CHECK(strstr(err.text, "migration 2 (half)"));
    CHECK_OK(migrate_version(store, &have, &err));
    CHECK(have == 1);
    CHECK(table_is_there(store, &from_one));
    CHECK(!table_is_there(store, &from_half));
    CHECK_OK(migrate_to(store, more, 3, &err));
}

struct migrating {
    const struct fixture *fixture;
    pthread_t thread;
    bool ok;
    struct error err;
};

static void *migrate_in_thread(void *arg)
{
    struct migrating *migrating = arg;
    AUTO_STORE store = NULL;

    migrating->ok = fixture_open(migrating->fixture, 30000, &store, &migrating->err) &&
                    store_migrate(store, &migrating->err);
    return NULL;
}

EMPTY_TEST(servers_that_start_together_migrate_once)
{
    struct migrating servers[4] = {0};
    struct error err;

    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        servers[i].fixture = fixture;
        CHECK(pthread_create(&servers[i].thread, NULL, migrate_in_thread, &servers[i]) == 0);
    }
    for (size_t i = 0; i < COUNT_OF(servers); i++)
        pthread_join(servers[i].thread, NULL);
    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        err = servers[i].err;
        CHECK_OK(servers[i].ok);
    }
}

EMPTY_TEST(text_is_ordered_by_its_bytes)
{
    static const struct query insert = {
        "test_user_insert", 1, 0,
        SAME_ON_BOTH("INSERT INTO users (id, email, display_name, created_ms) "
                     "VALUES ($1, $1, $1, 0)")};
    static const struct query list = {"test_user_list", 0, 1,
                                      SAME_ON_BOTH("SELECT email FROM users ORDER BY email")};
    static const char *const sorted[] = {"B", "C", "_", "a", "b"};
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_STORE store = NULL;
    AUTO_TX tx = NULL;
    struct rows rows;
    struct error err;

    CHECK_OK(fixture_open(fixture, 0, &store, &err));
    CHECK_OK(store_migrate(store, &err));
    CHECK_OK(store_begin(store, &tx, &err));
    for (size_t i = COUNT_OF(sorted); i > 0; i--)
        CHECK_OK(STORE(tx, &insert, NULL, NULL, &err, V_TEXT(sorted[i - 1])));
    CHECK_OK(STORE(tx, &list, &arena, &rows, &err));
    CHECK(rows.n_rows == COUNT_OF(sorted));
    for (size_t i = 0; i < COUNT_OF(sorted); i++)
        CHECK_STR(row_text(&rows, i, 0), sorted[i]);
}

TEST_MAIN()
