/* One test body against a whole server, once on each engine:
 *
 *     SERVICE_TEST(a_sentence) { … service … }
 *
 * Where PostgreSQL is not installed its test is skipped, with the reason. HELMR_TEST_ENGINES=sqlite
 * leaves it out, too, and =postgres the other one: what differs between the two is below the store,
 * which has its own tests.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/test.h"
#include "server/testing.h"

static inline void service_run(enum store_engine engine, void (*body)(struct service *service))
{
    const char *skip = NULL, *wanted = getenv("HELMR_TEST_ENGINES");

    if (engine == ON_POSTGRES && wanted && strcmp(wanted, "sqlite") == 0)
        SKIP("HELMR_TEST_ENGINES leaves PostgreSQL out");
    if (engine == ON_SQLITE && wanted && strcmp(wanted, "postgres") == 0)
        SKIP("HELMR_TEST_ENGINES leaves SQLite out");
    struct service *service = service_start(engine, &skip);
    if (!service)
        SKIP(skip);
    body(service);
    service_stop(service);
}

#define SERVICE_TEST(id)                     \
    static void id(struct service *service); \
    TEST(id##_on_sqlite)                     \
    {                                        \
        service_run(ON_SQLITE, id);          \
    }                                        \
    TEST(id##_on_postgres)                   \
    {                                        \
        service_run(ON_POSTGRES, id);        \
    }                                        \
    static void id(struct service *service)

/* Shows the answer when the status is another. */
#define CHECK_STATUS(service, got, want)                                                    \
    do {                                                                                    \
        int got_ = (got);                                                                   \
        if (got_ != (want)) {                                                               \
            printf("# %s:%d: status %d, want %d: %.*s\n", __FILE__, __LINE__, got_, (want), \
                   (int)(service)->answer.body.len,                                         \
                   (service)->answer.body.bytes ? (service)->answer.body.bytes : "");       \
            test_failed = 1;                                                                \
            return;                                                                         \
        }                                                                                   \
    } while (0)
