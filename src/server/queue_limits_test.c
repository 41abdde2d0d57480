/* Many runs under many concurrency keys, given to a worker that ends them in any order: from the
 * history alone, no key ever had more than its limit, and each went by age.
 *
 * QUEUE_RUNS says how many; the long tests take 20,000. */
#include <stdlib.h>

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/worker_testing.h"

enum { KEYS = 50, LIMIT = 2, SLOTS = 16, RUNS = 200, RUNS_MAX = 100000 };

struct stage {
    struct test_worker worker;
    const char *key;
    struct test_worker held[SLOTS];
    size_t n_held;
    unsigned random;
};

static unsigned draw(struct stage *stage, unsigned n)
{
    stage->random = stage->random * 1103515245 + 12345;
    return (stage->random >> 16) % n;
}

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR), .random = 7};
    return worker_join(&stage->worker, service, "one") &&
           service_build(service, &stage->worker, stage->key);
}

/* Priorities of a few seconds: more than all the starts take would hide an order by time alone. */
static bool queue_runs(struct service *service, struct stage *stage, int n)
{
    for (int i = 0; i < n; i++) {
        const char *options = arena_printf(
            &service->arena,
            "{\"queue\":{\"name\":\"narrow\"},\"concurrency_key\":\"key-%u\",\"priority\":%u}",
            draw(stage, KEYS), draw(stage, 100));
        if (!*service_start_run(service, stage->key, "hello", options))
            return false;
    }
    return true;
}

static bool take(struct service *service, struct stage *stage)
{
    struct test_room room = large_room;

    room.slots = (int64_t)(SLOTS - stage->n_held);
    if (worker_poll(&stage->worker, "[\"run\"]", &room, 0, "[]") != 200)
        return false;
    size_t n = json_count(buf_str(&service->answer.body), "grants");
    struct test_worker *fresh = &stage->held[stage->n_held];
    for (size_t i = 0; i < n; i++) {
        fresh[i] = stage->worker;
        snprintf(fresh[i].lease, ID_TEXT, "%s",
                 service_text(service, arena_printf(&service->arena, "grants.%zu.lease_id", i)));
        fresh[i].sequence =
            service_int(service, arena_printf(&service->arena, "grants.%zu.sequence", i));
    }
    stage->n_held += n;
    for (size_t i = 0; i < n; i++)
        if (lease_begin(&fresh[i]) != 200 || lease_start(&fresh[i]) != 200)
            return false;
    return true;
}

static bool end_one(struct stage *stage)
{
    size_t at = draw(stage, (unsigned)stage->n_held);
    struct test_worker ended = stage->held[at];

    stage->held[at] = stage->held[--stage->n_held];
    return lease_report(&ended, "succeeded", "") == 200;
}

/* What the history says of one key. */
struct lane {
    struct str key;
    int live, most;
    int64_t last_score;
    bool is_in_order;
};

static struct lane *lane_of(struct lane *lanes, struct str key)
{
    size_t i = 0;

    while (i < KEYS && lanes[i].key.ptr && !str_equal(lanes[i].key, key))
        i++;
    if (!lanes[i].key.ptr)
        lanes[i] = (struct lane){.key = key, .last_score = INT64_MIN, .is_in_order = true};
    return &lanes[i];
}

/* Ids of events grow in the order in which they were written. */
static bool read_history(struct service *service, struct lane *lanes, size_t *n_assigned)
{
    static const char sql[] =
        "SELECT r.concurrency_key, e.kind, r.score_ms FROM run_events e JOIN runs r ON r.id = "
        "e.run_id "
        "WHERE e.kind IN ('run.lease_assigned', 'run.lease_released') ORDER BY e.id";
    static const struct query history = {"test_history", 0, 3, SAME_ON_BOTH(sql)};
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(service->server->store, &tx, &err) ||
        !store_run(tx, &history, NULL, 0, &service->arena, &rows, &err))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct lane *lane = lane_of(lanes, row_str(&rows, i, 0));
        bool is_assigned = str_equal(row_str(&rows, i, 1), STR("run.lease_assigned"));

        lane->live += is_assigned ? 1 : -1;
        lane->most = lane->live > lane->most ? lane->live : lane->most;
        if (!is_assigned)
            continue;
        ++*n_assigned;
        lane->is_in_order &= row_int(&rows, i, 2) >= lane->last_score;
        lane->last_score = row_int(&rows, i, 2);
    }
    return true;
}

SERVICE_TEST(no_key_has_more_than_its_limit_and_each_goes_by_age)
{
    const char *wanted = getenv("QUEUE_RUNS");
    int runs = wanted ? (int)strtol(wanted, NULL, 10) : RUNS;
    static struct stage stage;
    static struct lane lanes[KEYS + 1];
    size_t n_assigned = 0;
    int n_full = 0;
    memset(lanes, 0, sizeof lanes);
    CHECK(runs > 0 && runs <= RUNS_MAX);
    /* Nobody beats for the worker, and many runs take longer than it may be silent. */
    sweeper_stop(service->server->sweeper);
    service->server->sweeper = NULL;
    CHECK(set_stage(service, &stage) && queue_runs(service, &stage, runs));
    for (int ended = 0; ended < runs; ended++) {
        if (stage.n_held < SLOTS / 2)
            CHECK(take(service, &stage));
        CHECK(stage.n_held > 0 && end_one(&stage));
    }
    CHECK(read_history(service, lanes, &n_assigned));
    CHECK(n_assigned == (size_t)runs && !lanes[KEYS].key.ptr);
    for (size_t i = 0; i < KEYS && lanes[i].key.ptr; i++) {
        CHECK(lanes[i].live == 0 && lanes[i].most <= LIMIT && lanes[i].is_in_order);
        n_full += lanes[i].most == LIMIT;
    }
    CHECK(n_full > 0); /* else nothing was limited */
}

TEST_MAIN()
