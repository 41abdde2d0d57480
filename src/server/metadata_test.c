/* What a program says of its run: metadata in order and within its size, and events of its own. */
#include "base/json.h"
#include "base/own.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

struct stage {
    struct test_worker worker;
    const char *key, *run;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    if (!worker_join(&stage->worker, service, "one") ||
        !service_build(service, &stage->worker, stage->key) ||
        !worker_carry(&stage->worker, stage->key))
        return false;
    stage->run = arena_text(&service->arena, str_of(stage->worker.subject));
    return true;
}

static const char *metadata(struct stage *stage)
{
    struct service *service = stage->worker.service;
    struct str raw = STR("");

    run_text(service, stage->key, stage->run, "status");
    json_find_raw(buf_str(&service->answer.body), "metadata", &service->arena, &raw);
    return arena_text(&service->arena, raw);
}

SERVICE_TEST(metadata_changes_in_order_and_is_seen_on_the_run)
{
    static const struct {
        const char *kind, *body, *after;
    } steps[] = {
        {"metadata.set",       "{\"key\":\"step\",\"value\":\"build\"}",    "{\"step\":\"build\"}"          },
        {"metadata.increment", "{\"key\":\"n\",\"amount\":1}",              "{\"n\":1,\"step\":\"build\"}"  },
        {"metadata.increment", "{\"key\":\"n\",\"amount\":2.5}",            "{\"n\":3.5,\"step\":\"build\"}"},
        {"metadata.patch",     "{\"patch\":{\"step\":{\"a\":1},\"b\":[]}}",
         "{\"b\":[],\"n\":3.5,\"step\":{\"a\":1}}"                                                          },
        {"metadata.patch",     "{\"patch\":{\"step\":{\"c\":2}}}",
         "{\"b\":[],\"n\":3.5,\"step\":{\"c\":2}}"                                                          },
        {"metadata.set",       "{\"key\":\"b\",\"value\":null}",
         "{\"b\":null,\"n\":3.5,\"step\":{\"c\":2}}"                                                        },
    };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        CHECK(lease_op(&stage.worker, (int64_t)i + 1, steps[i].kind, steps[i].body));
        CHECK_STR(metadata(&stage), steps[i].after);
    }
    CHECK(run_events_of(service, stage.key, stage.run, "run.metadata.updated") == COUNT_OF(steps));
    CHECK(service_says(service, "\"operation\":\"increment\",\"key\":\"n\""));
    /* Told again it is not done again. */
    CHECK(lease_op(&stage.worker, 2, steps[1].kind, steps[1].body));
    CHECK_STR(metadata(&stage), steps[COUNT_OF(steps) - 1].after);
    CHECK(run_events_of(service, stage.key, stage.run, "run.metadata.updated") == COUNT_OF(steps));
}

SERVICE_TEST(metadata_that_is_too_large_or_of_another_kind_is_refused)
{
    enum { LARGE = 200 * 1024, KEY = 513 };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    AUTO_FREE char *value = alloc(LARGE + 1), *key = alloc(KEY + 1);
    memset(value, 'x', LARGE);
    memset(key, 'k', KEY);
    value[LARGE] = key[KEY] = '\0';
    struct arena *arena = &service->arena;
    const char *large = arena_printf(arena, "{\"key\":\"a\",\"value\":\"%s\"}", value);
    const struct {
        const char *kind, *body, *code;
    } refused[] = {
        {"metadata.set", arena_printf(arena, "{\"key\":\"b\",\"value\":\"%s\"}", value),
         "request_too_large"},
        {"metadata.set", arena_printf(arena, "{\"key\":\"%s\",\"value\":1}", key),
         "invalid_request"},
        {"metadata.patch", arena_printf(arena, "{\"patch\":{\"%s\":1}}", key), "invalid_request"},
        {"metadata.set", "{\"key\":\"\",\"value\":1}", "invalid_request"},
        {"metadata.patch", "{\"patch\":[]}", "invalid_request"},
        {"metadata.increment", "{\"key\":\"a\",\"amount\":1}", "invalid_request"},
        {"metadata.increment", "{\"key\":\"n\",\"amount\":\"1\"}", "invalid_request"},
        {"metadata.remove", "{}", "unsupported"},
    };
    CHECK(lease_op(&stage.worker, 1, "metadata.set", large));
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        CHECK(!lease_op(&stage.worker, (int64_t)i + 2, refused[i].kind, refused[i].body));
        CHECK_STR(service_text(service, "results.0.body.code"), refused[i].code);
    }
    CHECK(strlen(metadata(&stage)) == LARGE + 8);
    CHECK(run_events_of(service, stage.key, stage.run, "run.metadata.updated") == 1);
}

SERVICE_TEST(what_is_emitted_is_an_event_of_its_own_kind)
{
    enum { LIMIT = 256 * 1024 };
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(lease_op(&stage.worker, 1, "event.emit",
                   "{\"type\":\"message.part\",\"content\":[{\"text\":\"hello\"},1]}"));
    CHECK(lease_op(&stage.worker, 1, "event.emit",
                   "{\"type\":\"message.part\",\"content\":[{\"text\":\"hello\"},1]}"));
    CHECK(run_events_of(service, stage.key, stage.run, "emit.message.part") == 1);
    CHECK(service_says(service, "\"content\":[{\"text\":\"hello\"},1]"));
    CHECK(service_says(service, "\"redaction_class\":\"sensitive\""));

    AUTO_FREE char *text = alloc(LIMIT + 1);
    memset(text, 'x', LIMIT);
    text[LIMIT - 4] = '\0';
    struct arena *arena = &service->arena;
    CHECK(lease_op(&stage.worker, 2, "event.emit",
                   arena_printf(arena, "{\"type\":\"t\",\"content\":[\"%s\"]}", text)));
    text[LIMIT - 4] = 'x';
    text[LIMIT - 3] = '\0';
    const char *const refused[] = {
        arena_printf(arena, "{\"type\":\"t\",\"content\":[\"%s\"]}", text),
        arena_printf(arena, "{\"type\":\"%.257s\",\"content\":[]}", text),
        "{\"type\":\"\",\"content\":[]}",
        "{\"type\":\"t\",\"content\":{}}",
        "{\"type\":\"t\",\"content\":\"[]\"}",
        "{\"type\":\"t\"}",
        "{\"content\":[]}",
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        CHECK(!lease_op(&stage.worker, (int64_t)i + 3, "event.emit", refused[i]));
}

SERVICE_TEST(metadata_of_a_run_that_is_over_stays)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(lease_op(&stage.worker, 1, "metadata.set", "{\"key\":\"a\",\"value\":1}"));
    CHECK_STATUS(service, lease_report(&stage.worker, "succeeded", ""), 200);
    CHECK(!lease_op(&stage.worker, 2, "metadata.set", "{\"key\":\"a\",\"value\":2}"));
    CHECK_STR(metadata(&stage), "{\"a\":1}");
}

TEST_MAIN()
