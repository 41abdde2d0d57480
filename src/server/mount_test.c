/* Mounts through the API of people and of workers: one writer, fenced; what is lost says so. */
#include <pthread.h>

#include "server/mount_testing.h"
#include "server/sweep.h"

#define FIRST  "0190a000-0000-7000-8000-0000000000a1"
#define SECOND "0190a000-0000-7000-8000-0000000000a2"

SERVICE_TEST(a_workspace_is_mounted_and_unmounted)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service, yard_post(&yard, "/materialize", "{}"), 202);
    CHECK_STR(service_text(service, "state"), "mounting");
    CHECK_STR(service_text(service, "workspace_id"), yard.workspace);
    CHECK_STATUS(service, yard_post(&yard, "/materialize", "{}"), 200);

    CHECK(yard_take(&yard));
    CHECK_STR(service_text(service, "grants.0.mount.workspace_id"), yard.workspace);
    CHECK_STR(service_text(service, "grants.0.mount.sandbox.id"), "box");
    CHECK(service_int(service, "grants.0.mount.idle_ms") == 300000);
    CHECK(yard.generation == 1);
    CHECK_STATUS(service, lease_begin(&yard.worker), 200);
    CHECK_STATUS(service, lease_start(&yard.worker), 200);
    CHECK(service_int(service, "hard_deadline_ms") == 0);
    CHECK_STR(yard_text(&yard, "mount.state"), "mounting");
    CHECK_STATUS(service, yard_ready(&yard), 200);
    CHECK_STATUS(service, yard_ready(&yard), 200);
    CHECK_STR(yard_text(&yard, "mount.state"), "mounted");
    CHECK_STATUS(service, yard_post(&yard, "/materialize", "{}"), 200);
    CHECK_STR(service_text(service, "engine"), "gvisor");
    CHECK_STR(service_text(service, "worker_id"), yard.worker.id);

    CHECK_STATUS(service, yard_close(&yard), 200);
    CHECK_STATUS(service, yard_close(&yard), 200);
    CHECK_STR(yard_text(&yard, "state"), "active");
    CHECK_STR(service_text(service, "mount.state"), "");
    CHECK_REFUSED(service, yard_ready(&yard), 409, "lease_stale");
}

SERVICE_TEST(a_mount_publishes_each_version_once)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_version(&yard, FIRST, "one"), 200);
    CHECK_STATUS(service, yard_version(&yard, FIRST, "one"), 200);
    CHECK_STR(yard_text(&yard, "current_version_id"), FIRST);
    CHECK_REFUSED(service, yard_version(&yard, FIRST, "other"), 409, "lease_stale");
    CHECK_STATUS(service, yard_version(&yard, SECOND, "two"), 200);
    CHECK_STR(yard_text(&yard, "current_version_id"), SECOND);
    CHECK_STATUS(service, yard_close(&yard), 200);
    /* The answer was lost: it is the same again, although the mount is over. */
    CHECK_STATUS(service, yard_version(&yard, SECOND, "two"), 200);

    CHECK(yard_mount(&yard));
    CHECK(yard.generation == 2);
}

SERVICE_TEST(the_next_mount_begins_with_the_last_version)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_version(&yard, FIRST, "one"), 200);
    CHECK_STATUS(service, yard_close(&yard), 200);
    CHECK_STATUS(service, yard_post(&yard, "/materialize", "{}"), 202);
    CHECK(yard_take(&yard));
    CHECK_STR(service_text(service, "grants.0.mount.base_version_id"), FIRST);
    CHECK(*service_text(service, "grants.0.mount.base_manifest"));
}

static const char *run_in(struct yard *yard)
{
    return arena_printf(&yard->service->arena,
                        "{\"task_id\":\"hello\",\"payload\":{},\"workspace_id\":\"%s\"}",
                        yard->workspace);
}

SERVICE_TEST(a_run_and_a_mount_exclude_each_other)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_REFUSED(service, service_ask(service, yard.key, "POST", "/api/sessions", run_in(&yard)),
                  409, "workspace_writer_active");
    CHECK_STATUS(service, yard_close(&yard), 200);
    CHECK_STATUS(service, service_ask(service, yard.key, "POST", "/api/sessions", run_in(&yard)),
                 201);
    CHECK_REFUSED(service, yard_post(&yard, "/materialize", "{}"), 409, "workspace_writer_active");
    CHECK_REFUSED(service, yard_make(&yard, "/execs", "{\"command\":[\"true\"]}"), 409,
                  "workspace_writer_active");
    CHECK_REFUSED(service, yard_make(&yard, "/pty", "{}"), 409, "workspace_writer_active");
}

SERVICE_TEST(a_session_goes_on_when_its_workspace_is_not_mounted_any_more)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service, service_ask(service, yard.key, "POST", "/api/sessions", run_in(&yard)),
                 201);
    const char *session = service_text(service, "session.id");
    const char *runs = arena_printf(&service->arena, "/api/sessions/%s/runs", session);
    CHECK(worker_take(&yard.worker, "run"));
    CHECK_STATUS(service, lease_begin(&yard.worker), 200);
    CHECK_STATUS(service, lease_start(&yard.worker), 200);
    CHECK_STATUS(service, lease_report(&yard.worker, "succeeded", ""), 200);

    CHECK(yard_mount(&yard));
    CHECK_STATUS(service,
                 service_ask(service, yard.key, "POST",
                             arena_printf(&service->arena, "/api/sessions/%s/inputs/chat", session),
                             "{\"data\":{\"n\":1}}"),
                 201);
    sweep_once(service->server);
    CHECK_STATUS(service, service_ask(service, yard.key, "GET", runs, NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 1);
    CHECK_STATUS(service, yard_close(&yard), 200);
    sweep_once(service->server);
    CHECK_STATUS(service, service_ask(service, yard.key, "GET", runs, NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 2);
}

SERVICE_TEST(a_run_raises_the_generation_as_well)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK(yard.generation == 1);
    CHECK_STATUS(service, yard_close(&yard), 200);
    CHECK_STATUS(service, service_ask(service, yard.key, "POST", "/api/sessions", run_in(&yard)),
                 201);
    CHECK(worker_take(&yard.worker, "run"));
    CHECK_STATUS(service, lease_begin(&yard.worker), 200);
    CHECK_STATUS(service, lease_start(&yard.worker), 200);
    CHECK_STATUS(service, lease_report(&yard.worker, "succeeded", ""), 200);
    CHECK(yard_mount(&yard));
    CHECK(yard.generation == 3);
}

SERVICE_TEST(a_mount_that_is_rejected_goes_to_another_worker)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"true\"]}"), 201);
    CHECK(yard_take(&yard));
    CHECK(yard_hear(&yard) == 1);
    CHECK_STATUS(service, lease_begin(&yard.worker), 200);
    CHECK_STATUS(service, lease_post(&yard.worker, "release", ",\"reason\":\"r\""), 200);
    CHECK_STR(yard_text(&yard, "mount.state"), "mounting");
    CHECK_STR(yard_exec_text(&yard, "state"), "queued");

    CHECK(yard_take(&yard));
    CHECK(yard.generation == 2);
    /* What was not begun is begun by the next. */
    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.type"), "process_start");
    CHECK_STR(service_text(service, "messages.0.process_id"), yard.process);
}

SERVICE_TEST(a_mount_that_cannot_be_made_fails_with_its_programs)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"true\"]}"), 201);
    CHECK(yard_take(&yard));
    CHECK_STATUS(service, lease_begin(&yard.worker), 200);
    CHECK_STATUS(service,
                 lease_post(&yard.worker, "reject",
                            ",\"layer\":\"guest_runtime\",\"failure_kind\":\"mount_failed\","
                            "\"text\":\"the version is damaged\",\"retryable\":false"),
                 200);
    CHECK_STR(yard_text(&yard, "mount.state"), "");
    CHECK_STR(yard_exec_text(&yard, "state"), "failed");
    CHECK_STR(service_text(service, "error"), "the version is damaged");
    /* Nothing is in the way of the next. */
    CHECK_STATUS(service, yard_post(&yard, "/materialize", "{}"), 202);
}

SERVICE_TEST(what_is_lost_with_a_mount_says_so)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"sh\"]}"), 201);
    CHECK_STATUS(service, yard_report(&yard, "started", ",\"pid\":7"), 200);
    CHECK_STATUS(service, lease_post(&yard.worker, "release", ",\"reason\":\"gone\""), 200);
    CHECK_STR(yard_exec_text(&yard, "state"), "lost");
    CHECK_STR(service_text(service, "error"), "gone");
    CHECK_STATUS(service, yard_events(&yard, "execs", "/stdout"), 200);
    CHECK(service_says(service, "event: workspace_stream_lost"));
    CHECK_STR(yard_text(&yard, "state"), "recovery_required");
    CHECK_REFUSED(service, service_ask(service, yard.key, "POST", "/api/sessions", run_in(&yard)),
                  409, "workspace_recovery_required");

    CHECK(yard_mount(&yard));
    CHECK_STR(yard_text(&yard, "state"), "active");
}

SERVICE_TEST(a_mount_without_changes_is_lost_without_harm)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, lease_post(&yard.worker, "release", ",\"reason\":\"gone\""), 200);
    CHECK_STR(yard_text(&yard, "state"), "active");
}

SERVICE_TEST(changes_must_be_published_before_a_mount_closes)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"true\"]}"), 201);
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"exit_code\":0"), 200);
    CHECK_REFUSED(service, yard_close(&yard), 409, "conflict");
    CHECK_STATUS(service, yard_version(&yard, FIRST, NULL), 200);
    CHECK_STATUS(service, yard_close(&yard), 200);
}

SERVICE_TEST(a_stop_reaches_the_worker_once)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_post(&yard, "/stop", "{\"idempotency_key\":\"k\"}"), 202);
    CHECK_STR(service_text(service, "mount.state"), "unmounting");
    CHECK_STATUS(service, yard_post(&yard, "/stop", "{}"), 202);
    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.type"), "mount_stop");
    CHECK(service_says(service, "\"capture\":true"));
    CHECK_STATUS(service, yard_close(&yard), 200);

    CHECK(yard_mount(&yard));
    CHECK_STATUS(service, yard_post(&yard, "/stop", "{\"idempotency_key\":\"k\"}"), 200);
    CHECK_STR(yard_text(&yard, "mount.state"), "mounted");
}

SERVICE_TEST(a_stop_before_a_worker_came_ends_the_mount_at_once)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"true\"]}"), 201);
    CHECK_STATUS(service, yard_post(&yard, "/stop", "{}"), 202);
    CHECK_STR(yard_text(&yard, "mount.state"), "");
    CHECK_STR(yard_exec_text(&yard, "state"), "failed");
}

SERVICE_TEST(what_comes_while_a_mount_closes_gets_the_next_one)
{
    struct yard yard;
    char mount[ID_TEXT];
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    snprintf(mount, sizeof mount, "%s", yard.mount);
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"true\"]}"), 201);
    CHECK_STATUS(service, yard_close(&yard), 200);
    CHECK_STR(yard_exec_text(&yard, "state"), "queued");
    CHECK(strcmp(service_text(service, "workspace_mount_id"), mount) != 0);
    (void)yard_hear(&yard);
    CHECK(yard_take(&yard));
    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.process_id"), yard.process);
}

CHANGE(age_mount, "UPDATE mounts SET created_ms = created_ms - 1300000 WHERE workspace_id = $1");
CHANGE(age_lease, "UPDATE leases SET expires_ms = 1, state_deadline_ms = NULL WHERE id = $1");

SERVICE_TEST(a_mount_that_nobody_makes_fails_in_time)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"true\"]}"), 201);
    CHECK(service_change(service, &age_mount, &V_TEXT(yard.workspace), 1, 1));
    sweep_once(service->server);
    CHECK_STR(yard_text(&yard, "mount.state"), "");
    CHECK_STR(yard_exec_text(&yard, "state"), "failed");
    CHECK_STR(service_text(service, "error"), "it was not mounted within 20 minutes");
}

SERVICE_TEST(a_mount_whose_worker_is_silent_is_lost)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/pty", "{}"), 201);
    CHECK_STATUS(service, yard_report(&yard, "started", ""), 200);
    CHECK(service_change(service, &age_lease, &V_TEXT(yard.worker.lease), 1, 1));
    sweep_once(service->server);
    CHECK_STATUS(service, yard_get(&yard, yard_process(&yard, "pty", "")), 200);
    CHECK_STR(service_text(service, "state"), "lost");
    CHECK_STR(yard_text(&yard, "state"), "recovery_required");
    CHECK_REFUSED(service, yard_version(&yard, FIRST, "late"), 409, "lease_stale");
}

SERVICE_TEST(an_archived_workspace_is_not_mounted)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service,
                 service_ask(service, yard.key, "PATCH", yard_path(&yard, ""),
                             "{\"state\":\"archived\"}"),
                 200);
    CHECK_REFUSED(service, yard_post(&yard, "/materialize", "{}"), 409, "workspace_not_active");
    CHECK_REFUSED(service,
                  service_ask(service, yard.key, "POST", "/api/workspaces/none/materialize", "{}"),
                  404, "workspace_not_found");
}

/* Two people at once, one with a run and one with a command: exactly one of them gets it. */
struct rival {
    struct service *service;
    const char *key, *path, *body;
    int status;
    pthread_t thread;
};

static void *ask(void *arg)
{
    struct rival *rival = arg;

    rival->status = service_ask(rival->service, rival->key, "POST", rival->path, rival->body);
    return NULL;
}

SERVICE_TEST(of_a_run_and_a_command_at_once_one_is_the_writer)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    for (int i = 0; i < 8; i++) {
        CHECK_STATUS(service,
                     service_ask(service, yard.key, "POST", "/api/workspaces",
                                 "{\"sandbox_id\":\"box\"}"),
                     201);
        snprintf(yard.workspace, ID_TEXT, "%s", service_text(service, "workspace.id"));
        struct rival rivals[2] = {
            {service_view(service), yard.key, "/api/sessions", run_in(&yard), 0, 0},
            {service_view(service), yard.key, yard_path(&yard, "/execs"),
             "{\"command\":[\"true\"]}", 0, 0},
        };
        for (size_t j = 0; j < 2; j++)
            pthread_create(&rivals[j].thread, NULL, ask, &rivals[j]);
        for (size_t j = 0; j < 2; j++)
            pthread_join(rivals[j].thread, NULL);
        int first = rivals[0].status, second = rivals[1].status;
        for (size_t j = 0; j < 2; j++)
            service_view_end(rivals[j].service);
        if (first + second != 201 + 409)
            printf("# statuses %d and %d\n", first, second);
        CHECK((first == 201 && second == 409) || (first == 409 && second == 201));
    }
}

SERVICE_TEST(of_many_who_mount_at_once_all_get_the_same)
{
    enum { PEOPLE = 4 };
    struct yard yard;
    struct rival people[PEOPLE];
    char mount[ID_TEXT] = "";
    CHECK(yard_set(service, &yard));
    for (size_t i = 0; i < PEOPLE; i++) {
        people[i] = (struct rival){
            service_view(service), yard.key, yard_path(&yard, "/materialize"), "{}", 0, 0};
        pthread_create(&people[i].thread, NULL, ask, &people[i]);
    }
    for (size_t i = 0; i < PEOPLE; i++) {
        pthread_join(people[i].thread, NULL);
        const char *id = service_text(people[i].service, "id");
        CHECK(people[i].status == 200 || people[i].status == 202);
        CHECK(!*mount || strcmp(mount, id) == 0);
        snprintf(mount, sizeof mount, "%s", id);
        service_view_end(people[i].service);
    }
}

TEST_MAIN()
