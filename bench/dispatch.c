/* How fast a worker is given runs, by how many wait behind them: dispatch ROUNDS.
 *
 * Whole servers on SQLite in this process, polled over loopback as a worker polls; in turns, so
 * that all meet the same machine. The backlog is put in by SQL, as copies of one run that was
 * started by the API. Prints one JSON object: leases per second with 200 queued, with 200,000
 * queued in one lane, and with 200,000 in 10,000 lanes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/time.h"
#include "server/sweep.h"
#include "server/worker_testing.h"

/* WARM: rounds before those that count, in which what the backlog left behind is written out. */
enum { LEASES = 16, FEW = 200, MANY = 200000, LANES = 10000, ROUNDS_MAX = 1000, WARM = 10 };

struct bench {
    struct service *service;
    struct test_worker worker;
    const char *run;
    int64_t n_copies, lanes;
    int64_t took_ns[ROUNDS_MAX];
};

#define RUN_ID                                                                                  \
    "'00000000-0000-7000-8000-' || substr('000000000000' || CAST(i AS TEXT), length(CAST(i AS " \
    "TEXT)) + 1)"
#define READY_ID                                                                                \
    "'00000000-0000-7000-9000-' || substr('000000000000' || CAST(i AS TEXT), length(CAST(i AS " \
    "TEXT)) + 1)"
#define NUMBERS "WITH RECURSIVE n(i) AS (SELECT $2 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $3) "
#define LANE    "CASE WHEN $4 = 0 THEN r.lane_id ELSE 'lane-' || CAST(i % $4 AS TEXT) END"

static const char *const copy[] = {
    "INSERT INTO runs (id, environment_id, session_id, workspace_id, deployment_id, "
    "deployment_task_id, lane_id, task_id, state, status, reason, queue, score_ms, "
    "max_duration_seconds, trace_id, api_version, created_ms, updated_ms) " NUMBERS "SELECT " RUN_ID
    ", r.environment_id, r.session_id, r.workspace_id, r.deployment_id, r.deployment_task_id, " LANE
    ", r.task_id, r.state, r.status, r.reason, r.queue, r.score_ms - 1000000 + i, "
    "r.max_duration_seconds, "
    "r.trace_id, r.api_version, r.created_ms, r.updated_ms FROM n, runs r WHERE r.id = $1",
    "INSERT INTO run_values (run_id, payload) " NUMBERS "SELECT " RUN_ID
    ", v.payload FROM n, run_values v WHERE v.run_id = $1 AND $4 = $4",
    "INSERT INTO ready (id, kind, subject_id, lane_id, shape_id, score_ms, not_before_ms, "
    "is_due) " NUMBERS "SELECT " READY_ID ", r.kind, " RUN_ID ", " LANE
    ", r.shape_id, r.score_ms - 1000000 + i, 0, 1 FROM n, ready r WHERE r.subject_id = $1",
};

static const char make_lanes[] =
    "INSERT INTO lanes (id, environment_id, kind, queue, concurrency_key, max_live) WITH RECURSIVE "
    "n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2) SELECT 'lane-' || CAST(i AS "
    "TEXT), r.environment_id, 'run', 'narrow', 'key-' || CAST(i AS TEXT), 4 FROM n, runs r "
    "WHERE r.id = $1";
static const char drop_heads[] = "DELETE FROM heads";
/* Ids of copies grow with their scores. */
static const char make_heads[] =
    "INSERT INTO heads (lane_id, shape_id, ready_id, score_ms, is_open) "
    "SELECT lane_id, shape_id, min(id), min(score_ms), 1 FROM ready GROUP BY lane_id, shape_id";
static const char end_leases[] = "UPDATE leases SET state = 'completed', live = 0 WHERE live = 1";

static const struct query copies[] = {
    {"bench_runs",   4, 0, copy[0], copy[0]},
    {"bench_values", 4, 0, copy[1], copy[1]},
    {"bench_ready",  4, 0, copy[2], copy[2]},
};
static const struct query no_heads = {"bench_no_heads", 0, 0, drop_heads, drop_heads};
static const struct query heads = {"bench_heads", 0, 0, make_heads, make_heads};
static const struct query lanes = {"bench_lanes", 2, 0, make_lanes, make_lanes};
static const struct query ended = {"bench_end", 0, 0, end_leases, end_leases};

static void fail(const char *what, const struct error *err)
{
    fprintf(stderr, "%s: %s\n", what, err ? err->text : "failed");
    exit(1);
}

/* The run that is copied comes last, so that it is there to be copied again. */
static void queue_more(struct bench *bench, int64_t n)
{
    struct error err;
    AUTO_TX tx = NULL;
    int64_t from = bench->n_copies + 1;
    bool is_first = bench->n_copies == 0;

    bool ok = store_begin(bench->service->server->store, &tx, &err);
    if (is_first && bench->lanes)
        ok = ok && STORE(tx, &lanes, NULL, NULL, &err, V_TEXT(bench->run), V_INT(bench->lanes));
    for (size_t i = 0; ok && i < COUNT_OF(copies); i++)
        ok = STORE(tx, &copies[i], NULL, NULL, &err, V_TEXT(bench->run), V_INT(from),
                   V_INT(from + n), V_INT(bench->lanes));
    if (is_first)
        ok = ok && store_run(tx, &no_heads, NULL, 0, NULL, NULL, &err) &&
             store_run(tx, &heads, NULL, 0, NULL, NULL, &err);
    if (!ok || !store_commit(&tx, &err))
        fail("queueing", &err);
    bench->n_copies += n;
}

static void prepare(struct bench *bench, int64_t n)
{
    const char *skip = "no server";

    bench->service = service_start(ON_SQLITE, &skip);
    if (!bench->service)
        fail(skip, NULL);
    const char *key = service_make_key(bench->service, OPERATOR);
    if (!worker_join(&bench->worker, bench->service, "one") ||
        !service_build(bench->service, &bench->worker, key))
        fail("deploying", NULL);
    /* Nobody beats for the worker or renews what it holds. */
    sweeper_stop(bench->service->server->sweeper);
    bench->service->server->sweeper = NULL;
    bench->run = service_start_run(bench->service, key, "hello", NULL);
    queue_more(bench, n);
}

static int64_t poll_once(struct bench *bench)
{
    struct test_room room = large_room;
    struct error err;
    AUTO_TX tx = NULL;

    room.slots = LEASES;
    int64_t before = time_boot_ns();
    int status = worker_poll(&bench->worker, "[\"run\"]", &room, 0, "[]");
    int64_t took = time_boot_ns() - before;
    if (status != 200 || json_count(buf_str(&bench->service->answer.body), "grants") != LEASES)
        fail("polling", NULL);
    if (!store_begin(bench->service->server->store, &tx, &err) ||
        !store_run(tx, &ended, NULL, 0, NULL, NULL, &err) || !store_commit(&tx, &err))
        fail("ending", &err);
    if (bench->n_copies < MANY)
        queue_more(bench, LEASES);
    return took;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* By the median: others use the machine, too. */
static double leases_per_second(struct bench *bench, int rounds)
{
    qsort(bench->took_ns, (size_t)rounds, sizeof bench->took_ns[0], by_size);
    return LEASES / ((double)bench->took_ns[rounds / 2] / 1e9);
}

int main(int argc, char **argv)
{
    static struct bench benches[] = {{.lanes = 0}, {.lanes = 0}, {.lanes = LANES}};
    static const char *const names[] = {"few", "many", "lanes"};
    static const int64_t sizes[] = {FEW, MANY, MANY};
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 100;

    if (rounds < 1 || rounds > ROUNDS_MAX)
        fail("1 to 1000 rounds", NULL);
    for (size_t i = 0; i < COUNT_OF(benches); i++)
        prepare(&benches[i], sizes[i]);
    for (int round = -WARM; round < rounds; round++)
        for (size_t i = 0; i < COUNT_OF(benches); i++)
            benches[i].took_ns[round < 0 ? 0 : round] = poll_once(&benches[i]);
    for (size_t i = 0; i < COUNT_OF(benches); i++) {
        printf("%s\"%s\":%.1f", i ? "," : "{", names[i], leases_per_second(&benches[i], rounds));
        service_stop(benches[i].service);
    }
    printf("}\n");
    return 0;
}
