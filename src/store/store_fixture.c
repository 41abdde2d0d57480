#include "store/store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>

#include "base/own.h"
#include "base/process.h"

enum { ANSWER_MS = 60000, ANSWER_MAX = 256 };

static struct {
    bool is_started;
    struct process process;
    int commands, answers;
    char url[ANSWER_MAX], skip[ANSWER_MAX];
    int n_schemas;
} server = {.process.pidfd = -1, .commands = -1, .answers = -1};

static bool read_line(char *line, size_t size, struct error *err)
{
    for (size_t len = 0; len + 1 < size; len++) {
        struct pollfd waiting = {.fd = server.answers, .events = POLLIN};

        if (poll(&waiting, 1, ANSWER_MS) != 1 || read(server.answers, &line[len], 1) != 1)
            return error_set(err, ERR_UNAVAILABLE, "the private PostgreSQL does not answer");
        if (line[len] == '\n') {
            line[len] = '\0';
            return true;
        }
    }
    return error_set(err, ERR_TOO_LARGE, "the private PostgreSQL says too much");
}

static bool run_command(const char *command, struct error *err)
{
    char line[ANSWER_MAX];
    size_t len = strlen(command);

    if (write(server.commands, command, len) != (ssize_t)len)
        return error_errno(err, "tell the private PostgreSQL");
    if (!read_line(line, sizeof line, err))
        return false;
    return !strcmp(line, "ok") || error_set(err, ERR_INTERNAL, "%s", line);
}

bool postgres_fixture_stop(struct error *err)
{
    return run_command("stop\n", err);
}

bool postgres_fixture_start(struct error *err)
{
    return run_command("start\n", err);
}

/* The script cleans up when its input ends, also when this process is killed. */
static void server_finish(void)
{
    struct error ignored;
    int status;

    if (server.process.pid == 0)
        return;
    close(server.commands);
    if (!process_wait(&server.process, ANSWER_MS, &status, &ignored))
        printf("# the private PostgreSQL does not end\n");
    process_finish(&server.process);
    close(server.answers);
}

static bool start_script(struct error *err)
{
    const char *root = getenv("HELMR_SOURCE_ROOT");
    char script[FIXTURE_URL_MAX];
    int input[2], output[2];

    snprintf(script, sizeof script, "%s/tests/postgres", root ? root : ".");
    if (pipe2(input, O_CLOEXEC) < 0 || pipe2(output, O_CLOEXEC) < 0)
        return error_errno(err, "pipe");

    /* A session of its own: it must outlive a signal to the test's group to clean up. */
    struct process_spec spec = {
        .argv = (const char *const[]){script, NULL},
        .fds = {{input[0], STDIN_FILENO}, {output[1], STDOUT_FILENO}, {2, STDERR_FILENO}},
        .n_fds = 3,
        .new_session = true,
    };
    bool ok = process_start(&spec, &server.process, err);

    close(input[0]);
    close(output[1]);
    server.commands = input[1];
    server.answers = output[0];
    return ok;
}

static bool server_start(struct error *err)
{
    char line[ANSWER_MAX];

    server.is_started = true;
    if (!start_script(err))
        return false;
    atexit(server_finish);
    if (!read_line(line, sizeof line, err))
        return false;
    if (!strncmp(line, "skip ", 5)) {
        snprintf(server.skip, sizeof server.skip, "%s", line + 5);
        return true;
    }
    if (strncmp(line, "ready ", 6) != 0)
        return error_set(err, ERR_INTERNAL, "%s", line);
    snprintf(server.url, sizeof server.url, "%s", line + 6);
    return true;
}

/* A schema of the test's own on the private server: a database would cost a checkpoint. */
static bool create_schema(char url[FIXTURE_URL_MAX], struct error *err)
{
    char sql[64];
    PGconn *db = PQconnectdb(server.url);

    snprintf(sql, sizeof sql, "CREATE SCHEMA test%d", ++server.n_schemas);

    PGresult *result = PQexec(db, sql);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;

    if (!ok)
        error_set(err, ERR_INTERNAL, "%s: %s", sql, PQerrorMessage(db));
    PQclear(result);
    PQfinish(db);
    snprintf(url, FIXTURE_URL_MAX, "%s&options=-csearch_path%%3Dtest%d", server.url,
             server.n_schemas);
    return ok;
}

bool fixture_init(struct fixture *fixture, enum store_engine engine, const char **skip,
                  struct error *err)
{
    fixture->engine = engine;
    if (engine == ON_SQLITE) {
        snprintf(fixture->directory, sizeof fixture->directory, "/tmp/helmr-store.XXXXXX");
        if (!mkdtemp(fixture->directory))
            return error_errno(err, "mkdtemp");
        snprintf(fixture->url, sizeof fixture->url, "sqlite:%s/helmr.db", fixture->directory);
        return true;
    }
    if (!server.is_started && !server_start(err))
        return false;
    if (server.skip[0]) {
        *skip = server.skip;
        return false;
    }
    return create_schema(fixture->url, err);
}

void fixture_finish(struct fixture *fixture)
{
    static const char *const names[] = {"helmr.db", "helmr.db-wal", "helmr.db-shm"};
    char path[128];

    if (!fixture->directory[0])
        return;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", fixture->directory, names[i]);
        unlink(path);
    }
    rmdir(fixture->directory);
}

bool fixture_open(const struct fixture *fixture, int busy_ms, struct store **store,
                  struct error *err)
{
    return store_open(&(struct store_config){.url = fixture->url, .busy_ms = busy_ms}, store, err);
}

#define ITEMS(bytes)                                                                          \
    "CREATE TABLE items (id BIGINT PRIMARY KEY, number BIGINT, text TEXT, bytes " bytes "); " \
    "CREATE TABLE children (id BIGINT PRIMARY KEY, "                                          \
    "item BIGINT NOT NULL CONSTRAINT child_has_item REFERENCES items (id));"

const struct migration fixture_migrations[] = {
    {"items", "1", ITEMS("BLOB"), ITEMS("BYTEA")},
    {"counters", "2",
     SAME_ON_BOTH("CREATE TABLE counters (id BIGINT PRIMARY KEY, count BIGINT NOT NULL); "
                  "INSERT INTO counters (id, count) VALUES (1, 0);")},
};
const size_t n_fixture_migrations = COUNT_OF(fixture_migrations);

const struct query item_insert = {
    "test_item_insert", 4, 0,
    SAME_ON_BOTH("INSERT INTO items (id, number, text, bytes) VALUES ($1, $2, $3, $4)")};
const struct query item_get = {"test_item_get", 1, 3,
                               SAME_ON_BOTH("SELECT number, text, bytes FROM items WHERE id = $1")};
const struct query item_count = {"test_item_count", 0, 1,
                                 SAME_ON_BOTH("SELECT COUNT(*) FROM items")};
const struct query counter_add = {
    "test_counter_add", 2, 1,
    SAME_ON_BOTH("UPDATE counters SET count = count + $2 WHERE id = $1 RETURNING count")};
const struct query counter_get = {"test_counter_get", 1, 1,
                                  SAME_ON_BOTH("SELECT count FROM counters WHERE id = $1")};

bool item_put(struct store *store, int64_t id, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(store, &tx, err) &&
           STORE(tx, &item_insert, NULL, NULL, err, V_INT(id), V_INT(id), V_TEXT("item"), V_NULL) &&
           store_commit(&tx, err);
}

bool item_exists(struct store *store, int64_t id, bool *exists, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    struct rows rows;

    if (!store_begin_read(store, &tx, err) || !STORE(tx, &item_get, &arena, &rows, err, V_INT(id)))
        return false;
    *exists = rows.n_rows == 1;
    return true;
}

bool item_total(struct store *store, int64_t *total, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    struct rows rows;

    if (!store_begin_read(store, &tx, err) || !STORE(tx, &item_count, &arena, &rows, err))
        return false;
    *total = row_int(&rows, 0, 0);
    return true;
}
