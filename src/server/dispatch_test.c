/* Which item a poll gets, and that nobody else gets it. */
#include <pthread.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/own.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

enum { CLAIMERS = 64 };

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

static bool takes_nothing(struct test_worker *worker, const struct test_room *room)
{
    return worker_poll(worker, "[\"run\"]", room, 0, "[]") == 200 && n_grants(worker->service) == 0;
}

static int finish(struct test_worker *worker)
{
    return lease_begin(worker) == 200 && lease_start(worker) == 200
               ? lease_report(worker, "succeeded", "")
               : -1;
}

/* Many workers that claim at once. */
struct claimer {
    struct test_worker worker;
    pthread_t thread;
    pthread_barrier_t *start;
    int64_t slots;
    size_t n_grants;
    int status;
    char runs[64][ID_TEXT];
};

static void *claim(void *arg)
{
    struct claimer *claimer = arg;
    struct service *service = claimer->worker.service;
    struct test_room room = large_room;

    room.slots = claimer->slots;
    pthread_barrier_wait(claimer->start);
    claimer->status = worker_poll(&claimer->worker, "[\"run\"]", &room, 0, "[]");
    claimer->n_grants = n_grants(service);
    for (size_t i = 0; i < claimer->n_grants && i < COUNT_OF(claimer->runs); i++)
        snprintf(claimer->runs[i], ID_TEXT, "%s",
                 service_text(service, arena_printf(&service->arena, "grants.%zu.run.run_id", i)));
    return NULL;
}

/* The services are taken in turns. */
static bool make_claimers(struct claimer *claimers, size_t n, struct service *const *services,
                          size_t n_services)
{
    for (size_t i = 0; i < n; i++) {
        struct service *service = services[i % n_services];
        claimers[i] = (struct claimer){.slots = 1};
        if (!worker_join(&claimers[i].worker, services[0],
                         arena_printf(&services[0]->arena, "claimer-%zu", i)))
            return false;
        claimers[i].worker.service = service_view(service);
    }
    return true;
}

static size_t claim_together(struct claimer *claimers, size_t n)
{
    pthread_barrier_t start;
    size_t total = 0;

    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (size_t i = 0; i < n; i++) {
        claimers[i].start = &start;
        if (pthread_create(&claimers[i].thread, NULL, claim, &claimers[i]) != 0)
            abort();
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(claimers[i].thread, NULL);
        total += claimers[i].status == 200 ? claimers[i].n_grants : 1000;
    }
    pthread_barrier_destroy(&start);
    return total;
}

static void end_claimers(struct claimer *claimers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        service_view_end(claimers[i].worker.service);
    free(claimers);
}

SERVICE_TEST(no_queue_exceeds_its_limit_under_64_claimers)
{
    struct claimer *claimers = alloc(CLAIMERS * sizeof *claimers);
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(make_claimers(claimers, CLAIMERS, &service, 1));
    for (int i = 0; i < 6; i++)
        CHECK(*service_start_run(service, stage.key, "hello", "{\"queue\":{\"name\":\"narrow\"}}"));
    CHECK(claim_together(claimers, CLAIMERS) == 2);
    /* Those two are sent again to whom they belong, and nothing else is given out. */
    CHECK(claim_together(claimers, CLAIMERS) == 2);
    end_claimers(claimers, CLAIMERS);
}

static bool all_differ(const struct claimer *claimers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < claimers[i].n_grants; j++)
            for (size_t k = 0; k <= i; k++)
                for (size_t m = 0; m < (k == i ? j : claimers[k].n_grants); m++)
                    if (strcmp(claimers[i].runs[j], claimers[k].runs[m]) == 0)
                        return false;
    return true;
}

TEST(two_servers_never_grant_one_run_twice)
{
    enum { WORKERS = 16, RUNS = 40 };
    const char *skip = NULL;
    struct service *first = service_start(ON_POSTGRES, &skip);
    if (!first)
        SKIP(skip);
    struct service *second = service_start_beside(first), *both[] = {first, second};
    struct claimer *claimers = alloc(WORKERS * sizeof *claimers);
    struct stage stage;

    bool is_ready = set_stage(first, &stage) && make_claimers(claimers, WORKERS, both, 2);
    for (int i = 0; is_ready && i < RUNS; i++)
        is_ready = *service_start_run(first, stage.key, "hello", NULL);
    for (size_t i = 0; is_ready && i < WORKERS; i++)
        claimers[i].slots = 5;
    size_t total = is_ready ? claim_together(claimers, WORKERS) : 0;
    bool differ = is_ready && all_differ(claimers, WORKERS);
    end_claimers(claimers, WORKERS);
    service_stop(second);
    service_stop(first);
    CHECK(total == RUNS && differ);
}

SERVICE_TEST(the_environment_with_the_fewest_leases_is_next)
{
    static const char sql[] = "UPDATE shapes SET environment_id = $1 WHERE cpu_millis = 4000";
    static const struct query move = {"test_move_shape", 1, 0, SAME_ON_BOTH(sql)};
    struct stage stage;
    const char *flood[3];
    CHECK(set_stage(service, &stage));
    for (size_t i = 0; i < COUNT_OF(flood); i++)
        flood[i] = service_start_run(service, stage.key, "hello", NULL);
    const char *quiet = service_start_run(service, stage.key, "large", NULL);
    CHECK(service_change(service, &move, &V_TEXT(service->staging_id), 1, 1));
    const char *const order[] = {flood[0], quiet, flood[1], flood[2]};
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        struct test_worker worker = stage.worker;
        CHECK(worker_take(&worker, "run"));
        CHECK_STR(worker.subject, order[i]);
        CHECK_STATUS(service, lease_begin(&worker), 200);
    }
}

SERVICE_TEST(a_flood_in_one_environment_delays_another_by_one_grant)
{
    static const char sql[] = "UPDATE shapes SET environment_id = $1 WHERE cpu_millis = 4000";
    static const struct query move = {"test_move_late_shape", 1, 0, SAME_ON_BOTH(sql)};
    enum { FLOOD = 30 };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    for (int i = 0; i < FLOOD; i++)
        CHECK(*service_start_run(service, stage.key, "hello", "{\"priority\":600}"));
    for (int i = 0; i < FLOOD / 2; i++) {
        struct test_worker worker = stage.worker;
        CHECK(worker_take(&worker, "run"));
        CHECK_STATUS(service, lease_begin(&worker), 200);
    }
    /* However much is running and waiting there, and however early it is. */
    const char *quiet = service_start_run(service, stage.key, "large", NULL);
    CHECK(service_change(service, &move, &V_TEXT(service->staging_id), 1, 1));
    CHECK(worker_take(&stage.worker, "run"));
    CHECK_STR(stage.worker.subject, quiet);
}

static int poll_warm(struct test_worker *worker, const char *warm)
{
    return worker_post(worker, "poll",
                       arena_printf(&worker->service->arena,
                                    "{\"epoch\":%lld,\"cursor\":0,\"wait_ms\":0,\"accept\":"
                                    "[\"run\"],\"known\":[\"%s\"],\"free\":{\"cpu_millis\":64000,"
                                    "\"memory_mib\":65536,\"disk_mib\":65536,\"slots\":1,"
                                    "\"build_slots\":0},\"warm\":{%s}}",
                                    (long long)worker->epoch, worker->lease, warm));
}

/* Takes one and holds it. */
static const char *take_warm(struct test_worker *worker, const char *warm)
{
    struct service *service = worker->service;

    if (poll_warm(worker, warm) != 200 || n_grants(service) != 1)
        return "";
    const char *run = service_text(service, "grants.0.run.run_id");
    snprintf(worker->lease, ID_TEXT, "%s", service_text(service, "grants.0.lease_id"));
    worker->sequence = service_int(service, "grants.0.sequence");
    return lease_begin(worker) == 200 ? run : "";
}

SERVICE_TEST(a_warm_worker_takes_nothing_out_of_order)
{
    CHANGE(same_age, "UPDATE heads SET score_ms = $1");
    CHANGE(same_score, "UPDATE ready SET score_ms = $1");
    CHANGE(name_image, "UPDATE deployment_sandboxes SET image_digest = 'sha256:hall' "
                       "WHERE sandbox_id = $1");
    static const char hall[] = "\"templates\":[\"t\"],\"drives\":[\"d\",\"sha256:hall\"]";
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(service_change(service, &name_image, &V_TEXT("hall"), 1, 1));
    const char *cold = service_start_run(service, stage.key, "hello", NULL);
    const char *warm = service_start_run(service, stage.key, "large", NULL);
    CHECK_STR(take_warm(&stage.worker, hall), cold); /* which is older */
    CHECK_STR(take_warm(&stage.worker, hall), warm);

    /* Of equals the warm one; the other still comes next. */
    const char *first = service_start_run(service, stage.key, "hello", NULL);
    const char *second = service_start_run(service, stage.key, "large", NULL);
    CHECK(service_change(service, &same_age, &V_INT(7), 1, 2));
    CHECK(service_change(service, &same_score, &V_INT(7), 1, 2));
    CHECK_STR(take_warm(&stage.worker, hall), second);
    CHECK_STR(take_warm(&stage.worker, hall), first);
    first = service_start_run(service, stage.key, "hello", NULL);
    second = service_start_run(service, stage.key, "large", NULL);
    CHECK(service_change(service, &same_age, &V_INT(7), 1, 2));
    CHECK(service_change(service, &same_score, &V_INT(7), 1, 2));
    CHECK_STR(take_warm(&stage.worker, "\"checkpoints\":[\"c\"]"), first);
    CHECK_STR(take_warm(&stage.worker, ""), second);
    CHECK_STATUS(service, poll_warm(&stage.worker, "\"rooms\":[]"), 400);
}

SERVICE_TEST(priority_is_age_in_seconds)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *plain = service_start_run(service, stage.key, "hello", NULL);
    const char *low = service_start_run(service, stage.key, "hello", "{\"priority\":-600}");
    const char *high = service_start_run(service, stage.key, "hello", "{\"priority\":600}");
    const char *last = service_start_run(service, stage.key, "hello", NULL);
    const char *const order[] = {high, plain, last, low};
    CHECK_STATUS(service, worker_poll(&stage.worker, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(n_grants(service) == COUNT_OF(order));
    for (size_t i = 0; i < COUNT_OF(order); i++)
        CHECK_STR(service_text(service, arena_printf(&service->arena, "grants.%zu.run.run_id", i)),
                  order[i]);
}

SERVICE_TEST(a_poll_gets_what_fits_its_room)
{
    static const struct test_room small[] = {
        {3999,  65536, 65536, 16, 4},
        {64000, 4095,  65536, 16, 4},
        {64000, 65536, 1023,  16, 4},
        {64000, 65536, 65536, 0,  4},
    };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *large = service_start_run(service, stage.key, "large", NULL);
    for (size_t i = 0; i < COUNT_OF(small); i++)
        CHECK(takes_nothing(&stage.worker, &small[i]));
    CHECK_STATUS(service, worker_poll(&stage.worker, "[\"build\"]", &large_room, 0, "[]"), 200);
    CHECK(n_grants(service) == 0);

    /* What does not fit keeps nobody else waiting, and a room is not given away twice. */
    for (int i = 0; i < 3; i++)
        CHECK(*service_start_run(service, stage.key, "hello", NULL));
    const struct test_room two = {2000, 1024, 65536, 16, 4};
    CHECK_STATUS(service, worker_poll(&stage.worker, "[\"run\"]", &two, 0, "[]"), 200);
    CHECK(n_grants(service) == 2);
    CHECK_STR(service_text(service, "grants.0.run.task.id"), "hello");
    struct test_worker second = {0};
    CHECK(worker_join(&second, service, "two"));
    const struct test_room exact = {4000, 4096, 1024, 1, 0};
    CHECK_STATUS(service, worker_poll(&second, "[\"run\"]", &exact, 0, "[]"), 200);
    CHECK_STR(service_text(service, "grants.0.run.run_id"), large);
}

SERVICE_TEST(a_weaker_grade_than_asked_for_gets_nothing)
{
    static const char sql[] = "UPDATE environments SET min_grade = $1 WHERE id = $2";
    static const struct query set = {"test_min_grade", 2, 0, SAME_ON_BOTH(sql)};
    static const char *const grades[] = {"shared-kernel", "user-kernel", "microvm"};
    struct stage stage;
    struct test_worker workers[COUNT_OF(grades)];
    CHECK(set_stage(service, &stage));
    for (size_t i = 0; i < COUNT_OF(grades); i++) {
        workers[i] = (struct test_worker){.grade = grades[i]};
        CHECK(worker_join(&workers[i], service, grades[i]));
    }
    for (size_t least = 0; least < COUNT_OF(grades); least++) {
        const struct value params[] = {V_INT(least), V_TEXT(service->environment_id)};
        const char *run = service_start_run(service, stage.key, "hello", NULL);
        const char *build = service_upload(service, stage.key);
        CHECK(service_change(service, &set, params, 2, 1));
        for (size_t i = 0; i < least; i++) {
            CHECK(takes_nothing(&workers[i], &large_room));
            CHECK_STATUS(service, worker_poll(&workers[i], "[\"build\"]", &large_room, 0, "[]"),
                         200);
            CHECK(n_grants(service) == 0);
        }
        CHECK(worker_take(&workers[least], "run"));
        CHECK_STR(workers[least].subject, run);
        CHECK_STATUS(service, finish(&workers[least]), 200);
        CHECK(worker_take(&workers[least], "build"));
        CHECK_STR(workers[least].subject, build);
        /* Given back it still asks for as much. */
        CHECK_STATUS(service, lease_post(&workers[least], "release", ",\"reason\":\"r\""), 200);
        for (size_t i = 0; i < least; i++) {
            CHECK_STATUS(service, worker_poll(&workers[i], "[\"build\"]", &large_room, 0, "[]"),
                         200);
            CHECK(n_grants(service) == 0);
        }
        CHECK(worker_take(&workers[least], "build"));
        CHECK_STATUS(service, lease_begin(&workers[least]), 200);
    }
}

SERVICE_TEST(a_grant_that_was_not_heard_of_is_sent_again)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(*service_start_run(service, stage.key, "hello", NULL));
    CHECK(worker_take(&stage.worker, "run"));
    struct test_worker again = stage.worker;
    CHECK(worker_take(&again, "run"));
    CHECK_STR(again.lease, stage.worker.lease);
    CHECK(again.sequence == stage.worker.sequence);
    const char *known = arena_printf(&service->arena, "[\"%s\"]", again.lease);
    CHECK_STATUS(service, worker_poll(&again, "[\"run\"]", &large_room, 0, known), 200);
    CHECK(n_grants(service) == 0);
    struct test_worker other = {0};
    CHECK(worker_join(&other, service, "two"));
    CHECK(takes_nothing(&other, &large_room));
    CHECK_STATUS(service, lease_begin(&again), 200);
    CHECK(takes_nothing(&again, &large_room));
}

SERVICE_TEST(large_payloads_come_one_at_a_time)
{
    enum { PAYLOAD = 9 * 1024 * 1024, RUNS = 4 };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    AUTO_FREE char *body = alloc(PAYLOAD + 128);
    int head = snprintf(body, 128, "{\"task_id\":\"hello\",\"payload\":\"");
    memset(body + head, 'x', PAYLOAD);
    memcpy(body + head + PAYLOAD, "\"}", 3);
    for (int i = 0; i < RUNS; i++)
        CHECK_STATUS(service, service_ask(service, stage.key, "POST", "/api/runs", body), 201);
    for (int i = 0; i < RUNS; i++) {
        CHECK_STATUS(service, worker_poll(&stage.worker, "[\"run\"]", &large_room, 0, "[]"), 200);
        CHECK(n_grants(service) == 1);
        snprintf(stage.worker.lease, ID_TEXT, "%s", service_text(service, "grants.0.lease_id"));
        stage.worker.sequence = service_int(service, "grants.0.sequence");
        CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    }
}

SERVICE_TEST(a_worker_gets_only_what_its_roles_allow)
{
    const char *key = service_make_key(service, OPERATOR);
    struct test_worker both = {0}, runner = {.roles = "[\"run\"]"},
                       builder = {.roles = "[\"build\"]"};
    CHECK(worker_join(&both, service, "both") && service_build(service, &both, key));
    CHECK(worker_join(&runner, service, "runner") && worker_join(&builder, service, "builder"));
    const char *run = service_start_run(service, key, "hello", NULL);
    const char *build = service_upload(service, key);
    static const char *const any = "[\"run\",\"build\"]";

    CHECK_STATUS(service, worker_poll(&runner, "[\"build\"]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 0);
    CHECK_STATUS(service, worker_poll(&builder, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 0);
    CHECK_STATUS(service, worker_poll(&builder, any, &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 1);
    CHECK_STR(service_text(service, "grants.0.build.deployment_id"), build);
    CHECK_STATUS(service, worker_poll(&runner, any, &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "grants") == 1);
    CHECK_STR(service_text(service, "grants.0.run.run_id"), run);

    /* The roles are those the process gave when it became active. */
    runner.roles = "[\"run\",\"build\"]";
    CHECK(*service_upload(service, key));
    CHECK_STATUS(service, worker_activate_as(&runner, "user-kernel"), 200);
    CHECK_STATUS(service, worker_poll(&runner, any, &large_room, 0, "[]"), 200);
    CHECK(service_says(service, "\"kind\":\"build\""));
    runner.roles = "[\"desktop\"]";
    CHECK_STATUS(service, worker_activate_as(&runner, "user-kernel"), 400);
    runner.roles = "[]";
    CHECK_STATUS(service, worker_activate_as(&runner, "user-kernel"), 400);
}

CHANGE(deny_networks, "UPDATE deployment_sandboxes SET network = "
                      "'{\"internet\":true,\"deny\":[\"203.0.113.0/24\"]}' "
                      "WHERE environment_id = $1");

SERVICE_TEST(a_worker_that_is_not_root_gets_nothing_that_denies_networks)
{
    const char *key = service_make_key(service, OPERATOR);
    struct test_worker root = {0}, user = {.privilege = "user"};
    struct error err = {0};

    CHECK(worker_join(&user, service, "user") && service_deploy(service, &err));
    const char *open = service_start_run(service, key, "hello", NULL);
    CHECK(service_change(service, &deny_networks, &V_TEXT(service->environment_id), 1, 1));
    const char *denying = service_start_run(service, key, "hello", NULL);

    CHECK_STATUS(service, worker_poll(&user, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(n_grants(service) == 1);
    CHECK_STR(service_text(service, "grants.0.run.run_id"), open);
    const char *known =
        arena_printf(&service->arena, "[\"%s\"]", service_text(service, "grants.0.lease_id"));
    CHECK_STR(run_text(service, key, denying, "queued_reason"), "no_compatible_worker");
    CHECK_STR(service_text(service, "queued_detail"),
              "its sandbox denies networks, which only a worker that is root can do");

    CHECK(worker_join(&root, service, "root"));
    CHECK_STR(run_text(service, key, denying, "queued_reason"), "no_capacity");
    CHECK_STATUS(service, worker_poll(&root, "[\"run\"]", &large_room, 0, "[]"), 200);
    CHECK(n_grants(service) == 1);
    CHECK_STR(service_text(service, "grants.0.run.run_id"), denying);

    /* Given back, it waits for root again. */
    snprintf(root.lease, ID_TEXT, "%s", service_text(service, "grants.0.lease_id"));
    root.sequence = service_int(service, "grants.0.sequence");
    CHECK_STATUS(service, lease_begin(&root), 200);
    CHECK_STATUS(service, lease_post(&root, "release", ",\"reason\":\"stopped\""), 200);
    CHECK_STATUS(service, worker_poll(&user, "[\"run\"]", &large_room, 0, known), 200);
    CHECK(n_grants(service) == 0);
}

TEST_MAIN()
