/* One test body for both engines:
 *
 *     STORE_TEST(a_sentence) { … store … }   is   a_sentence_on_sqlite, a_sentence_on_postgres
 *
 * Where PostgreSQL is not installed its test is skipped, with the reason.
 */
#pragma once

#include "base/test.h"
#include "store/store_fixture.h"

static inline void fixture_run(enum store_engine engine, void (*body)(struct store *store))
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    struct store *store = NULL;
    const char *skip = NULL;
    struct error err;

    if (!fixture_init(&fixture, engine, &skip, &err)) {
        if (skip)
            SKIP(skip);
        printf("# %s\n", err.text);
        test_failed = 1;
        return;
    }
    if (!fixture_open(&fixture, 0, &store, &err) ||
        !migrate_to(store, fixture_migrations, n_fixture_migrations, &err)) {
        printf("# %s\n", err.text);
        test_failed = 1;
    } else {
        body(store);
    }
    store_close(store);
}

#define STORE_TEST(id)                   \
    static void id(struct store *store); \
    TEST(id##_on_sqlite)                 \
    {                                    \
        fixture_run(ON_SQLITE, id);      \
    }                                    \
    TEST(id##_on_postgres)               \
    {                                    \
        fixture_run(ON_POSTGRES, id);    \
    }                                    \
    static void id(struct store *store)

/* CHECK of a call that fills `err`, showing why it failed. */
#define CHECK_OK(call)                                                        \
    do {                                                                      \
        if (!(call)) {                                                        \
            printf("# %s:%d: %s: %s\n", __FILE__, __LINE__, #call, err.text); \
            test_failed = 1;                                                  \
            return;                                                           \
        }                                                                     \
    } while (0)
