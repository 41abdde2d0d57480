/* Everybody at once: starts, claims, reports, cancels, sessions and the sweeper. Whoever loses a
 * race is told the truth, never that the database was busy, and nothing is left over. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/json.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/worker_testing.h"

enum { WORKERS = 6, PEOPLE = 3, RUNS = 24 };

struct race {
    struct service *service;
    struct test_worker worker;
    const char *key;
    pthread_t thread;
    atomic_int *n_people; /* still starting runs */
    const char *complaint;
};

/* What a fair loser may hear. */
static bool is_fair(struct race *race, int status)
{
    const char *code = service_text(race->service, "code");

    if (status == 200 || status == 201 ||
        (status == 409 && (strcmp(code, "lease_stale") == 0 ||
                           service_says(race->service, "the run is being cancelled"))))
        return true;
    race->complaint =
        arena_printf(&race->service->arena, "%d %.*s", status, (int)race->service->answer.body.len,
                     race->service->answer.body.bytes);
    return false;
}

/* Starts runs and builds, and cancels every second one a moment later. */
static void *be_a_person(void *arg)
{
    struct race *race = arg;
    struct service *service = race->service;

    for (int i = 0; i < RUNS && !race->complaint; i++) {
        const char *run = service_start_run(service, race->key, "hello", NULL);
        const char *cancel = arena_printf(&service->arena, "/api/runs/%s/cancel", run);
        if (!*run)
            race->complaint = "no run was started";
        else if (i % 2)
            is_fair(race, service_ask(service, race->key, "POST", cancel, "{}"));
        const char *build = i % 6 == 0 ? service_upload(service, race->key) : "";
        cancel = arena_printf(&service->arena, "/api/deployments/%s/cancel", build);
        if (*build)
            is_fair(race, service_ask(service, race->key, "POST", cancel, "{}"));
    }
    atomic_fetch_sub(race->n_people, 1);
    return NULL;
}

static bool carry_out(struct race *race, int turn)
{
    struct test_worker *worker = &race->worker;
    struct service *service = race->service;

    snprintf(worker->lease, ID_TEXT, "%s", service_text(service, "grants.0.lease_id"));
    worker->sequence = service_int(service, "grants.0.sequence");
    bool is_run = strcmp(service_text(service, "grants.0.kind"), "run") == 0;
    int begun = lease_begin(worker), started = begun == 200 ? lease_start(worker) : begun;
    if (!is_fair(race, started))
        return false;
    if (started != 200) /* cancelled, or lost to a new session */
        return is_fair(race, lease_post(worker, "release", ",\"reason\":\"r\""));
    if (!is_run)
        return is_fair(race, lease_post(worker, "build/progress",
                                        ",\"events\":[{\"op\":\"1\",\"kind\":"
                                        "\"deployment.build.log\",\"attributes\":{},"
                                        "\"at_ms\":1}]")) &&
               is_fair(race, build_end(worker, test_manifest));
    if (turn % 5 == 0)
        return is_fair(race, lease_post(worker, "release", ",\"reason\":\"r\""));
    return is_fair(race, lease_report(worker, "succeeded", ""));
}

/* Takes one at a time until there is nothing more; now and then it starts anew. */
static void *be_a_worker(void *arg)
{
    struct race *race = arg;
    struct test_room room = large_room;

    room.slots = room.build_slots = 1;
    for (int turn = 1; !race->complaint; turn++) {
        bool is_over = atomic_load(race->n_people) == 0;
        if (turn % 9 == 0 && (!is_fair(race, worker_open(&race->worker)) ||
                              !is_fair(race, worker_activate_as(&race->worker, "microvm"))))
            break;
        if (!is_fair(race, worker_poll(&race->worker, "[\"run\",\"build\"]", &room, 20, "[]")))
            break;
        if (json_count(buf_str(&race->service->answer.body), "grants") == 0 && is_over)
            break;
        if (json_count(buf_str(&race->service->answer.body), "grants") > 0)
            carry_out(race, turn);
    }
    return NULL;
}

static void begin(struct race *race, struct service *service, const char *key, atomic_int *n_people,
                  void *(*body)(void *))
{
    *race = (struct race){.worker = race->worker,
                          .service = service_view(service),
                          .key = key,
                          .n_people = n_people};
    race->worker.service = race->service;
    if (pthread_create(&race->thread, NULL, body, race) != 0)
        abort();
}

SERVICE_TEST(everybody_at_once_leaves_nothing_over)
{
    const char *key = service_make_key(service, OPERATOR);
    struct race races[WORKERS + PEOPLE] = {0};
    struct test_worker first = {0};
    atomic_int n_people = PEOPLE;
    CHECK(worker_join(&first, service, "first") && service_build(service, &first, key));
    for (size_t i = 0; i < WORKERS; i++)
        CHECK(
            worker_join(&races[i].worker, service, arena_printf(&service->arena, "worker-%zu", i)));
    for (size_t i = 0; i < COUNT_OF(races); i++)
        begin(&races[i], service, key, &n_people, i < WORKERS ? be_a_worker : be_a_person);
    for (int i = 0; i < 20; i++)
        sweep_once(service->server);
    bool is_fine = true;
    for (size_t i = 0; i < COUNT_OF(races); i++) {
        pthread_join(races[i].thread, NULL);
        if (races[i].complaint)
            printf("# %s\n", races[i].complaint);
        is_fine &= !races[i].complaint;
        service_view_end(races[i].service);
    }
    CHECK(is_fine);
    const char *const live[] = {"queued", "running", "waiting"};
    for (size_t i = 0; i < COUNT_OF(live); i++) {
        const char *path = arena_printf(&service->arena, "/api/runs?status=%s", live[i]);
        CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
        CHECK(json_count(buf_str(&service->answer.body), "runs") == 0);
    }
}

TEST_MAIN()
