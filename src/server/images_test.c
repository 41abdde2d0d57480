/* Steps that workers share, and what a deployment's images consist of. */
#include <stdlib.h>

#include "base/json.h"
#include "server/service_suite.h"
#include "server/sweep.h"
#include "server/worker_testing.h"

CHANGE(silence, "UPDATE leases SET expires_ms = expires_ms - 70000 WHERE id = $1");
CHANGE(old, "UPDATE deployments SET deployed_ms = deployed_ms - 700000000 WHERE id = $1");

static bool begin_build(struct test_worker *worker)
{
    return worker_take(worker, "build") && lease_begin(worker) == 200 && lease_start(worker) == 200;
}

static int post_step(struct test_worker *worker, const char *route, const char *step,
                     const char *more)
{
    return worker_post(
        worker, route,
        arena_printf(&worker->service->arena,
                     "{\"fence\":{\"epoch\":%lld,\"lease_id\":\"%s\",\"sequence\":%lld},"
                     "\"step_digest\":\"%s\"%s}",
                     (long long)worker->epoch, worker->lease, (long long)worker->sequence, step,
                     more));
}

static const char *look_up(struct test_worker *worker, const char *step)
{
    return post_step(worker, "images/lookup", step, "") == 200
               ? service_text(worker->service, "state")
               : service_text(worker->service, "code");
}

static int record(struct test_worker *worker, const char *step, const char *object)
{
    return post_step(worker, "images/record", step,
                     arena_printf(&worker->service->arena,
                                  ",\"layer\":{\"digest\":\"sha256:%s\",\"diff_id\":"
                                  "\"sha256:%064d\",\"size\":7}",
                                  object, 7));
}

struct stage {
    struct test_worker one, two;
    const char *key;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    return worker_join(&stage->one, service, "one") && worker_join(&stage->two, service, "two") &&
           *service_upload(service, stage->key) && *service_upload(service, stage->key) &&
           begin_build(&stage->one) && begin_build(&stage->two);
}

SERVICE_TEST(a_step_is_done_by_one_and_found_by_all)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK_STR(look_up(&stage.one, "a"), "yours");
    CHECK_STR(look_up(&stage.two, "a"), "busy");
    CHECK_STR(look_up(&stage.one, "a"), "yours"); /* asked again: an answer was lost */
    CHECK_STR(look_up(&stage.two, "b"), "yours");
    const char *layer = worker_put(&stage.one, "a layer");
    CHECK_STATUS(service, record(&stage.one, "a", layer), 200);
    CHECK_STR(look_up(&stage.two, "a"), "hit");
    CHECK_STR(service_text(service, "layer.digest") + strlen("sha256:"), layer);
    CHECK(service_int(service, "layer.size") == 7);

    CHECK_STATUS(service, post_step(&stage.two, "images/record", "b", ""), 200);
    CHECK_STR(look_up(&stage.one, "b"), "hit");
    CHECK_STR(service_text(service, "layer.digest"), "");
}

SERVICE_TEST(a_step_names_a_layer_that_is_stored)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK_STR(look_up(&stage.one, "a"), "yours");
    CHECK_STATUS(service, record(&stage.one, "a", object_id(service, "never stored")), 409);
    CHECK_STR(service_text(service, "code"), "object_gone");
    CHECK_STATUS(service, record(&stage.one, "a", "../../etc/passwd"), 400);
    CHECK_STR(look_up(&stage.two, "a"), "busy");
}

SERVICE_TEST(a_claim_dies_with_its_lease_and_what_was_recorded_stays)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK_STR(look_up(&stage.one, "done"), "yours");
    const char *layer = worker_put(&stage.one, "a layer");
    CHECK_STATUS(service, record(&stage.one, "done", layer), 200);
    CHECK_STR(look_up(&stage.one, "half"), "yours");
    CHECK_STR(look_up(&stage.two, "half"), "busy");
    const char *lost = arena_printf(&service->arena, "%s", stage.one.subject);

    /* The first worker is gone: its build goes to the second, which has finished its own. */
    CHECK(service_change(service, &silence, &V_TEXT(stage.one.lease), 1, 1));
    sweep_once(service->server);
    CHECK_STR(look_up(&stage.one, "half"), "lease_stale");
    CHECK_STATUS(service, build_end(&stage.two, test_manifest), 200);
    CHECK(begin_build(&stage.two));
    CHECK_STR(stage.two.subject, lost);
    CHECK_STR(look_up(&stage.two, "done"), "hit");
    CHECK_STR(look_up(&stage.two, "half"), "yours");
    CHECK_STATUS(service, record(&stage.two, "half", layer), 200);
    CHECK_STATUS(service, build_end(&stage.two, test_manifest), 200);
    const char *path = arena_printf(&service->arena, "/api/deployments/%s", lost);
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "status"), "deployed");
}

SERVICE_TEST(the_images_of_a_build_must_be_whole_in_the_store)
{
    static const char image[] = "{\"id\":\"image\",\"digest\":\"sha256:%s\",\"size\":1,\"objects\":"
                                "[{\"digest\":\"%s\",\"size\":1}]}";
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *manifest = worker_put(&stage.one, "a manifest");
    const char *absent = object_id(service, "a layer that never came");
    struct arena *arena = &service->arena;
    const char *const refused[] = {
        arena_printf(arena, image, manifest, absent),    /* not its manifest */
        arena_printf(arena, image, "1234", manifest),    /* no digest */
        arena_printf(arena, image, manifest, "../../x"), /* no object */
        arena_printf(arena, "{\"id\":\"image\",\"digest\":\"sha256:%s\",\"size\":1}", manifest),
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        CHECK_STATUS(service, build_end_with(&stage.one, test_manifest, refused[i]), 400);
    const char *partly = arena_printf(arena,
                                      "{\"id\":\"image\",\"digest\":\"sha256:%s\",\"size\":1,"
                                      "\"objects\":[{\"digest\":\"%s\",\"size\":1},"
                                      "{\"digest\":\"%s\",\"size\":1}]}",
                                      manifest, manifest, absent);
    CHECK_STATUS(service, build_end_with(&stage.one, test_manifest, partly), 409);
    CHECK_STR(service_text(service, "code"), "object_gone");
    const char *path = arena_printf(arena, "/api/deployments/%s", stage.one.subject);
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "status"), "building");
    CHECK(*worker_put(&stage.one, "a layer that never came"));
    CHECK_STATUS(service, build_end_with(&stage.one, test_manifest, partly), 200);
}

static bool is_gone(struct test_worker *worker, const char *id)
{
    struct service *service = worker->service;
    const char *body = arena_printf(&service->arena, "{\"epoch\":%lld,\"images\":[\"sha256:%s\"]}",
                                    (long long)worker->epoch, id);

    return worker_post(worker, "images/needed", body) == 200 &&
           json_count(buf_str(&service->answer.body), "gone") == 1;
}

SERVICE_TEST(a_worker_may_drop_images_that_nobody_is_likely_to_run)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *image = object_id(service, "the manifest of an image");
    CHECK(is_gone(&stage.one, image));
    CHECK_STATUS(service, build_end(&stage.one, test_manifest), 200);
    CHECK(!is_gone(&stage.one, image)); /* deployed lately */
    CHECK(service_change(service, &old, &V_TEXT(stage.one.subject), 1, 1));
    CHECK(is_gone(&stage.one, image));
    const char *promote =
        arena_printf(&service->arena, "/api/deployments/%s/promote", stage.one.subject);
    CHECK_STATUS(service, service_ask(service, stage.key, "POST", promote, ""), 200);
    CHECK(!is_gone(&stage.one, image)); /* the current one */
    CHECK_STATUS(service, worker_post(&stage.one, "images/needed", "{\"epoch\":0,\"images\":[]}"),
                 409);
}

TEST_MAIN()
