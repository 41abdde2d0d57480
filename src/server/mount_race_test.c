/* Everybody at once in a few workspaces: commands, stops, signals, runs and workers that come and
 * go. Whoever loses a race is told the truth, and nothing is left over. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "server/mount_testing.h"

/* IDLE: polls of 20 ms without work; longer than the sweeper takes to remind of some. */
enum { PLACES = 3, PEOPLE = 3, WORKERS = 3, TURNS = 15, IDLE = 75 };

struct race {
    struct yard yard;
    const char (*places)[ID_TEXT];
    atomic_int *n_people; /* still asking for things */
    const char *complaint;
    pthread_t thread;
};

/* What a fair loser may hear. */
static bool is_fair(struct race *race, int status)
{
    static const char *const codes[] = {"lease_stale", "workspace_writer_active",
                                        "workspace_exec_terminal", "workspace_recovery_required"};
    struct service *service = race->yard.service;

    if (status >= 200 && status < 300)
        return true;
    for (size_t i = 0; i < COUNT_OF(codes) && status == 409; i++)
        if (strcmp(service_text(service, "code"), codes[i]) == 0)
            return true;
    race->complaint = arena_printf(&service->arena, "%d %.*s", status,
                                   (int)service->answer.body.len, service->answer.body.bytes);
    return false;
}

static void *be_a_person(void *arg)
{
    struct race *race = arg;
    struct yard *yard = &race->yard;
    struct arena *arena = &yard->service->arena;

    for (int i = 0; i < TURNS && !race->complaint; i++) {
        memcpy(yard->workspace, race->places[i % PLACES], ID_TEXT);
        yard->process[0] = '\0';
        is_fair(race, yard_make(yard, "/execs", "{\"command\":[\"true\"]}"));
        if (i % 4 == 1 && yard->process[0])
            is_fair(race, yard_post(yard, yard_process(yard, "execs", "/terminate"), "{}"));
        if (i % 4 == 2)
            is_fair(race, yard_post(yard, "/stop", "{}"));
        if (i % 4 == 3)
            is_fair(race, service_ask(yard->service, yard->key, "POST", "/api/sessions",
                                      arena_printf(arena,
                                                   "{\"task_id\":\"hello\",\"payload\":{},"
                                                   "\"workspace_id\":\"%s\"}",
                                                   yard->workspace)));
    }
    atomic_fetch_sub(race->n_people, 1);
    return NULL;
}

/* Ends every command that it is told to begin. */
static bool serve(struct race *race)
{
    struct yard *yard = &race->yard;
    struct service *service = yard->service;
    char ids[64][ID_TEXT];
    size_t n = 0, n_messages = yard_hear(yard);

    for (size_t i = 0; i < n_messages && n < COUNT_OF(ids); i++) {
        struct arena *arena = &service->arena;
        const char *type = service_text(service, arena_printf(arena, "messages.%zu.type", i));
        const char *lease = service_text(service, arena_printf(arena, "messages.%zu.lease_id", i));

        if (strcmp(type, "process_start") == 0 && strcmp(lease, yard->worker.lease) == 0)
            snprintf(ids[n++], ID_TEXT, "%s",
                     service_text(service, arena_printf(arena, "messages.%zu.process_id", i)));
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(yard->process, ids[i], ID_TEXT);
        if (!is_fair(race, yard_report(yard, "exited", ",\"exit_code\":0")))
            return false;
    }
    return true;
}

static bool carry_mount(struct race *race, int turn)
{
    struct yard *yard = &race->yard;
    char operation[ID_TEXT];

    id_make(operation);
    yard->generation = service_int(yard->service, "grants.0.mount.generation");
    if (!is_fair(race, lease_begin(&yard->worker)) || !is_fair(race, lease_start(&yard->worker)) ||
        !is_fair(race, yard_ready(yard)) || !serve(race))
        return false;
    if (turn % 5 == 0)
        return is_fair(race, lease_post(&yard->worker, "release", ",\"reason\":\"r\""));
    return is_fair(race, yard_version(yard, operation, NULL)) && is_fair(race, yard_close(yard));
}

static void *be_a_worker(void *arg)
{
    struct race *race = arg;
    struct test_worker *worker = &race->yard.worker;
    struct service *service = race->yard.service;
    struct test_room room = large_room;

    room.slots = 1;
    for (int turn = 1, idle = 0; !race->complaint && idle < IDLE; turn++) {
        bool is_over = atomic_load(race->n_people) == 0;

        if (!is_fair(race, worker_poll(worker, "[\"run\",\"mount\"]", &room, 20, "[]")))
            break;
        bool has_grant = json_count(buf_str(&service->answer.body), "grants") > 0;
        idle = has_grant || !is_over ? 0 : idle + 1;
        if (!has_grant)
            continue;
        snprintf(worker->lease, ID_TEXT, "%s", service_text(service, "grants.0.lease_id"));
        worker->sequence = service_int(service, "grants.0.sequence");
        if (strcmp(service_text(service, "grants.0.kind"), "mount") == 0)
            carry_mount(race, turn);
        else if (is_fair(race, lease_begin(worker)) && is_fair(race, lease_start(worker)))
            is_fair(race, lease_report(worker, "succeeded", ""));
    }
    return NULL;
}

static void begin(struct race *race, const struct yard *yard, const char (*places)[ID_TEXT],
                  atomic_int *n_people, void *(*body)(void *))
{
    struct test_worker worker = race->yard.worker;

    race->yard = *yard;
    race->yard.service = service_view(yard->service);
    race->yard.worker = worker;
    race->yard.worker.service = race->yard.service;
    race->places = places;
    race->n_people = n_people;
    if (pthread_create(&race->thread, NULL, body, race) != 0)
        abort();
}

/* No command waits, and no workspace is mounted. */
static bool is_quiet(struct yard *yard)
{
    struct service *service = yard->service;

    return *yard_text(yard, "mount.state") == '\0' && yard_get(yard, "/execs?limit=200") == 200 &&
           !service_says(service, "\"state\":\"queued\"") &&
           !service_says(service, "\"state\":\"running\"");
}

SERVICE_TEST(people_and_workers_at_once_leave_nothing_over)
{
    static char places[PLACES][ID_TEXT];
    struct race races[WORKERS + PEOPLE] = {0};
    atomic_int n_people = PEOPLE;
    struct yard yard;
    bool is_fine = true;

    CHECK(yard_set(service, &yard));
    for (size_t i = 0; i < PLACES; i++) {
        CHECK_STATUS(service,
                     service_ask(service, yard.key, "POST", "/api/workspaces",
                                 "{\"sandbox_id\":\"box\"}"),
                     201);
        snprintf(places[i], ID_TEXT, "%s", service_text(service, "workspace.id"));
    }
    for (size_t i = 0; i < WORKERS; i++)
        CHECK(worker_join(&races[i].yard.worker, service,
                          arena_printf(&service->arena, "worker-%zu", i)));
    for (size_t i = 0; i < COUNT_OF(races); i++)
        begin(&races[i], &yard, places, &n_people, i < WORKERS ? be_a_worker : be_a_person);
    for (size_t i = 0; i < COUNT_OF(races); i++) {
        pthread_join(races[i].thread, NULL);
        if (races[i].complaint)
            printf("# %s\n", races[i].complaint);
        is_fine &= !races[i].complaint;
        service_view_end(races[i].yard.service);
    }
    CHECK(is_fine);
    for (size_t i = 0; i < PLACES; i++) {
        memcpy(yard.workspace, places[i], ID_TEXT);
        CHECK(is_quiet(&yard));
    }
}

TEST_MAIN()
