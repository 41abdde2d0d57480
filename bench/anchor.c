/* What the benchmarks are measured against when no program at hand does it.
 *
 *   anchor commits DATABASE SECONDS   one durable transaction per run, as a run's start writes it
 *   anchor records DATABASE SECONDS   the same for one record of a stream, and nothing else
 *   anchor pipe BYTES                 bytes from one process to another
 *   anchor echo CHARACTERS            a character typed into a terminal, until the terminal shows
 * it
 *
 * Figures go to stdout as one JSON object.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "base/time.h"
#include "store/queries.h"

enum { COLUMNS_MAX = 32, PIPE_BLOCK = 1 << 16, TIMES_MAX = 1 << 20 };

enum fresh { FRESH_WORKSPACE, FRESH_SESSION, FRESH_RUN, FRESH_READY, FRESH_EVENT, FRESH_COUNT };

/* The statements of a run's start, and where the newest run has the values they were given. */
static const struct source {
    const struct query *query;
    const char *values;
} sources[] = {
    {&workspace_insert,
     "SELECT w.id, w.environment_id, w.deployment_id, w.sandbox_id, w.fingerprint, w.created_ms"
     " FROM runs r JOIN workspaces w ON w.id = r.workspace_id"                        },
    {&session_insert,
     "SELECT s.id, s.environment_id, s.task_id, s.initial_deployment_id, s.workspace_id,"
     " s.current_run_id, s.external_id, s.start_fingerprint, s.request, s.metadata, s.tags,"
     " s.expires_ms, s.created_ms FROM runs r JOIN sessions s ON s.id = r.session_id" },
    {&run_insert,
     "SELECT r.id, r.environment_id, r.session_id, r.workspace_id, r.deployment_id,"
     " r.deployment_task_id, r.lane_id, r.task_id, r.reason, r.cause, r.queue, r.concurrency_key, "
     "r.priority,"
     " r.score_ms, r.ttl_ms, r.expires_ms, r.max_duration_seconds, r.retry_policy, r.secrets,"
     " r.secret_names, r.metadata, r.tags, r.trace_id, r.api_version, r.sdk_version, r.cli_version,"
     " r.created_ms, r.turn_index, r.previous_run_id, r.base_version_id FROM runs r"  },
    {&run_values_insert,
     "SELECT v.run_id, v.payload FROM runs r JOIN run_values v ON v.run_id = r.id"    },
    {&ready_insert,
     "SELECT y.id, y.kind, y.subject_id, y.lane_id, y.shape_id, y.score_ms, y.not_before_ms,"
     " y.is_due, y.ttl_ms FROM runs r JOIN ready y ON y.subject_id = r.id"            },
    {&head_offer,        "SELECT y.id FROM runs r JOIN ready y ON y.subject_id = r.id"},
    {&run_event_insert,
     "SELECT e.run_id, e.cursor, e.id, e.attempt, e.kind, e.at_ms, e.category, e.severity, "
     "e.source,"
     " e.redaction_class, e.attributes FROM runs r JOIN run_events e ON e.run_id = r.id"
     " AND e.cursor = 1"                                                              },
};

struct statement {
    sqlite3_stmt *insert;
    sqlite3_value *values[COLUMNS_MAX];
    int fresh[COLUMNS_MAX]; /* which new id stands there instead, or -1 */
    int n_values;
};

struct commits {
    sqlite3 *db;
    struct statement statements[COUNT_OF(sources)];
    char old[FRESH_COUNT][ID_TEXT], new[FRESH_COUNT][ID_TEXT];
};

static bool fail(struct commits *commits, const char *what, struct error *err)
{
    return error_set(err, ERR_INTERNAL, "%s: %s", what, sqlite3_errmsg(commits->db));
}

static bool script(struct commits *commits, const char *sql, struct error *err)
{
    return sqlite3_exec(commits->db, sql, NULL, NULL, NULL) == SQLITE_OK || fail(commits, sql, err);
}

static bool prepare(struct commits *commits, size_t at, struct error *err)
{
    struct statement *statement = &commits->statements[at];
    char sql[1024];
    sqlite3_stmt *select;

    snprintf(sql, sizeof sql, "%s ORDER BY r.created_ms DESC, r.id DESC LIMIT 1",
             sources[at].values);
    if (sqlite3_prepare_v2(commits->db, sql, -1, &select, NULL) != SQLITE_OK ||
        sqlite3_prepare_v3(commits->db, sources[at].query->sqlite, -1, SQLITE_PREPARE_PERSISTENT,
                           &statement->insert, NULL) != SQLITE_OK)
        return fail(commits, sources[at].query->name, err);
    if (sqlite3_step(select) != SQLITE_ROW)
        return error_set(err, ERR_NOT_FOUND, "%s: no queued run to copy", sources[at].query->name);
    statement->n_values = sqlite3_column_count(select);
    if (statement->n_values != sources[at].query->n_params || statement->n_values > COLUMNS_MAX)
        return error_set(err, ERR_INTERNAL, "%s takes other values", sources[at].query->name);
    for (int i = 0; i < statement->n_values; i++)
        statement->values[i] = sqlite3_value_dup(sqlite3_column_value(select, i));
    sqlite3_finalize(select);
    return true;
}

static const char *text_of(sqlite3_value *value)
{
    return sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : "";
}

/* Every id that belongs to the copied run alone gives way to a new one. */
static void find_fresh(struct commits *commits)
{
    static const struct {
        size_t statement;
        int column;
    } places[FRESH_COUNT] = {
        [FRESH_WORKSPACE] = {0, 0},
          [FRESH_SESSION] = {1, 0},
          [FRESH_RUN] = {2, 0},
        [FRESH_READY] = {4, 0},
          [FRESH_EVENT] = {6, 2},
    };
    for (int id = 0; id < FRESH_COUNT; id++)
        snprintf(commits->old[id], ID_TEXT, "%s",
                 text_of(commits->statements[places[id].statement].values[places[id].column]));
    for (size_t s = 0; s < COUNT_OF(sources); s++) {
        struct statement *statement = &commits->statements[s];

        for (int i = 0; i < statement->n_values; i++) {
            statement->fresh[i] = -1;
            for (int id = 0; id < FRESH_COUNT; id++)
                if (strcmp(commits->old[id], text_of(statement->values[i])) == 0)
                    statement->fresh[i] = id;
        }
    }
}

/* Parameters are called $1, $2 and so on; SQLite numbers them by where they first stand. */
static bool insert(struct commits *commits, struct statement *statement, struct error *err)
{
    for (int i = 0; i < statement->n_values; i++) {
        char name[8];
        snprintf(name, sizeof name, "$%d", i + 1);
        int index = sqlite3_bind_parameter_index(statement->insert, name);
        int id = statement->fresh[i];
        int result = id >= 0 ? sqlite3_bind_text(statement->insert, index, commits->new[id], -1,
                                                 SQLITE_STATIC)
                             : sqlite3_bind_value(statement->insert, index, statement->values[i]);
        if (result != SQLITE_OK)
            return fail(commits, "bind", err);
    }
    bool ok = sqlite3_step(statement->insert) == SQLITE_DONE;
    if (!ok)
        fail(commits, sqlite3_sql(statement->insert), err);
    sqlite3_reset(statement->insert);
    return ok;
}

static bool commit_one(struct commits *commits, struct error *err)
{
    for (int id = 0; id < FRESH_COUNT; id++)
        id_make(commits->new[id]);
    if (!script(commits, "BEGIN IMMEDIATE", err))
        return false;
    for (size_t s = 0; s < COUNT_OF(sources); s++)
        if (!insert(commits, &commits->statements[s], err))
            return false;
    return script(commits, "COMMIT", err);
}

static int compare_times(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

typedef bool commit(struct commits *commits, struct error *err);

static bool commit_for(struct commits *commits, commit *one, int64_t seconds, struct error *err)
{
    AUTO_FREE uint32_t *times_us = alloc(TIMES_MAX * sizeof *times_us);
    int64_t begun = time_boot_ns(), now = begun;
    size_t n = 0;

    while (now < begun + seconds * 1000 * 1000 * 1000 && n < TIMES_MAX) {
        int64_t before = now;

        if (!one(commits, err))
            return false;
        now = time_boot_ns();
        times_us[n++] = (uint32_t)((now - before) / 1000);
    }
    qsort(times_us, n, sizeof *times_us, compare_times);
    printf("{\"commits\":%zu,\"per_second\":%.1f,\"p50_ms\":%.3f,\"p99_ms\":%.3f}\n", n,
           (double)n * 1e9 / (double)(now - begun), times_us[n / 2] / 1e3,
           times_us[n * 99 / 100] / 1e3);
    return true;
}

/* The pragmas are the store's own, so that a commit means the same. */
static bool open_database(struct commits *commits, const char *path, struct error *err)
{
    if (sqlite3_open_v2(path, &commits->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return fail(commits, path, err);
    return script(commits,
                  "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                  "PRAGMA journal_size_limit = 67108864; PRAGMA temp_store = MEMORY;"
                  "PRAGMA trusted_schema = OFF;",
                  err);
}

/* A record as the newest one is, with an id and a sequence of its own. */
static bool append_one(struct commits *commits, struct error *err)
{
    sqlite3_stmt *insert = commits->statements[0].insert;

    id_make(commits->new[0]);
    if (sqlite3_bind_text(insert, 1, commits->new[0], -1, SQLITE_STATIC) != SQLITE_OK ||
        !script(commits, "BEGIN IMMEDIATE", err))
        return fail(commits, "bind", err);
    bool ok = sqlite3_step(insert) == SQLITE_DONE;
    if (!ok)
        fail(commits, "insert", err);
    sqlite3_reset(insert);
    return ok && script(commits, "COMMIT", err);
}

static bool run_records(const char *path, int64_t seconds, struct error *err)
{
    static const char insert[] =
        "INSERT INTO stream_records (stream_id, sequence, id, data, content_type, correlation_id,"
        " idempotency_key, fingerprint, written_by, created_ms)"
        " SELECT stream_id, sequence + 1, ?1, data, content_type, correlation_id,"
        " idempotency_key, fingerprint, written_by, created_ms"
        " FROM stream_records ORDER BY sequence DESC LIMIT 1";
    struct commits commits = {0};

    if (!open_database(&commits, path, err))
        return false;
    if (sqlite3_prepare_v2(commits.db, insert, -1, &commits.statements[0].insert, NULL) !=
        SQLITE_OK)
        return fail(&commits, insert, err);
    return commit_for(&commits, append_one, seconds, err);
}

static bool run_commits(const char *path, int64_t seconds, struct error *err)
{
    struct commits commits = {0};

    if (!open_database(&commits, path, err))
        return false;
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        if (!prepare(&commits, i, err))
            return false;
    find_fresh(&commits);
    return commit_for(&commits, commit_one, seconds, err);
}

static void write_bytes(int fd, int64_t left)
{
    static char block[PIPE_BLOCK];

    memset(block, 'x', sizeof block);
    while (left > 0) {
        ssize_t sent = write(fd, block, left < PIPE_BLOCK ? (size_t)left : PIPE_BLOCK);

        if (sent < 0)
            _exit(1);
        left -= sent;
    }
    _exit(0);
}

static bool run_pipe(const char *unused, int64_t n_bytes, struct error *err)
{
    static char block[PIPE_BLOCK];
    int64_t begun = time_boot_ns(), total = 0;
    int ends[2];

    (void)unused;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_errno(err, "pipe2");
    pid_t child = fork();
    if (child < 0)
        return error_errno(err, "fork");
    if (child == 0)
        write_bytes(ends[1], n_bytes);
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], block, sizeof block)) > 0;)
        total += got;
    close(ends[0]);
    waitpid(child, NULL, 0);
    if (total != n_bytes)
        return error_set(err, ERR_INTERNAL, "the pipe lost bytes");
    printf("{\"bytes\":%lld,\"seconds\":%.4f}\n", (long long)total,
           (double)(time_boot_ns() - begun) / 1e9);
    return true;
}

static int by_time(const void *a, const void *b)
{
    const int64_t *one = a, *other = b;

    return (*one > *other) - (*one < *other);
}

static bool run_echo(const char *unused, int64_t n, struct error *err)
{
    AUTO_FD int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    AUTO_FREE int64_t *times = alloc((size_t)(n > 0 ? n : 1) * sizeof *times);
    char shown;

    (void)unused;
    if (n <= 0 || terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
        return error_errno(err, "opening a terminal");
    AUTO_FD int other = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (other < 0)
        return error_errno(err, "opening the terminal's other end");
    for (int64_t i = 0; i < n; i++) {
        int64_t begun = time_boot_ns();
        if (write(terminal, "x", 1) != 1 || read(terminal, &shown, 1) != 1)
            return error_errno(err, "typing");
        times[i] = time_boot_ns() - begun;
    }
    qsort(times, (size_t)n, sizeof *times, by_time);
    printf("{\"p50_ms\":%.5f}\n", (double)times[n / 2] / 1e6);
    return true;
}

static const struct mode {
    const char *name;
    int n_args;
    bool (*run)(const char *path, int64_t number, struct error *err);
} modes[] = {
    {"commits", 4, run_commits},
    {"records", 4, run_records},
    {"pipe",    3, run_pipe   },
    {"echo",    3, run_echo   },
};

int main(int argc, char **argv)
{
    struct error err;

    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        if (argc != modes[i].n_args || strcmp(argv[1], modes[i].name) != 0)
            continue;
        if (modes[i].run(argv[2], strtoll(argv[argc - 1], NULL, 10), &err))
            return 0;
        fprintf(stderr, "anchor: %s\n", err.text);
        return 1;
    }
    fputs("usage: anchor commits DATABASE SECONDS | records DATABASE SECONDS | pipe BYTES | "
          "echo CHARACTERS\n",
          stderr);
    return 2;
}
