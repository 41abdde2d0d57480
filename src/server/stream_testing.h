/* For tests of streams: a worker that makes checkpoints, and a run that is started. */
#pragma once

#include "server/park_testing.h"
#include "server/service_suite.h"

#define STREAM_KEYS                                                                        \
    OPERATOR ",\"session-streams:read\",\"session-input:send\",\"session-output:append\"," \
             "\"tokens:complete\""

struct scene {
    struct service *service;
    struct test_worker worker;
    const char *key, *run, *session;
};

static inline bool scene_set(struct service *service, struct scene *scene)
{
    *scene = (struct scene){.service = service, .key = service_make_key(service, STREAM_KEYS)};
    scene->worker = (struct test_worker){.compat = COMPAT, .key_id = KEY_ID};
    if (!worker_join(&scene->worker, service, "one") ||
        !service_build(service, &scene->worker, scene->key) ||
        !worker_carry(&scene->worker, scene->key))
        return false;
    scene->run = arena_text(&service->arena, str_of(scene->worker.subject));
    scene->session = run_text(service, scene->key, scene->run, "session_id");
    return *scene->session;
}

/* A path below the session; "" of a rest stands for the session itself. */
static inline const char *scene_path(struct scene *scene, const char *rest)
{
    return arena_printf(&scene->service->arena, "/api/sessions/%s/%s", scene->session, rest);
}

static inline int scene_post(struct scene *scene, const char *rest, const char *body)
{
    return service_ask(scene->service, scene->key, "POST", scene_path(scene, rest), body);
}

static inline int scene_get(struct scene *scene, const char *rest)
{
    return service_ask(scene->service, scene->key, "GET", scene_path(scene, rest), NULL);
}

/* Sends {"n":<n>} to chat. */
static inline int scene_send(struct scene *scene, int n)
{
    return scene_post(scene, "inputs/chat",
                      arena_printf(&scene->service->arena, "{\"data\":{\"n\":%d}}", n));
}
