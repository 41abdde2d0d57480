#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/standby_state.h"
#include "worker/worker.h"

static bool ignore_output(void *arg UNUSED, enum guest_stream stream UNUSED,
                          struct str bytes UNUSED)
{
    return true;
}

static void renew(const struct standby *standby, struct sandbox_spec *spec)
{
    id_make(spec->id);
    spec->deadline_ms = time_boot_ms() + engine_start_ms(standby->worker->engine);
}

/* Up to the gate: the adapter has said hello and waits. */
static bool launch(struct standby *standby, struct place *place, const struct guest_setup *setup,
                   struct error *err)
{
    static const char *const argv[] = {"node", "/opt/helmr/adapter/main.js", NULL};
    const struct guest_program program = {
        .kind = PROGRAM_TASK,
        .argv = argv,
        .listener = {ignore_output, NULL, NULL},
    };

    renew(standby, &place->kind.spec);
    return guest_start(standby->worker, NULL, &place->kind.spec, &place->failure, &place->guest,
                       err) &&
           guest_set_up(place->guest, setup, err) && guest_launch(place->guest, &program, err);
}

static struct guest_setup setup_of(const struct place *place)
{
    return (struct guest_setup){
        .spec = &place->kind.spec,
        .config = &place->kind.config,
        .mount = place->kind.mount,
        .shows_platform = true,
    };
}

/* False: what cannot be done ahead is left to the runs, and one is needed that has done nothing. */
static bool load_ahead(struct place *place, struct error *err)
{
    const struct guest_setup setup = setup_of(place);

    if (guest_preload(place->guest, &setup, place->kind.module, err))
        return true;
    log_info("nothing loaded ahead", LOG_ERR(err));
    guest_stop(TAKE(place->guest));
    return false;
}

static bool make_cold(struct standby *standby, struct place *place, struct error *err)
{
    const struct guest_setup setup = setup_of(place);

    return launch(standby, place, &setup, err) &&
           (load_ahead(place, err) || launch(standby, place, &setup, err));
}

/* A copy of the template, which is dropped. */
static struct guest *copy(struct standby *standby, struct template *template,
                          const uint8_t key[BLAKE2B_LEN], const struct sandbox_spec *spec,
                          struct failure *failure, struct error *err)
{
    const struct guest_listener listener = {ignore_output, NULL, NULL};
    struct guest *guest = NULL;
    bool worked = template_copy(template, standby->worker, spec, &listener, failure, &guest, err);

    if (!worked)
        guest_stop(TAKE(guest));
    /* One that sleeps has not shown that it works. */
    if (!worked || !spec->is_asleep)
        template_pool_note(standby->pool, key, template, worked);
    template_drop(template);
    return guest;
}

static bool make_copy(struct standby *standby, struct place *place, const uint8_t key[BLAKE2B_LEN],
                      struct error *err)
{
    struct template *template = template_pool_find(standby->pool, key);

    if (!template)
        return error_set(err, ERR_NOT_FOUND, "there is no template yet");
    renew(standby, &place->kind.spec);
    place->guest = copy(standby, template, key, &place->kind.spec, &place->failure, err);
    return place->guest;
}

/* The module is imported where all the rest has been done already, if there is such a template. */
static bool make_grown(struct standby *standby, struct place *place, struct error *err)
{
    const uint8_t *plain = place->key.plain;

    return place->kind.module && make_copy(standby, place, plain, err) &&
           (load_ahead(place, err) || make_copy(standby, place, plain, err));
}

/* What is left for a run to do, it should find done once: where a copy translates anew what it
 * runs, the way through an import is translated here. */
static bool warm_up(const struct standby *standby, struct place *place, struct error *err)
{
    return place->kind.module || !worker_translates(standby->worker) || load_ahead(place, err);
}

/* Asleep it has next to no memory of its own. */
static bool make_sleeper(struct standby *standby, struct place *place, struct error *err)
{
    place->kind.spec.is_asleep = true;
    bool is_made = make_copy(standby, place, place->key.exact, err);
    place->kind.spec.is_asleep = false;
    return is_made;
}

static bool make_awake(struct standby *standby, struct place *place, struct error *err)
{
    const uint8_t *key = place->key.exact;

    return make_copy(standby, place, key, err) &&
           (warm_up(standby, place, err) || make_copy(standby, place, key, err));
}

static bool rouse(const struct standby *standby, struct place *place, struct error *err)
{
    const struct template *template = guest_origin(place->guest);
    bool worked = template_wake(place->guest, place->kind.spec.network != NETWORK_OFF, err);

    template_pool_note(standby->pool, place->key.exact, template, worked);
    return worked && warm_up(standby, place, err);
}

/* A copy where that works; else one that is started like any other. */
bool standby_make(struct standby *standby, struct place *place, bool may_sleep, struct error *err)
{
    if (place->guest)
        return rouse(standby, place, err);
    if (may_sleep && worker_translates(standby->worker) && make_sleeper(standby, place, err))
        return true;
    return make_awake(standby, place, err) || make_grown(standby, place, err) ||
           make_cold(standby, place, err);
}

bool standby_make_template(struct standby *standby, struct place *wish, struct template **template,
                           struct error *err)
{
    wish->kind.spec.kind = "template";
    return (make_grown(standby, wish, err) || make_cold(standby, wish, err)) &&
           template_make(wish->guest, &wish->kind.spec, template, err);
}

static struct guest *copy_of(struct standby *standby, const uint8_t key[BLAKE2B_LEN],
                             struct sandbox_spec spec, struct failure *failure)
{
    struct template *template = template_pool_find(standby->pool, key);
    struct error err;

    if (!template)
        return NULL;
    renew(standby, &spec);
    struct guest *guest = copy(standby, template, key, &spec, failure, &err);
    if (!guest)
        log_info("no copy of a template", LOG_ERR(&err));
    return guest;
}

struct guest *standby_copy(struct standby *standby, const struct standby_kind *kind,
                           struct failure *failure)
{
    struct standby_key key;

    standby_kind_key(kind, &key);
    struct guest *guest = copy_of(standby, key.exact, *kind->spec, failure);
    return guest || !kind->module ? guest : copy_of(standby, key.plain, *kind->spec, failure);
}
