/* A queue of any length: what its heads say, which lanes are open, and how it is looked at. */
#include "server/queue.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define NUMBERS(n) \
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " #n ") "

CHANGE(lateness, "UPDATE ready SET ttl_ms = 1 WHERE subject_id = $1");

struct stage {
    struct test_worker worker;
    const char *key;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    return worker_join(&stage->worker, service, "one") &&
           service_build(service, &stage->worker, stage->key);
}

/* Nothing but the test then changes what waits. */
static void stop_sweeper(struct service *service)
{
    sweeper_stop(service->server->sweeper);
    service->server->sweeper = NULL;
}

static int64_t number(struct service *service, const struct query *query,
                      const struct value *params)
{
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (store_begin_read(service->server->store, &tx, &err) &&
        store_run(tx, query, params, (size_t)query->n_params, &service->arena, &rows, &err))
        return row_int(&rows, 0, 0);
    printf("# %s\n", err.text);
    return -1;
}

/* Heads that are not the first due item of their lane and shape, lanes with due items and no head,
 * and heads that are open in a full lane or closed in one with a place. */
static int64_t n_wrong_heads(struct service *service)
{
    static const char sql[] =
        "SELECT (SELECT count(*) FROM heads h WHERE h.ready_id <> coalesce((SELECT r.id FROM ready "
        "r "
        "WHERE r.lane_id = h.lane_id AND r.shape_id = h.shape_id AND r.is_due = 1 "
        "ORDER BY r.score_ms, r.id LIMIT 1), '')) "
        "+ (SELECT count(*) FROM ready r WHERE r.is_due = 1 AND NOT EXISTS (SELECT 1 FROM heads h "
        "WHERE h.lane_id = r.lane_id AND h.shape_id = r.shape_id)) "
        "+ (SELECT count(*) FROM heads h JOIN lanes n ON n.id = h.lane_id WHERE h.is_open <> "
        "CASE WHEN n.max_live IS NULL OR n.max_live > (SELECT count(*) FROM leases l "
        "WHERE l.lane_id = n.id AND l.live = 1) THEN 1 ELSE 0 END)";
    static const struct query query = {"test_wrong_heads", 0, 1, SAME_ON_BOTH(sql)};

    return number(service, &query, NULL);
}

static bool make_lanes(struct service *service, char lanes[][ID_TEXT], size_t n)
{
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin(service->server->store, &tx, &err))
        return false;
    for (size_t i = 0; i < n; i++) {
        id_make(lanes[i]);
        if (!STORE(tx, &lane_upsert, &service->arena, &rows, &err, V_TEXT(lanes[i]),
                   V_TEXT(service->environment_id), V_TEXT("run"), V_TEXT("q"), V_TEXT(lanes[i]),
                   i % 2 ? V_INT(i) : V_NULL, V_INT(time_now_ms())))
            return false;
    }
    return store_commit(&tx, &err);
}

/* Something of what can happen to a queue, by the numbers given. */
static bool change_queue(struct service *service, const char *lane, char subject[ID_TEXT],
                         unsigned what)
{
    static const char sql[] = "UPDATE lanes SET max_live = $2 WHERE id = $1";
    static const struct query limit = {"test_limit", 2, 0, SAME_ON_BOTH(sql)};
    struct error err;
    AUTO_TX tx = NULL;
    const struct queue_item item = {
        .kind = "run",
        .subject_id = subject,
        .lane_id = lane,
        .environment_id = service->environment_id,
        .score_ms = what % 7,
        .not_before_ms = what % 5 ? 0 : time_now_ms() + 3600000,
        .cpu_millis = what % 3,
    };
    bool is_in = *subject;

    if (!is_in)
        id_make(subject);
    bool ok = store_begin(service->server->store, &tx, &err) &&
              (!is_in          ? queue_put(tx, &item, &err)
               : what % 4 == 0 ? queue_promote(tx, subject, &err)
                               : queue_remove(tx, subject, &err)) &&
              (what % 11 || (STORE(tx, &limit, NULL, NULL, &err, V_TEXT(lane),
                                   what % 2 ? V_INT(what % 3) : V_NULL) &&
                             queue_relimit(tx, lane, &err))) &&
              store_commit(&tx, &err);
    if (!ok)
        printf("# %s\n", err.text);
    if (is_in && what % 4)
        *subject = '\0';
    return ok;
}

SERVICE_TEST(heads_say_what_the_queue_holds_after_any_change)
{
    enum { LANES = 4, SUBJECTS = 24, CHANGES = 400 };
    static char lanes[LANES][ID_TEXT];
    static char subjects[SUBJECTS][ID_TEXT];
    unsigned random = 4711;
    memset(subjects, 0, sizeof subjects);
    stop_sweeper(service);
    CHECK(make_lanes(service, lanes, LANES));
    for (int i = 0; i < CHANGES; i++) {
        random = random * 1103515245 + 12345;
        size_t at = (random >> 16) % SUBJECTS;
        CHECK(change_queue(service, lanes[at % LANES], subjects[at], random >> 8));
        if (i % 10 == 0)
            CHECK(n_wrong_heads(service) == 0);
    }
    CHECK(n_wrong_heads(service) == 0);
}

SERVICE_TEST(a_run_past_its_ttl_is_refused_at_the_claim)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    const char *late[3], *next;
    for (size_t i = 0; i < COUNT_OF(late); i++) {
        late[i] = service_start_run(service, stage.key, "hello", "{\"ttl\":\"1h\"}");
        CHECK(service_change(service, &lateness, &V_TEXT(late[i]), 1, 1));
    }
    next = service_start_run(service, stage.key, "hello", NULL);
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STR(stage.worker.subject, next);
    for (size_t i = 0; i < COUNT_OF(late); i++)
        CHECK_STR(run_text(service, stage.key, late[i], "status"), "expired");
    CHECK(n_wrong_heads(service) == 0);
}

/* A row that should not be there must not hold up what is behind it. */
SERVICE_TEST(what_is_not_queued_any_more_holds_up_nobody)
{
    CHANGE(leave, "UPDATE runs SET state = 'leased' WHERE id = $1");
    struct stage stage;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    const char *gone = service_start_run(service, stage.key, "hello", NULL);
    const char *next = service_start_run(service, stage.key, "hello", NULL);
    CHECK(service_change(service, &leave, &V_TEXT(gone), 1, 1));
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STR(stage.worker.subject, next);
    CHECK(n_wrong_heads(service) == 0);
}

static int64_t n_keyed_lanes(struct service *service)
{
    static const char sql[] = "SELECT count(*) FROM lanes WHERE concurrency_key <> ''";
    static const struct query query = {"test_keyed_lanes", 0, 1, SAME_ON_BOTH(sql)};

    return number(service, &query, NULL);
}

static bool collect_in(struct service *service, int64_t ms)
{
    struct error err;
    AUTO_TX tx = NULL;

    return store_begin(service->server->store, &tx, &err) &&
           queue_collect(tx, time_now_ms() + ms, &err) && store_commit(&tx, &err);
}

SERVICE_TEST(lanes_of_keys_go_when_nothing_can_come_back_to_them)
{
    static const char keyed[] = "{\"queue\":{\"name\":\"narrow\"},\"concurrency_key\":\"a\"}";
    enum { HOUR_MS = 3600 * 1000 };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *run = service_start_run(service, stage.key, "hello", keyed);
    CHECK(collect_in(service, HOUR_MS) && n_keyed_lanes(service) == 1); /* it is queued */
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    CHECK(collect_in(service, HOUR_MS) && n_keyed_lanes(service) == 1); /* it runs */
    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 200);
    CHECK(collect_in(service, 0) && n_keyed_lanes(service) == 1); /* it was used just now */
    CHECK(collect_in(service, HOUR_MS) && n_keyed_lanes(service) == 0);
    /* The run is shown as before, and the key can be used again. */
    CHECK_STR(run_text(service, stage.key, run, "concurrency_key"), "a");
    CHECK(*service_start_run(service, stage.key, "hello", keyed) && n_keyed_lanes(service) == 1);
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK(collect_in(service,
                     48 * (int64_t)HOUR_MS)); /* shapes, too, and not the one that is used again */
    CHECK(*service_start_run(service, stage.key, "hello", NULL));
    CHECK(worker_take(&stage.worker, "run"));
}

/* What comes back to a lane that is gone finds one of the same name. */
SERVICE_TEST(a_run_whose_lane_is_gone_gets_it_back)
{
    CHANGE(forget, "UPDATE runs SET lane_id = 'gone' WHERE id = $1");
    static const char keyed[] =
        "{\"queue\":{\"name\":\"narrow\"},\"concurrency_key\":\"a\",\"retry\":{\"max_attempts\":2,"
        "\"backoff\":{\"min_ms\":0,\"max_ms\":0}}}";
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *run = service_start_run(service, stage.key, "hello", keyed);
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK_STATUS(service, lease_start(&stage.worker), 200);
    CHECK(service_change(service, &forget, &V_TEXT(run), 1, 1));
    CHECK_STATUS(service, lease_report(&stage.worker, "failed", TASK_FAILED), 200);
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STR(stage.worker.subject, run);
    CHECK(n_keyed_lanes(service) == 1 && n_wrong_heads(service) == 0);
}

/* 20,000 items in one lane, 10,000 in as many lanes of which half are full, 5,000 that are not due
 * and 5,000 that no worker fits; and as many leases, most of them over. */
static bool fill(struct service *service, const char *worker_id)
{
    static const char *const steps[] = {
        "INSERT INTO shapes (id, environment_id, kind, cpu_millis, memory_mib, disk_mib, arch, "
        "compat, "
        "key_id, used_ms) SELECT 'fits', $1, 'run', 1000, 512, 1024, '', '', '', 0 UNION ALL "
        "SELECT 'huge', $1, 'run', 1000000000, 512, 1024, '', '', $2, 0",
        "INSERT INTO lanes (id, environment_id, kind, queue, concurrency_key, max_live) " NUMBERS(
            10000) "SELECT 'lane-' || CAST(i AS TEXT), $1, 'run', 'q', $2 || CAST(i AS TEXT), 1 "
                   "FROM n",
        "INSERT INTO ready (id, kind, subject_id, lane_id, shape_id, score_ms, not_before_ms, "
        "is_due) " NUMBERS(
            40000) "SELECT $1 || CAST(i AS TEXT), 'run', $2 || CAST(i AS TEXT), 'lane-' || "
                   "CAST(CASE "
                   "WHEN i > 20000 THEN i % 10000 + 1 ELSE 1 END AS TEXT), CASE WHEN i % 8 = 0 "
                   "THEN "
                   "'huge' ELSE 'fits' END, i, 0, CASE WHEN i % 8 = 1 THEN 0 ELSE 1 END FROM n",
        "INSERT INTO leases (id, subject_kind, subject_id, environment_id, lane_id, attempt, "
        "sequence, "
        "worker_id, epoch, state, live, granted_ms, expires_ms) " NUMBERS(
            10000) "SELECT 'l' || CAST(i AS TEXT), 'run', 'x' || CAST(i AS TEXT), $1, 'lane-' || "
                   "CAST(i AS TEXT), 1, 1, $2, 1, CASE WHEN i % 20 = 0 THEN 'running' ELSE "
                   "'completed' END, CASE WHEN i % 20 = 0 THEN 1 ELSE 0 END, 0, 4000000000000 FROM "
                   "n",
        "INSERT INTO heads (lane_id, shape_id, ready_id, score_ms, is_open) SELECT lane_id, "
        "shape_id, "
        "min(id), min(score_ms), CASE WHEN lane_id > $1 THEN 1 ELSE 0 END FROM ready "
        "WHERE is_due = 1 AND lane_id <> $2 GROUP BY lane_id, shape_id",
    };
    static struct query queries[2][COUNT_OF(steps)];
    bool is_postgres = store_is_postgres(service->server->store);
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin(service->server->store, &tx, &err))
        return false;
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        struct query *query = &queries[is_postgres][i];
        bool has_ids = i != 2 && i != 4;
        *query = (struct query){arena_printf(&service->arena, "test_fill_%zu", i), 2, 0,
                                SAME_ON_BOTH(steps[i])};
        if (!STORE(tx, query, NULL, NULL, &err,
                   V_TEXT(has_ids ? service->environment_id : "lane-5"),
                   V_TEXT(i == 3 ? worker_id : "k"))) {
            printf("# %s\n", err.text);
            return false;
        }
    }
    static const struct query analyze = {"test_analyze", 0, 0, SAME_ON_BOTH("ANALYZE")};
    return store_run(tx, &analyze, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err);
}

/* A step that reads a whole table of the queue, or sorts what it holds. */
static bool is_dear(const char *step)
{
    static const char *const tables[] = {"Seq Scan on ready", "Seq Scan on lanes",
                                         "Seq Scan on heads", "Seq Scan on leases"};
    static const char *const names[] = {"h", "n", "r", "y", "l", "ready", "lanes", "heads"};

    for (size_t i = 0; i < COUNT_OF(tables); i++)
        if (strstr(step, tables[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t len = strlen(names[i]);
        if (strncmp(step, "SCAN ", 5) == 0 && strncmp(step + 5, names[i], len) == 0 &&
            (step[5 + len] == '\0' || step[5 + len] == ' '))
            return true;
    }
    return false;
}

/* What the engine would do, one step a row, in the last column. */
static bool goes_by_index(struct service *service, const struct query *query,
                          const struct value *params, size_t slot)
{
    static struct query explained[2][9]; /* the store knows a query by its address */
    bool is_postgres = store_is_postgres(service->server->store), ok;
    struct query *mine = &explained[is_postgres][slot];
    struct error err;
    struct rows plan;
    AUTO_TX tx = NULL;

    *mine = (struct query){
        .name = arena_printf(&service->arena, "test_%s", query->name),
        .n_params = query->n_params,
        .n_columns = is_postgres ? 1 : 4,
        .sqlite = arena_printf(&service->arena, "EXPLAIN QUERY PLAN %s", query->sqlite),
        .postgres = arena_printf(&service->arena, "EXPLAIN %s", query->postgres),
    };
    ok = store_begin(service->server->store, &tx, &err) &&
         store_run(tx, mine, params, (size_t)query->n_params, &service->arena, &plan, &err) &&
         plan.n_rows > 0;
    if (!ok)
        printf("# %s\n", err.text);
    bool is_cheap = ok;
    for (size_t i = 0; is_cheap && i < plan.n_rows; i++)
        is_cheap = !is_dear(row_text(&plan, i, plan.n_columns - 1));
    for (size_t i = 0; ok && i < plan.n_rows && (!is_cheap || getenv("SHOW_PLANS")); i++)
        printf("# %s\n", row_text(&plan, i, plan.n_columns - 1));
    return is_cheap;
}

SERVICE_TEST(a_claim_goes_by_index_at_any_backlog)
{
    static const char sql[] = "SELECT group_id FROM environments WHERE id = $1";
    static const struct query group_of = {"test_group", 1, 1, SAME_ON_BOTH(sql)};
    struct stage stage;
    struct error err;
    struct rows group;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    CHECK(fill(service, stage.worker.id));
    {
        AUTO_TX tx = NULL;
        CHECK(store_begin_read(service->server->store, &tx, &err) &&
              STORE(tx, &group_of, &service->arena, &group, &err, V_TEXT(service->environment_id)));
    }
    const struct value claim[] = {V_STR(row_str(&group, 0, 0)),
                                  V_INT(1),
                                  V_INT(1),
                                  V_INT(64000),
                                  V_INT(65536),
                                  V_INT(65536),
                                  V_INT(2),
                                  V_TEXT("x86_64"),
                                  V_INT(1),
                                  V_TEXT("compat"),
                                  V_TEXT("key"),
                                  V_INT(1),
                                  V_TEXT(QUEUE_RULES)};
    const struct value place[] = {V_TEXT("lane-1"), V_TEXT("fits")};
    const struct value late[] = {V_INT(time_now_ms()), V_INT(100)};
    const struct value overdue[] = {V_INT(time_now_ms()), V_INT(time_now_ms() - 5000), V_INT(100)};
    const struct value equals[] = {V_TEXT("fits"), V_INT(3)};
    CHECK(goes_by_index(service, &claim_next, claim, 0));
    CHECK(goes_by_index(service, &claim_equals, equals, 7));
    CHECK(goes_by_index(service, &group_has_work, claim, 8));
    CHECK(goes_by_index(service, &head_next, place, 1));
    CHECK(goes_by_index(service, &lane_recount, place, 2));
    CHECK(goes_by_index(service, &ready_due, late, 3));
    CHECK(goes_by_index(service, &runs_past_ttl, late, 4));
    CHECK(goes_by_index(service, &groups_waiting, NULL, 5));
    CHECK(goes_by_index(service, &leases_overdue, overdue, 6));
}

TEST_MAIN()
