/* Who is woken by what: each wake-up is the turn of one waiting poll after the other. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/json.h"
#include "http/server_state.h"
#include "server/queue.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/worker_testing.h"
#include "store/queries.h"

enum { WAIT_MS = 25 * 1000, PATIENCE_MS = 15 * 1000 };

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

static size_t n_grants(const struct service *service)
{
    return json_count(buf_str(&service->answer.body), "grants");
}

#define REJECTED                                                               \
    ",\"layer\":\"guest_runtime\",\"failure_kind\":\"boot_failed\",\"stage\":" \
    "\"start\",\"text\":\"t\",\"retryable\":true"
static bool ask_for_grade(struct service *service, int64_t grade)
{
    static const char sql[] = "UPDATE environments SET min_grade = $1 WHERE id = $2";
    static const struct query set = {"test_ask_for_grade", 2, 0, SAME_ON_BOTH(sql)};
    const struct value params[] = {V_INT(grade), V_TEXT(service->environment_id)};

    return service_change(service, &set, params, 2, 1);
}

/* As the sweeper does when its time has come. */
static bool promote(struct service *service, const char *run)
{
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin(service->server->store, &tx, &err) || !queue_promote(tx, run, &err) ||
        !store_commit(&tx, &err))
        return false;
    hub_wake(&service->server->hub, TOPIC_ALL);
    return true;
}

static int finish(struct test_worker *worker)
{
    return lease_begin(worker) == 200 && lease_start(worker) == 200
               ? lease_report(worker, "succeeded", "")
               : -1;
}

/* Nothing but a wake-up may then end a wait. */
static void stop_sweeper(struct service *service)
{
    sweeper_stop(service->server->sweeper);
    service->server->sweeper = NULL;
}

/* A poll on a thread of its own that gives up long before its wait is over. */
struct waiting {
    struct test_worker worker;
    pthread_t thread;
    size_t n_grants;
    char subject[ID_TEXT];
    int status;
};

static void *wait_for_work(void *arg)
{
    struct waiting *waiting = arg;
    struct service *service = waiting->worker.service;
    const char *body =
        arena_printf(&service->arena,
                     "{\"epoch\":%lld,\"cursor\":0,\"wait_ms\":%d,\"accept\":"
                     "[\"run\"],\"known\":[\"%s\"],\"free\":{\"cpu_millis\":64000,"
                     "\"memory_mib\":65536,\"disk_mib\":65536,\"slots\":1,"
                     "\"build_slots\":0}}",
                     (long long)waiting->worker.epoch, WAIT_MS, waiting->worker.lease);
    const struct http_request request = {.method = "POST",
                                         .path = "/api/worker/poll",
                                         .body = str_of(body),
                                         .timeout_ms = PATIENCE_MS};

    waiting->status = service_send(service, waiting->worker.bearer, &request);
    waiting->n_grants = n_grants(service);
    snprintf(waiting->subject, ID_TEXT, "%s", service_text(service, "grants.0.run.run_id"));
    return NULL;
}

struct probe {
    struct server *server;
    uint64_t n_places;
    sem_t done;
};

static void read_places(void *arg)
{
    struct probe *probe = arg;

    probe->n_places = probe->server->http->topics.n_places;
    sem_post(&probe->done);
}

/* How many polls have begun to wait in turn; read where it is written. */
static uint64_t places_given(struct server *server)
{
    struct probe probe = {.server = server};

    sem_init(&probe.done, 0, 0);
    loop_post(server->loop, read_places, &probe);
    sem_wait(&probe.done);
    sem_destroy(&probe.done);
    return probe.n_places;
}

/* It waits when this returns. */
static void begin_waiting(struct waiting *waiting, const struct test_worker *worker)
{
    uint64_t before = places_given(worker->service->server);

    *waiting = (struct waiting){.worker = *worker};
    waiting->worker.service = service_view(worker->service);
    if (pthread_create(&waiting->thread, NULL, wait_for_work, waiting) != 0)
        abort();
    while (places_given(worker->service->server) == before)
        sched_yield();
}

static void end_waiting(struct waiting *waiting)
{
    pthread_join(waiting->thread, NULL);
    service_view_end(waiting->worker.service);
}

SERVICE_TEST(a_waiting_poll_gets_work)
{
    struct stage stage;
    struct waiting waiting;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    begin_waiting(&waiting, &stage.worker);
    const char *run = service_start_run(service, stage.key, "hello", NULL);
    end_waiting(&waiting);
    CHECK(waiting.status == 200 && waiting.n_grants == 1);
    CHECK_STR(waiting.subject, run);
}

/* One item completes one poll, that of who waits longest; the others wait on. */
SERVICE_TEST(a_wake_up_completes_one_waiting_poll_per_item)
{
    enum { WAITERS = 4 };
    struct stage stage;
    struct test_worker workers[WAITERS] = {0};
    struct waiting waiting[WAITERS];
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    for (int i = 0; i < WAITERS; i++) {
        CHECK(worker_join(&workers[i], service, arena_printf(&service->arena, "waits-%d", i)));
        begin_waiting(&waiting[i], &workers[i]);
    }
    for (int i = 0; i < WAITERS; i++) {
        const char *run = service_start_run(service, stage.key, "hello", NULL);
        end_waiting(&waiting[i]);
        CHECK(waiting[i].status == 200 && waiting[i].n_grants == 1);
        CHECK_STR(waiting[i].subject, run);
    }
}

/* What is too much for who waits longest goes past, and it keeps its place. */
SERVICE_TEST(the_longest_waiting_poll_that_fits_is_completed)
{
    struct stage stage;
    struct test_worker weak = {.grade = "shared-kernel"}, strong = {.grade = "microvm"};
    struct waiting first, second, third;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    CHECK(worker_join(&weak, service, "weak") && worker_join(&strong, service, "strong"));
    begin_waiting(&first, &weak);
    begin_waiting(&second, &strong);
    begin_waiting(&third, &strong);
    CHECK(ask_for_grade(service, 2));
    const char *run = service_start_run(service, stage.key, "hello", NULL);
    end_waiting(&second);
    CHECK_STR(second.subject, run);
    CHECK(ask_for_grade(service, 0));
    run = service_start_run(service, stage.key, "hello", NULL);
    end_waiting(&first);
    CHECK_STR(first.subject, run);
    run = service_start_run(service, stage.key, "hello", NULL);
    end_waiting(&third);
    CHECK(*run && third.n_grants > 0);
}

SERVICE_TEST(who_has_just_rejected_an_item_gets_it_last)
{
    struct stage stage;
    struct test_worker other = {0};
    struct waiting rejecter, another;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    CHECK(worker_join(&other, service, "other"));
    const char *run = service_start_run(service, stage.key, "hello", NULL);
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STATUS(service, lease_post(&stage.worker, "reject", REJECTED), 200);
    begin_waiting(&rejecter, &stage.worker);
    begin_waiting(&another, &other);
    CHECK(promote(service, run));
    end_waiting(&another);
    CHECK(another.n_grants == 1);
    CHECK_STR(another.subject, run);
    const char *next = service_start_run(service, stage.key, "hello", NULL);
    end_waiting(&rejecter);
    CHECK_STR(rejecter.subject, next);
}

SERVICE_TEST(what_nobody_else_can_take_goes_back_to_who_rejected_it)
{
    struct stage stage;
    struct test_worker weak = {.grade = "shared-kernel"};
    struct waiting rejecter, another;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    CHECK(worker_join(&weak, service, "weak") && ask_for_grade(service, 1));
    const char *run = service_start_run(service, stage.key, "hello", NULL);
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STATUS(service, lease_post(&stage.worker, "reject", REJECTED), 200);
    begin_waiting(&another, &weak);
    begin_waiting(&rejecter, &stage.worker);
    CHECK(promote(service, run));
    end_waiting(&rejecter);
    CHECK_STR(rejecter.subject, run);
    CHECK(ask_for_grade(service, 0));
    const char *next = service_start_run(service, stage.key, "hello", NULL);
    end_waiting(&another);
    CHECK_STR(another.subject, next);
}

SERVICE_TEST(a_full_queue_is_skipped_and_goes_on_when_a_place_is_free)
{
    static const char narrow[] = "{\"queue\":{\"name\":\"narrow\"}}";
    struct stage stage;
    struct waiting waiting;
    struct test_worker second, third;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    for (int i = 0; i < 2; i++)
        CHECK(*service_start_run(service, stage.key, "hello", narrow));
    const char *later = service_start_run(service, stage.key, "hello", narrow);
    const char *other = service_start_run(service, stage.key, "hello", NULL);
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    second = stage.worker;
    CHECK(worker_take(&second, "run"));
    CHECK_STATUS(service, lease_begin(&second), 200);
    third = stage.worker;
    CHECK(worker_take(&third, "run"));
    CHECK_STR(third.subject, other);
    CHECK_STATUS(service, lease_begin(&third), 200);

    begin_waiting(&waiting, &stage.worker);
    CHECK_STATUS(service, finish(&second), 200);
    end_waiting(&waiting);
    CHECK(waiting.status == 200 && waiting.n_grants == 1);
    CHECK_STR(waiting.subject, later);
}

SERVICE_TEST(too_many_topics_wake_everyone)
{
    struct stage stage;
    struct waiting waiting;
    struct wakes wakes = {0};
    struct error err;
    CHECK(set_stage(service, &stage));
    stop_sweeper(service);
    CHECK(*service_start_run(service, stage.key, "hello", NULL));
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    for (int i = 0; i < 2 * WAKES_MAX; i++)
        wakes_add(&wakes, "t", arena_printf(&service->arena, "%d", i));
    CHECK(wakes.n == WAKES_MAX && wakes.is_everyone);

    /* The run goes back into the queue without a word to its group. */
    begin_waiting(&waiting, &stage.worker);
    {
        static const char lose[] = "UPDATE leases SET state = 'lost', live = 0 WHERE id = $1";
        static const char queue[] = "UPDATE runs SET state = 'queued' WHERE id = $1";
        static const struct query lost = {"test_lose", 1, 0, SAME_ON_BOTH(lose)};
        static const struct query queued = {"test_queue", 1, 0, SAME_ON_BOTH(queue)};
        AUTO_TX tx = NULL;
        CHECK(store_begin(service->server->store, &tx, &err));
        CHECK(STORE(tx, &lost, NULL, NULL, &err, V_TEXT(stage.worker.lease)) &&
              STORE(tx, &queued, NULL, NULL, &err, V_TEXT(stage.worker.subject)) &&
              queue_put_run(tx, stage.worker.subject, 0, NULL, &err));
        CHECK(hub_commit(&service->server->hub, &tx, &wakes, &err));
    }
    end_waiting(&waiting);
    CHECK(waiting.status == 200 && waiting.n_grants == 1);
}

TEST(a_poll_at_one_server_is_woken_by_another)
{
    const char *skip = NULL;
    struct service *first = service_start(ON_POSTGRES, &skip);
    if (!first)
        SKIP(skip);
    struct service *second = service_start_beside(first);
    struct stage stage;
    struct waiting waiting = {0};
    bool is_ready = set_stage(first, &stage);
    const char *run = "";

    stop_sweeper(first);
    stop_sweeper(second);
    if (is_ready) {
        stage.worker.service = second;
        begin_waiting(&waiting, &stage.worker);
        run = service_start_run(first, stage.key, "hello", NULL);
        end_waiting(&waiting);
    }
    run = *run ? waiting.n_grants == 1 && strcmp(waiting.subject, run) == 0 ? "woken" : "not" : "";
    service_stop(second);
    service_stop(first);
    CHECK_STR(run, "woken");
}

TEST_MAIN()
