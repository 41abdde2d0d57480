#include "engine/service.h"

#include <pthread.h>
#include <signal.h>

#include "base/log.h"
#include "base/own.h"

struct service {
    struct loop *loop;
    pthread_t thread;
};

struct call {
    loop_fire *function;
    void *arg;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool is_done;
};

static void *service_main(void *arg)
{
    struct service *service = arg;
    struct error err = {0};

    if (!loop_run(service->loop, &err))
        log_error("the service thread ended", LOG_ERR(&err));
    return NULL;
}

bool service_create(struct service **service, struct error *err)
{
    struct service *made = alloc(sizeof(*made));
    sigset_t all, before;

    if (!loop_create(&made->loop, err)) {
        free(made);
        return false;
    }

    /* Signals belong to the worker's own loop. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&made->thread, NULL, service_main, made);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        loop_destroy(made->loop);
        free(made);
        return error_set(err, ERR_INTERNAL, "start the service thread: error %d", failed);
    }
    *service = made;
    return true;
}

void service_destroy(struct service *service)
{
    if (!service)
        return;
    loop_stop(service->loop);
    pthread_join(service->thread, NULL);
    loop_destroy(service->loop);
    free(service);
}

struct loop *service_loop(struct service *service)
{
    return service->loop;
}

static void call_run(void *arg)
{
    struct call *call = arg;

    call->function(call->arg);
    pthread_mutex_lock(&call->mutex);
    call->is_done = true;
    pthread_cond_signal(&call->ended);
    pthread_mutex_unlock(&call->mutex);
}

void service_call(struct service *service, loop_fire *function, void *arg)
{
    struct call call = {.function = function,
                        .arg = arg,
                        .mutex = PTHREAD_MUTEX_INITIALIZER,
                        .ended = PTHREAD_COND_INITIALIZER};

    loop_post(service->loop, call_run, &call);
    pthread_mutex_lock(&call.mutex);
    while (!call.is_done)
        pthread_cond_wait(&call.ended, &call.mutex);
    pthread_mutex_unlock(&call.mutex);
}
