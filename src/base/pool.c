#include "base/pool.h"

#include <pthread.h>
#include <signal.h>

#include "base/own.h"

struct job {
    struct job *next;
    pool_job *run;
    void *arg;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first, **last;
    bool is_ending;
    size_t n_threads;
    pthread_t threads[];
};

static struct job *take_job(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->first && !pool->is_ending)
        pthread_cond_wait(&pool->changed, &pool->lock);

    struct job *job = pool->first;

    if (job) {
        pool->first = job->next;
        if (!pool->first)
            pool->last = &pool->first;
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *work(void *arg)
{
    struct pool *pool = arg;

    for (struct job *job; (job = take_job(pool));) {
        job->run(job->arg);
        free(job);
    }
    return NULL;
}

/* Signals belong to the loop's thread; one of ours must never be picked for them. */
static int start_threads(struct pool *pool, size_t n)
{
    sigset_t all, before;
    int failed = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (!failed && pool->n_threads < n) {
        failed = pthread_create(&pool->threads[pool->n_threads], NULL, work, pool);
        pool->n_threads += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

bool pool_create(size_t n_threads, struct pool **pool, struct error *err)
{
    if (n_threads < 1 || n_threads > 1024)
        return error_set(err, ERR_INVALID, "a pool has 1 to 1024 threads");

    struct pool *made = alloc(sizeof *made + n_threads * sizeof(pthread_t));

    *made = (struct pool){.last = &made->first};
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    if (start_threads(made, n_threads) != 0) {
        pool_destroy(made);
        return error_set(err, ERR_INTERNAL, "cannot start %zu threads", n_threads);
    }
    *pool = made;
    return true;
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);

    for (size_t i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void pool_give(struct pool *pool, pool_job *job, void *arg)
{
    struct job *made = alloc(sizeof *made);

    *made = (struct job){.run = job, .arg = arg};
    pthread_mutex_lock(&pool->lock);
    *pool->last = made;
    pool->last = &made->next;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}
