#include "blob/shipping.h"

#include <pthread.h>

#include "base/own.h"

/* Each holds some MiB. */
enum { WAITING_MAX = 1 };

struct shipping {
    const struct object_backend *backend;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    pthread_t thread;
    bool is_running, is_ending, has_failed;
    struct error err;
    struct parcel *first, *last; /* those that wait */
    size_t n_waiting;
    struct seal_facts *facts;
    size_t n_facts;
};

struct parcel *parcel_create(void)
{
    struct parcel *parcel = alloc(sizeof *parcel);

    *parcel = (struct parcel){.fd = -1};
    return parcel;
}

void parcel_destroy(struct parcel *parcel)
{
    if (!parcel)
        return;
    pack_writer_finish(&parcel->pack);
    auto_close(&parcel->fd);
    seal_writer_finish(&parcel->seal);
    free(parcel);
}

bool parcel_put(struct parcel *parcel, const struct object_backend *backend,
                struct seal_facts *facts, struct error *err)
{
    return pack_writer_end(&parcel->pack, facts, err) &&
           backend->put(backend->arg, facts, parcel->fd, err);
}

struct shipping *shipping_create(const struct object_backend *backend)
{
    struct shipping *shipping = alloc(sizeof *shipping);

    *shipping = (struct shipping){
        .backend = backend,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    return shipping;
}

static struct parcel *take_first(struct shipping *shipping)
{
    struct parcel *parcel = shipping->first;

    shipping->first = parcel->next;
    shipping->last = shipping->first ? shipping->last : NULL;
    shipping->n_waiting--;
    return parcel;
}

static void note(struct shipping *shipping, const struct seal_facts *facts)
{
    shipping->facts =
        alloc_more(shipping->facts, (shipping->n_facts + 1) * sizeof *shipping->facts);
    shipping->facts[shipping->n_facts++] = *facts;
}

/* Under the lock, but not while it is under way. After a failure the others are dropped. */
static void ship_next(struct shipping *shipping)
{
    struct parcel *parcel = take_first(shipping);
    bool is_wanted = !shipping->has_failed, fine = false;
    struct seal_facts facts;
    struct error err;

    pthread_cond_broadcast(&shipping->changed);
    pthread_mutex_unlock(&shipping->lock);
    if (is_wanted)
        fine = parcel_put(parcel, shipping->backend, &facts, &err);
    parcel_destroy(parcel);
    pthread_mutex_lock(&shipping->lock);
    if (fine)
        note(shipping, &facts);
    if (is_wanted && !fine && !shipping->has_failed) {
        shipping->has_failed = true;
        shipping->err = err;
    }
    pthread_cond_broadcast(&shipping->changed);
}

static void *run(void *arg)
{
    struct shipping *shipping = arg;

    pthread_mutex_lock(&shipping->lock);
    for (;;) {
        if (shipping->first)
            ship_next(shipping);
        else if (shipping->is_ending)
            break;
        else
            pthread_cond_wait(&shipping->changed, &shipping->lock);
    }
    pthread_mutex_unlock(&shipping->lock);
    return NULL;
}

static bool start(struct shipping *shipping, struct error *err)
{
    int code = pthread_create(&shipping->thread, NULL, run, shipping);

    if (code != 0)
        return error_set(err, ERR_UNAVAILABLE, "a thread cannot be started: %s", strerror(code));
    shipping->is_running = true;
    return true;
}

bool shipping_give(struct shipping *shipping, struct parcel *parcel, struct error *err)
{
    if (!shipping->is_running && !start(shipping, err)) {
        parcel_destroy(parcel);
        return false;
    }
    pthread_mutex_lock(&shipping->lock);
    while (shipping->n_waiting >= WAITING_MAX && !shipping->has_failed)
        pthread_cond_wait(&shipping->changed, &shipping->lock);
    parcel->next = NULL;
    *(shipping->last ? &shipping->last->next : &shipping->first) = parcel;
    shipping->last = parcel;
    shipping->n_waiting++;
    bool has_failed = shipping->has_failed;
    if (has_failed)
        *err = shipping->err;
    pthread_cond_broadcast(&shipping->changed);
    pthread_mutex_unlock(&shipping->lock);
    return !has_failed;
}

bool shipping_end(struct shipping *shipping, const struct seal_facts **facts, size_t *n,
                  struct error *err)
{
    if (shipping->is_running) {
        pthread_mutex_lock(&shipping->lock);
        shipping->is_ending = true;
        pthread_cond_broadcast(&shipping->changed);
        pthread_mutex_unlock(&shipping->lock);
        pthread_join(shipping->thread, NULL);
    }
    shipping->is_running = shipping->is_ending = false;
    *facts = shipping->facts;
    *n = shipping->n_facts;
    if (shipping->has_failed)
        *err = shipping->err;
    return !shipping->has_failed;
}

void shipping_destroy(struct shipping *shipping)
{
    const struct seal_facts *facts;
    struct error err;
    size_t n;

    if (!shipping)
        return;
    pthread_mutex_lock(&shipping->lock);
    shipping->has_failed = true;
    pthread_mutex_unlock(&shipping->lock);
    (void)!shipping_end(shipping, &facts, &n, &err);
    pthread_cond_destroy(&shipping->changed);
    pthread_mutex_destroy(&shipping->lock);
    free(shipping->facts);
    free(shipping);
}
