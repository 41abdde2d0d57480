#include "base/wait.h"

#include "base/test.h"
#include "base/time.h"

struct scene {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_set;
};

static void *set(void *arg)
{
    struct scene *scene = arg;

    pthread_mutex_lock(&scene->lock);
    scene->is_set = true;
    pthread_cond_signal(&scene->changed);
    pthread_mutex_unlock(&scene->lock);
    return NULL;
}

TEST(a_wait_for_nothing_ends_no_sooner_than_its_time)
{
    struct scene scene = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    int64_t begun = time_boot_ns();

    pthread_mutex_lock(&scene.lock);
    while (wait_ms(&scene.changed, &scene.lock, 20))
        ;
    pthread_mutex_unlock(&scene.lock);
    CHECK(time_boot_ns() - begun >= 20000000);
}

TEST(a_signal_ends_the_wait)
{
    struct scene scene = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    pthread_t other;
    bool is_late = false;

    pthread_mutex_lock(&scene.lock);
    CHECK(pthread_create(&other, NULL, set, &scene) == 0);
    while (!scene.is_set && !is_late)
        is_late = !wait_ms(&scene.changed, &scene.lock, 60999);
    pthread_mutex_unlock(&scene.lock);
    pthread_join(other, NULL);
    CHECK(scene.is_set);
    CHECK(!is_late);
}

TEST_MAIN()
