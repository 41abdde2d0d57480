#include "worker/standby.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "base/wait.h"
#include "worker/standby_state.h"
#include "worker/worker.h"

enum {
    TEMPLATES_PART = 4, /* of the capacity's memory */
    TICK_MS = 1000,
    IDLE_MS = 5 * 60 * 1000,
    TAKE_WAIT_MS = 10 * 1000,
};

static void clear(struct place *place)
{
    kept_kind_finish(&place->kind);
    *place = (struct place){0};
}

static bool is_exact(const struct place *place, const struct standby_key *key)
{
    return memcmp(place->key.exact, key->exact, BLAKE2B_LEN) == 0;
}

static bool is_awake(const struct place *place)
{
    return place->state == PLACE_READY && !guest_is_asleep(place->guest);
}

/* Of each kind one is awake, for the next run; those after it sleep until it is gone. */
static bool has_awake(const struct standby *standby, const struct standby_key *key)
{
    for (size_t i = 0; i < standby->max; i++) {
        const struct place *place = &standby->places[i];

        if (is_awake(place) && is_exact(place, key))
            return true;
    }
    return false;
}

/* With the lock held; given up while the sandbox starts. */
static void make_one(struct standby *standby, struct place *place)
{
    const bool may_sleep = has_awake(standby, &place->key);
    struct error err;

    place->state = PLACE_MAKING;
    pthread_mutex_unlock(&standby->lock);
    bool made = standby_make(standby, place, may_sleep, &err);
    if (!made) {
        log_debug("no sandbox made ahead", LOG_ERR(&err));
        guest_stop(TAKE(place->guest));
    }
    pthread_mutex_lock(&standby->lock);
    if (made)
        place->state = PLACE_READY;
    else
        clear(place);
    pthread_cond_broadcast(&standby->changed);
}

/* When it is nobody's turn: a sandbox of the kind becomes its template. With the lock held; given
 * up meanwhile. */
static void make_template(struct standby *standby, struct place *wish)
{
    struct template *template = NULL;
    struct error err;

    wish->state = PLACE_MAKING;
    pthread_mutex_unlock(&standby->lock);
    if (!standby_make_template(standby, wish, &template, &err))
        log_info("no template made", LOG_ERR(&err));
    guest_stop(TAKE(wish->guest));
    if (!template_pool_settle(standby->pool, wish->key.exact, template, time_boot_ms()))
        log_info("no room for another template");
    pthread_mutex_lock(&standby->lock);
    clear(wish);
}

static void drop(struct standby *standby, struct place *place)
{
    struct guest *guest = TAKE(place->guest);

    clear(place);
    pthread_mutex_unlock(&standby->lock);
    guest_stop(guest);
    pthread_mutex_lock(&standby->lock);
}

/* What stands by is kept alive; what is dead or was not wanted for long goes. */
static void tend(struct standby *standby)
{
    for (size_t i = 0; i < standby->max; i++) {
        struct place *place = &standby->places[i];
        struct error err;

        if (place->state != PLACE_READY)
            continue;
        if (!guest_stand_by(place->guest, &err) || time_boot_ms() - place->used_ms > IDLE_MS ||
            atomic_load(&standby->worker->draining))
            drop(standby, place);
    }
}

static void wait_a_tick(struct standby *standby)
{
    wait_ms(&standby->changed, &standby->lock, TICK_MS);
}

static struct place *first_of(struct place *places, size_t n, enum place_state state)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].state == state)
            return &places[i];
    return NULL;
}

/* One to be woken, since none of its kind is awake. */
static struct place *next_sleeper(struct standby *standby)
{
    for (size_t i = 0; i < standby->max; i++) {
        struct place *place = &standby->places[i];

        if (place->state == PLACE_READY && !is_awake(place) && !has_awake(standby, &place->key))
            return place;
    }
    return NULL;
}

/* Where a start is dear the first that is made becomes the template, and all others are copies. */
static void make_next(struct standby *standby)
{
    struct place *sleeper = next_sleeper(standby);
    struct place *wanted = first_of(standby->places, standby->max, PLACE_WANTED);
    struct place *wish = first_of(standby->wishes, WISHES_MAX, PLACE_WANTED);

    if (sleeper)
        make_one(standby, sleeper);
    else if (wish && (!wanted || standby->worker->engine->has_drives))
        make_template(standby, wish);
    else if (wanted)
        make_one(standby, wanted);
    else
        wait_a_tick(standby);
}

static void *standby_main(void *arg)
{
    struct standby *standby = arg;

    pthread_mutex_lock(&standby->lock);
    while (!standby->is_closing) {
        make_next(standby);
        tend(standby);
    }
    pthread_mutex_unlock(&standby->lock);
    return NULL;
}

/* Templates come on top of the capacity, unless the operator has said how much they may take. */
static int64_t template_room(const struct worker *worker)
{
    int64_t mib = worker->settings->template_cache_max_mib;

    return (mib ? mib : worker->capacity.total.memory_mib / TEMPLATES_PART) << 20;
}

bool standby_create(struct worker *worker, size_t max, struct standby **standby, struct error *err)
{
    struct standby *made = alloc(sizeof *made);

    *made = (struct standby){.worker = worker, .max = max < PLACES_MAX ? max : PLACES_MAX};
    template_pool_create(template_room(worker), &made->pool);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    if (pthread_create(&made->thread, NULL, standby_main, made) != 0) {
        template_pool_destroy(made->pool);
        free(made);
        return error_set(err, ERR_INTERNAL, "no thread could be made");
    }
    *standby = made;
    return true;
}

void standby_destroy(struct standby *standby)
{
    if (!standby)
        return;
    pthread_mutex_lock(&standby->lock);
    standby->is_closing = true;
    pthread_cond_broadcast(&standby->changed);
    pthread_mutex_unlock(&standby->lock);
    pthread_join(standby->thread, NULL);
    for (size_t i = 0; i < standby->max; i++) {
        guest_stop(standby->places[i].guest);
        clear(&standby->places[i]);
    }
    for (size_t i = 0; i < WISHES_MAX; i++)
        clear(&standby->wishes[i]);
    template_pool_destroy(standby->pool);
    pthread_mutex_destroy(&standby->lock);
    pthread_cond_destroy(&standby->changed);
    free(standby);
}

/* One that is awake before one that sleeps, and either before one of another module: of these the
 * one that was not wanted for longest. */
static struct place *find(struct standby *standby, const struct standby_key *key,
                          enum place_state state)
{
    struct place *exact = NULL, *similar = NULL;

    for (size_t i = 0; i < standby->max; i++) {
        struct place *place = &standby->places[i];

        if (place->state != state)
            continue;
        if (is_exact(place, key) && (!exact || !is_awake(exact)))
            exact = place;
        if (memcmp(place->key.plain, key->plain, BLAKE2B_LEN) == 0 &&
            (!similar || place->used_ms < similar->used_ms))
            similar = place;
    }
    return exact ? exact : similar;
}

/* One under way began earlier than a start of our own would. It is for one run only: the others
 * would wait for the next, which has not begun. */
static void await_one(struct standby *standby, const struct standby_key *key)
{
    struct place *making = find(standby, key, PLACE_MAKING);
    int64_t until = time_boot_ms() + TAKE_WAIT_MS;

    if (!making || making->is_awaited)
        return;
    making->is_awaited = true;
    while (making->state == PLACE_MAKING && !standby->is_closing && time_boot_ms() < until)
        wait_a_tick(standby);
}

/* What stood by for another module is missed by its own runs: one like it is made in its place, if
 * there is room beside it for what this run wants. */
static void leave(struct standby *standby, struct place *place, const struct standby_key *key)
{
    if (!is_exact(place, key) && first_of(standby->places, standby->max, PLACE_EMPTY))
        place->state = PLACE_WANTED;
    else
        clear(place);
}

struct guest *standby_take(struct standby *standby, const struct standby_kind *kind)
{
    struct guest *guest = NULL;
    struct standby_key key;

    standby_kind_key(kind, &key);
    pthread_mutex_lock(&standby->lock);
    if (!find(standby, &key, PLACE_READY))
        await_one(standby, &key);
    struct place *place = find(standby, &key, PLACE_READY);
    if (place) {
        guest = TAKE(place->guest);
        leave(standby, place, &key);
    }
    pthread_mutex_unlock(&standby->lock);
    return guest;
}

struct template *standby_find_template(struct standby *standby, struct str manifest)
{
    return template_pool_find_stored(standby->pool, manifest);
}

/* A free place, else the one that was not used for longest and is of another kind. */
static struct place *choose(struct standby *standby, const struct standby_key *key)
{
    struct place *oldest = NULL;
    size_t n_same = 0;

    for (size_t i = 0; i < standby->max; i++) {
        struct place *place = &standby->places[i];
        bool is_same = is_exact(place, key);

        if (place->state == PLACE_EMPTY)
            return place;
        n_same += is_same;
        if (!is_same && place->state == PLACE_READY &&
            (!oldest || place->used_ms < oldest->used_ms))
            oldest = place;
    }
    return n_same == 0 ? oldest : NULL;
}

static void want(struct standby *standby, struct place *place, const struct standby_kind *kind,
                 const struct standby_key *key)
{
    kept_kind_init(&place->kind, kind);
    place->key = *key;
    place->state = PLACE_WANTED;
    place->used_ms = time_boot_ms();
    pthread_cond_broadcast(&standby->changed);
}

/* Whoever wants nothing made ahead gets no templates either, unless a start is dear. */
static bool keeps_templates(const struct standby *standby)
{
    const struct worker *worker = standby->worker;

    return worker->saves && !standby->is_closing &&
           (standby->max > 0 || worker->engine->has_drives);
}

/* One that is not wished for any more when there is no room for wishes is no loss: the next run of
 * the kind wishes again. */
static void wish(struct standby *standby, const struct standby_kind *kind,
                 const struct standby_key *key)
{
    for (size_t i = 0; i < WISHES_MAX; i++) {
        struct place *place = &standby->wishes[i];

        if (place->state != PLACE_EMPTY)
            continue;
        if (template_pool_claim(standby->pool, key->exact, time_boot_ms()))
            want(standby, place, kind, key);
        return;
    }
}

/* The plain one first: all tasks of a deployment can use it, and the others grow from it. */
static void wish_all(struct standby *standby, const struct standby_kind *kind,
                     const struct standby_key *key)
{
    const struct standby_kind plain = {kind->spec, kind->config, kind->mount, NULL};
    struct template *exact = template_pool_find(standby->pool, key->exact);
    struct standby_key plain_key;

    template_drop(exact);
    if (exact)
        return;
    standby_kind_key(&plain, &plain_key);
    wish(standby, &plain, &plain_key);
    if (kind->module)
        wish(standby, kind, key);
}

void standby_want(struct standby *standby, const struct standby_kind *kind)
{
    struct standby_key key;

    standby_kind_key(kind, &key);
    pthread_mutex_lock(&standby->lock);
    struct place *place = standby->is_closing ? NULL : choose(standby, &key);
    if (place && place->state == PLACE_READY)
        drop(standby, place);
    if (place && place->state == PLACE_EMPTY)
        want(standby, place, kind, &key);
    if (keeps_templates(standby))
        wish_all(standby, kind, &key);
    pthread_mutex_unlock(&standby->lock);
}
