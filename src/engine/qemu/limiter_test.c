#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/test.h"
#include "base/time.h"
#include "engine/qemu/machine.h"

enum { PATIENCE_MS = 600 * 1000, MACHINES = 32 };

static struct engine_host host = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                                  .boot_ended = PTHREAD_COND_INITIALIZER};
static atomic_int n_now, n_most, n_arrived;

static void *boot(void *arg)
{
    struct error err = {0};

    (void)arg;
    if (!boot_turn_take(&host, time_boot_ms() + PATIENCE_MS, &err))
        return NULL;
    int now = atomic_fetch_add(&n_now, 1) + 1;
    for (int most = n_most; now > most && !atomic_compare_exchange_weak(&n_most, &most, now);)
        continue;
    (void)usleep(1000);
    atomic_fetch_sub(&n_now, 1);
    atomic_fetch_add(&n_arrived, 1);
    boot_turn_give(&host);
    return NULL;
}

TEST(many_boots_at_once_take_turns_and_all_arrive)
{
    pthread_t threads[MACHINES];

    for (int i = 0; i < MACHINES; i++)
        CHECK(pthread_create(&threads[i], NULL, boot, NULL) == 0);
    for (int i = 0; i < MACHINES; i++)
        pthread_join(threads[i], NULL);
    CHECK(n_arrived == MACHINES && n_most <= sysconf(_SC_NPROCESSORS_ONLN));
    CHECK(host.n_booting == 0);
}

TEST(a_turn_that_does_not_come_in_time_is_refused)
{
    const int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    struct error err = {0};

    for (int i = 0; i < processors; i++)
        CHECK(boot_turn_take(&host, time_boot_ms() + PATIENCE_MS, &err));
    CHECK(!boot_turn_take(&host, time_boot_ms() + 20, &err) && err.code == ERR_TIMEOUT);
    for (int i = 0; i < processors; i++)
        boot_turn_give(&host);
    CHECK(boot_turn_take(&host, time_boot_ms() + PATIENCE_MS, &err));
    boot_turn_give(&host);
}

TEST_MAIN()
