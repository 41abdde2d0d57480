/* Schedules that the source declares, through builds and promotions. */
#include "base/json.h"
#include "base/time.h"
#include "server/schedule_store.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

#define BOX                                                                                \
    "\"sandboxes\":[{\"id\":\"box\",\"image_id\":\"image\",\"mount_path\":\"/workspace\"," \
    "\"cpu\":1,\"memory_mib\":512,\"disk_mib\":1024}],\"queues\":[]"

/* A task of that name with these members besides. */
#define TASK(name, more)                                                               \
    "{\"id\":\"" name "\",\"file_path\":\"tasks/a.ts\",\"export_name\":\"" name        \
    "\",\"sandbox_id\":\"box\",\"accepts_payload\":true,\"max_duration_seconds\":900," \
    "\"queue\":\"task/" name "\"" more "}"

#define CRON(cron, zone) ",\"schedules\":[{\"cron\":\"" cron "\",\"timezone\":\"" zone "\"}]"

#define MANIFEST(tasks) "{\"tasks\":[" tasks "]," BOX "}"

struct stage {
    struct test_worker worker;
    const char *key;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    return worker_join(&stage->worker, service, "one");
}

/* A built deployment: its id, or "". */
static const char *build(struct stage *stage, const char *manifest)
{
    struct service *service = stage->worker.service;
    const char *id = service_upload(service, stage->key);

    if (*id && worker_take(&stage->worker, "build") && lease_begin(&stage->worker) == 200 &&
        lease_start(&stage->worker) == 200 && build_end(&stage->worker, manifest) == 200)
        return id;
    printf("# %.*s\n", (int)service->answer.body.len, service->answer.body.bytes);
    return "";
}

static bool promote(struct stage *stage, const char *id)
{
    struct service *service = stage->worker.service;

    return service_ask(service, stage->key, "POST",
                       arena_printf(&service->arena, "/api/deployments/%s/promote", id), "") == 200;
}

/* How many schedules there are; the newest first in the answer. */
static size_t list(struct stage *stage)
{
    struct service *service = stage->worker.service;

    if (service_ask(service, stage->key, "GET", "/api/schedules", NULL) != 200)
        return SIZE_MAX;
    return json_count(buf_str(&service->answer.body), "schedules");
}

static const char *copy(struct service *service, const char *path)
{
    return arena_printf(&service->arena, "%s", service_text(service, path));
}

SERVICE_TEST(promotions_decide_what_is_scheduled)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *first =
        build(&stage,
              MANIFEST(TASK("daily", CRON("0 3 * * *", "Asia/Tokyo")) "," TASK("other", "")));
    CHECK(*first && list(&stage) == 0);
    CHECK(promote(&stage, first));
    CHECK(list(&stage) == 1);
    CHECK_STR(service_text(service, "schedules.0.type"), "declarative");
    CHECK_STR(service_text(service, "schedules.0.deduplication_key"), "daily");
    CHECK_STR(service_text(service, "schedules.0.task"), "daily");
    CHECK_STR(service_text(service, "schedules.0.cron"), "0 3 * * *");
    CHECK_STR(service_text(service, "schedules.0.timezone"), "Asia/Tokyo");
    CHECK_STR(service_text(service, "schedules.0.status"), "active");
    const char *id = copy(service, "schedules.0.id"),
               *next = copy(service, "schedules.0.next_fire_at");
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", "/api/tasks/daily", NULL), 200);
    CHECK_STR(service_text(service, "schedules.0.cron"), "0 3 * * *");

    /* The same again: the same schedule. */
    CHECK(promote(&stage, build(&stage, MANIFEST(TASK("daily", CRON("0 3 * * *", "Asia/Tokyo"))))));
    CHECK(list(&stage) == 1);
    CHECK_STR(service_text(service, "schedules.0.id"), id);
    CHECK_STR(service_text(service, "schedules.0.next_fire_at"), next);

    /* Other times, and one more. */
    CHECK(promote(&stage, build(&stage, MANIFEST(TASK("daily", CRON("0 4 * * *", "UTC")) "," TASK(
                                            "weekly", CRON("0 0 * * 0", "UTC"))))));
    CHECK(list(&stage) == 2);
    CHECK_STR(service_text(service, "schedules.0.task"), "weekly");
    CHECK_STR(service_text(service, "schedules.1.id"), id);
    CHECK_STR(service_text(service, "schedules.1.cron"), "0 4 * * *");
    CHECK(strcmp(service_text(service, "schedules.1.next_fire_at"), next) != 0);

    /* Back to the first. */
    CHECK(promote(&stage, first));
    CHECK(list(&stage) == 1);
    CHECK_STR(service_text(service, "schedules.0.id"), id);
    CHECK_STR(service_text(service, "schedules.0.next_fire_at"), next);
}

SERVICE_TEST(what_the_source_declares_cannot_be_edited)
{
    static const struct {
        const char *method, *verb, *body;
    } edits[] = {
        {"PUT",    "",            "{\"task\":\"daily\",\"cron\":\"0 5 * * *\"}"},
        {"DELETE", "",            ""                                           },
        {"POST",   "/activate",   ""                                           },
        {"POST",   "/deactivate", ""                                           },
    };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(promote(&stage, build(&stage, MANIFEST(TASK("daily", CRON("0 3 * * *", "UTC"))))));
    CHECK(list(&stage) == 1);
    const char *id = copy(service, "schedules.0.id");
    for (size_t i = 0; i < COUNT_OF(edits); i++) {
        const char *path = arena_printf(&service->arena, "/api/schedules/%s%s", id, edits[i].verb);
        CHECK_STATUS(service, service_ask(service, stage.key, edits[i].method, path, edits[i].body),
                     400);
        CHECK_STR(service_text(service, "code"), "schedule_declarative");
    }
    /* A schedule of the API may have the same key: it is another one. */
    CHECK_STATUS(service,
                 service_ask(service, stage.key, "POST", "/api/schedules",
                             "{\"deduplication_key\":\"daily\",\"task\":\"daily\","
                             "\"cron\":\"0 5 * * *\"}"),
                 201);
    CHECK(list(&stage) == 2);
}

SERVICE_TEST(one_that_means_nothing_is_errored_until_it_is_mended)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(promote(&stage, build(&stage, MANIFEST(TASK("daily", CRON("0 3 30 2 *", "UTC"))))));
    CHECK(list(&stage) == 1);
    CHECK_STR(service_text(service, "schedules.0.status"), "errored");
    CHECK(*service_text(service, "schedules.0.last_error"));
    schedules_fire(service->server, time_now_ms() + 400 * INT64_C(86400000));
    CHECK(list(&stage) == 1);
    CHECK_STR(service_text(service, "schedules.0.last_fire_at"), "");
    const char *id = copy(service, "schedules.0.id");
    CHECK(promote(&stage, build(&stage, MANIFEST(TASK("daily", CRON("0 3 * * *", "UTC"))))));
    CHECK(list(&stage) == 1);
    CHECK_STR(service_text(service, "schedules.0.id"), id);
    CHECK_STR(service_text(service, "schedules.0.status"), "active");
    CHECK_STR(service_text(service, "schedules.0.last_error"), "");
}

SERVICE_TEST(schedules_of_the_api_need_their_task_in_the_current_deployment)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *with = build(&stage, MANIFEST(TASK("daily", "")));
    const char *without = build(&stage, MANIFEST(TASK("other", "")));
    CHECK(promote(&stage, with));
    CHECK_STATUS(service,
                 service_ask(service, stage.key, "POST", "/api/schedules",
                             "{\"deduplication_key\":\"k\",\"task\":\"daily\","
                             "\"cron\":\"0 5 * * *\"}"),
                 201);
    const char *pinned = arena_printf(&service->arena,
                                      "{\"deduplication_key\":\"pinned\",\"task\":\"daily\","
                                      "\"cron\":\"0 5 * * *\","
                                      "\"options\":{\"deployment_id\":\"%s\"}}",
                                      with);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", "/api/schedules", pinned), 201);

    CHECK(promote(&stage, without));
    CHECK(list(&stage) == 2);
    CHECK_STR(service_text(service, "schedules.0.status"), "active");
    CHECK_STR(service_text(service, "schedules.1.status"), "errored");
    CHECK_STR(service_text(service, "schedules.1.last_error"),
              "the current deployment has no such task");
    CHECK_STATUS(service,
                 service_ask(service, stage.key, "POST", "/api/schedules",
                             "{\"deduplication_key\":\"l\",\"task\":\"daily\","
                             "\"cron\":\"0 5 * * *\"}"),
                 409);
    CHECK_STR(service_text(service, "code"), "task_archived");

    CHECK(promote(&stage, with));
    CHECK(list(&stage) == 2);
    CHECK_STR(service_text(service, "schedules.1.status"), "active");
    CHECK_STR(service_text(service, "schedules.1.last_error"), "");
}

SERVICE_TEST(a_declared_slot_starts_its_run_in_the_current_deployment)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(promote(&stage, build(&stage, MANIFEST(TASK("daily", CRON("0 3 * * *", "UTC"))))));
    const char *newer = build(&stage, MANIFEST(TASK("daily", CRON("0 3 * * *", "UTC"))));
    CHECK(promote(&stage, newer));
    schedules_fire(service->server, time_now_ms() + 2 * INT64_C(86400000));
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", "/api/runs", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "runs") == 1);
    CHECK_STR(service_text(service, "runs.0.reason"), "schedule");
    CHECK_STR(service_text(service, "runs.0.deployment_id"), newer);
    CHECK_STR(service_text(service, "runs.0.payload.scheduleType"), "declarative");
}

TEST_MAIN()
