#include "worker/capacity.h"

#include <pthread.h>

#include "base/attr.h"
#include "base/test.h"

static const struct room host = {4000, 8192, 10000, 4, 1};
static const struct room sandbox = {2000, 2048, 8192, 1, 0};

TEST(a_claim_is_all_or_nothing)
{
    struct capacity capacity;

    capacity_init(&capacity, host);
    CHECK(capacity_claim(&capacity, sandbox));
    /* cpu, memory and slots would do for a second; the disk does not */
    CHECK(!capacity_claim(&capacity, sandbox));
    struct room left = capacity_free(&capacity);
    CHECK(left.cpu_millis == 2000 && left.memory_mib == 6144 && left.slots == 3);
    capacity_finish(&capacity);
}

TEST(what_is_given_back_can_be_claimed_again)
{
    struct capacity capacity;

    capacity_init(&capacity, host);
    CHECK(capacity_claim(&capacity, sandbox));
    capacity_give_back(&capacity, sandbox);
    CHECK(capacity_claim(&capacity, sandbox));
    capacity_finish(&capacity);
}

TEST(builds_and_runs_have_slots_of_their_own)
{
    const struct room build = {.build_slots = 1};
    struct capacity capacity;

    capacity_init(&capacity, host);
    CHECK(capacity_claim(&capacity, build));
    CHECK(!capacity_claim(&capacity, build));
    CHECK(capacity_free(&capacity).slots == host.slots);
    capacity_finish(&capacity);
}

enum { THREADS = 8, ROUNDS = 2000 };
static struct capacity shared;

static void *claim_and_return(void *arg)
{
    const struct room one = {.slots = 1};
    size_t *claimed = arg;

    for (int i = 0; i < ROUNDS; i++) {
        if (!capacity_claim(&shared, one))
            continue;
        ++*claimed;
        capacity_give_back(&shared, one);
    }
    return NULL;
}

TEST(threads_never_lose_or_make_room)
{
    pthread_t threads[THREADS];
    size_t claimed[THREADS] = {0}, total = 0;

    capacity_init(&shared, (struct room){.slots = 2});
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, claim_and_return, &claimed[i]) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        total += claimed[i];
    }
    CHECK(total > 0 && capacity_free(&shared).slots == 2);
    capacity_finish(&shared);
}

TEST_MAIN()
