#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/test.h"

static atomic_int done;

static void count(void *arg)
{
    atomic_fetch_add(&done, *(int *)arg);
}

TEST(destroying_waits_for_every_job)
{
    struct pool *pool;
    struct error err;
    int one = 1;

    atomic_store(&done, 0);
    CHECK(pool_create(4, &pool, &err));
    for (int i = 0; i < 1000; i++)
        pool_give(pool, count, &one);
    pool_destroy(pool);
    CHECK(atomic_load(&done) == 1000);
}

static int order[100], n_ordered;

static void note(void *arg)
{
    order[n_ordered++] = *(int *)arg;
}

TEST(one_thread_keeps_the_order_given)
{
    struct pool *pool;
    struct error err;
    int numbers[100];

    CHECK(pool_create(1, &pool, &err));
    for (int i = 0; i < 100; i++) {
        numbers[i] = i;
        pool_give(pool, note, &numbers[i]);
    }
    pool_destroy(pool);
    for (int i = 0; i < 100; i++)
        CHECK(order[i] == i);
}

static void meet(void *arg)
{
    pthread_barrier_wait(arg);
}

TEST(jobs_run_side_by_side)
{
    struct pool *pool;
    struct error err;
    pthread_barrier_t all;

    pthread_barrier_init(&all, NULL, 3);
    CHECK(pool_create(3, &pool, &err));
    for (int i = 0; i < 3; i++)
        pool_give(pool, meet, &all);
    pool_destroy(pool);
    pthread_barrier_destroy(&all);
}

TEST(a_pool_needs_a_thread)
{
    struct pool *pool = NULL;
    struct error err;

    CHECK(!pool_create(0, &pool, &err) && err.code == ERR_INVALID);
    pool_destroy(pool);
}

TEST_MAIN()
