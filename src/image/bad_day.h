/* Help for tests of pull and push: a registry on loopback that misbehaves, and an image to move. */
#pragma once

#include "image/registry_faults.h"
#include "image/registry_testing.h"

/* A test's registry with the image of `here`. */
struct bad_day {
    struct registry_test test;
    struct fault_server server;
    struct arena arena;
    struct image image;
    char name[128]; /* of the image there */
    char digest[DIGEST_TEXT];
};

/* Silence is noticed soon only where it is what the test is about: a slow machine is no fault. So
 * it is also known already that TLS is not spoken. */
static inline void set_fault(struct bad_day *day, enum fault fault)
{
    struct registries *registries = day->test.registries;
    bool is_silent = fault == FAULT_STALL || fault == FAULT_MUTE;

    day->server.fault = fault;
    registries->pace.stall_ms = is_silent ? 1000 : 20000;
    if (is_silent)
        (void)map_put(&registries->clear, str_of(day->server.address), day);
}

static inline bool bad_day_init(struct bad_day *day, enum fault fault)
{
    struct registry_test *test = &day->test;

    if (!registry_test_init(test) ||
        !image_find(test->here, test->digest, &day->arena, &day->image, &test->err) ||
        !store_read_blob(test->here, test->digest, MIB(4), &day->arena, &day->server.manifest,
                         &test->err))
        return false;
    day->server.store = test->here;
    memcpy(day->server.layer, day->image.layers[0].digest, DIGEST_TEXT);
    if (!fault_server_start(&day->server, "127.0.0.1"))
        return false;
    set_fault(day, fault);
    (void)snprintf(day->name, sizeof day->name, "%s/thing:1", day->server.address);
    return true;
}

static inline void bad_day_finish(struct bad_day *day)
{
    fault_server_stop(&day->server);
    arena_finish(&day->arena);
    registry_test_finish(&day->test);
}

#define BAD_DAY(name, fault)                        \
    AUTO(bad_day_finish) struct bad_day name = {0}; \
    if (!bad_day_init(&(name), fault))              \
    abort()
