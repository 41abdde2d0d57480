/* Which sandboxes stand by, asleep and awake, and who gets them. Guests and templates are stand-ins
 * of this test, made and woken when it lets them be. */
#include "worker/standby.h"

#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "base/time.h"
#include "base/wait.h"
#include "worker/standby_state.h"
#include "worker/template.h"
#include "worker/worker.h"

enum { PLACES = 3, PATIENCE_MS = 60 * 1000, TEMPLATE_BYTES = 1 << 20 };

struct template
{
    int holders;
};

struct guest {
    bool is_asleep;
    struct template *origin;
};

/* What happened; changed by the standby's thread and by the test. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n_alive, n_asleep, n_cold, n_copies, n_woken, n_templates;
    bool holds_wakes, fails_wakes;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note(int *count, int by)
{
    pthread_mutex_lock(&seen.lock);
    *count += by;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static struct guest *guest_new(bool is_asleep, struct template *origin)
{
    struct guest *made = alloc(sizeof *made);

    *made = (struct guest){is_asleep, template_hold(origin)};
    note(&seen.n_asleep, is_asleep);
    note(&seen.n_alive, 1);
    return made;
}

/* --- the stand-ins --- */

bool guest_start(struct worker *worker, struct lease *lease, const struct sandbox_spec *spec,
                 struct failure *failure, struct guest **guest, struct error *err)
{
    (void)worker, (void)lease, (void)spec, (void)failure, (void)err;
    *guest = guest_new(false, NULL);
    note(&seen.n_cold, 1);
    return true;
}

bool guest_set_up(struct guest *guest, const struct guest_setup *setup, struct error *err)
{
    (void)guest, (void)setup, (void)err;
    return true;
}

bool guest_launch(struct guest *guest, const struct guest_program *program, struct error *err)
{
    (void)guest, (void)program, (void)err;
    return true;
}

bool guest_preload(struct guest *guest, const struct guest_setup *setup, const char *module,
                   struct error *err)
{
    (void)guest, (void)setup, (void)module, (void)err;
    return true;
}

bool guest_is_asleep(const struct guest *guest)
{
    return guest->is_asleep;
}

bool guest_stand_by(struct guest *guest, struct error *err)
{
    (void)guest, (void)err;
    return true;
}

struct template *guest_origin(const struct guest *guest)
{
    return guest->origin;
}

void guest_stop(struct guest *guest)
{
    if (!guest)
        return;
    note(&seen.n_asleep, -(int)guest->is_asleep);
    note(&seen.n_alive, -1);
    template_drop(guest->origin);
    free(guest);
}

bool template_make(struct guest *guest, const struct sandbox_spec *spec, struct template **template,
                   struct error *err)
{
    (void)guest, (void)spec, (void)err;
    *template = alloc(sizeof **template);
    (*template)->holders = 1;
    note(&seen.n_templates, 1);
    return true;
}

struct template *template_hold(struct template *template)
{
    if (template)
        note(&template->holders, 1);
    return template;
}

void template_drop(struct template *template)
{
    if (!template)
        return;
    pthread_mutex_lock(&seen.lock);
    bool is_last = --template->holders == 0;
    seen.n_templates -= is_last;
    pthread_mutex_unlock(&seen.lock);
    if (is_last)
        free(template);
}

bool template_is_idle(const struct template *template)
{
    return template->holders == 1;
}

int64_t template_size(const struct template *template)
{
    (void)template;
    return TEMPLATE_BYTES;
}

bool template_is_stored_as(struct template *template, struct str manifest)
{
    (void)template, (void)manifest;
    return false;
}

bool template_copy(struct template *template, struct worker *worker,
                   const struct sandbox_spec *spec, const struct guest_listener *listener,
                   struct failure *failure, struct guest **guest, struct error *err)
{
    (void)worker, (void)listener, (void)failure, (void)err;
    *guest = guest_new(spec->is_asleep, template);
    note(&seen.n_copies, 1);
    return true;
}

bool template_wake(struct guest *guest, bool has_network, struct error *err)
{
    (void)has_network;
    pthread_mutex_lock(&seen.lock);
    while (seen.holds_wakes)
        pthread_cond_wait(&seen.changed, &seen.lock);
    bool ok = !seen.fails_wakes;
    pthread_mutex_unlock(&seen.lock);
    if (!ok)
        return error_set(err, ERR_GONE, "it does not wake");
    note(&seen.n_asleep, -(int)guest->is_asleep);
    note(&seen.n_woken, guest->is_asleep);
    guest->is_asleep = false;
    return true;
}

/* --- the scene --- */

struct scene {
    struct worker_settings settings;
    struct worker worker;
    struct standby *standby;
};

static void scene_close(struct scene **scene)
{
    standby_destroy((*scene)->standby);
    free(*scene);
}

static struct scene *scene_open(void)
{
    struct scene *scene = alloc(sizeof *scene);
    struct error err;

    pthread_mutex_lock(&seen.lock);
    seen.n_cold = seen.n_copies = seen.n_woken = 0;
    seen.holds_wakes = seen.fails_wakes = false;
    pthread_mutex_unlock(&seen.lock);
    scene->worker = (struct worker){.engine = &engine_qemu,
                                    .saves = true,
                                    .settings = &scene->settings,
                                    .capacity.total.memory_mib = 4096};
    if (!standby_create(&scene->worker, PLACES, &scene->standby, &err))
        abort();
    return scene;
}

static const struct sandbox_spec spec = {
    .kind = "run", .platform = "/platform", .bundle = "/bundle", .vcpus = 1, .memory_mib = 512};
static const struct image_config config = {.workdir = STR("/")};
static const struct standby_kind usual = {&spec, &config, "/workspace", NULL};
static const struct standby_kind other = {&spec, &config, "/elsewhere", NULL};

/* Once so many are alive, and so many of them asleep. */
static bool comes_to(int alive, int asleep)
{
    int64_t until = time_boot_ms() + PATIENCE_MS;

    pthread_mutex_lock(&seen.lock);
    while ((seen.n_alive != alive || seen.n_asleep != asleep) && time_boot_ms() < until)
        wait_ms(&seen.changed, &seen.lock, until - time_boot_ms());
    bool is_so = seen.n_alive == alive && seen.n_asleep == asleep;
    pthread_mutex_unlock(&seen.lock);
    return is_so;
}

static size_t count_of(struct standby *standby, enum place_state state)
{
    size_t n = 0;

    pthread_mutex_lock(&standby->lock);
    for (size_t i = 0; i < standby->max; i++)
        n += standby->places[i].state == state;
    pthread_mutex_unlock(&standby->lock);
    return n;
}

/* They are there a moment before they can be taken. */
static bool are_ready(struct standby *standby, size_t n)
{
    int64_t until = time_boot_ms() + PATIENCE_MS;

    while (count_of(standby, PLACE_READY) != n && time_boot_ms() < until) {
        pthread_mutex_lock(&standby->lock);
        wait_ms(&standby->changed, &standby->lock, 10);
        pthread_mutex_unlock(&standby->lock);
    }
    return count_of(standby, PLACE_READY) == n;
}

static bool fill(struct scene *scene)
{
    for (int i = 0; i < PLACES; i++) {
        standby_want(scene->standby, &usual);
        if (!are_ready(scene->standby, (size_t)i + 1))
            return false;
    }
    return true;
}

static void hold_wakes(bool holds)
{
    pthread_mutex_lock(&seen.lock);
    seen.holds_wakes = holds;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

TEST(of_each_kind_one_is_awake_and_the_others_sleep)
{
    AUTO(scene_close) struct scene *scene = scene_open();

    CHECK(fill(scene) && comes_to(PLACES, PLACES - 1));

    /* One became the template, all that stand by are copies of it. */
    CHECK(seen.n_cold == 1 && seen.n_copies == PLACES && seen.n_woken == 0);
    CHECK(seen.n_templates == 1);
}

TEST(a_run_takes_the_one_that_is_awake_and_the_next_is_woken)
{
    AUTO(scene_close) struct scene *scene = scene_open();

    CHECK(fill(scene) && comes_to(PLACES, PLACES - 1));
    struct guest *taken = standby_take(scene->standby, &usual);
    CHECK(taken && !guest_is_asleep(taken));
    CHECK(comes_to(PLACES, PLACES - 2) && seen.n_woken == 1);
    CHECK(are_ready(scene->standby, PLACES - 1));
    guest_stop(taken);
    CHECK(comes_to(PLACES - 1, PLACES - 2));
}

TEST(a_run_that_finds_only_a_sleeper_wakes_it_itself)
{
    AUTO(scene_close) struct scene *scene = scene_open();
    struct error err;

    CHECK(fill(scene) && comes_to(PLACES, PLACES - 1));
    hold_wakes(true);
    struct guest *first = standby_take(scene->standby, &usual);
    CHECK(first && !guest_is_asleep(first));

    /* The standby is about to wake one; the other is nobody's yet. */
    CHECK(are_ready(scene->standby, 1) && count_of(scene->standby, PLACE_MAKING) == 1);
    struct guest *second = standby_take(scene->standby, &usual);
    CHECK(second && guest_is_asleep(second));
    hold_wakes(false);
    CHECK(template_wake(second, true, &err) && !guest_is_asleep(second));
    CHECK(comes_to(PLACES, 0) && seen.n_woken == 2);

    /* The one that was being woken is there for the third. */
    struct guest *third = standby_take(scene->standby, &usual);
    CHECK(third && !guest_is_asleep(third));
    CHECK(count_of(scene->standby, PLACE_EMPTY) == PLACES);
    guest_stop(first);
    guest_stop(second);
    guest_stop(third);
}

TEST(there_are_never_more_than_was_said_and_another_kind_gets_a_place)
{
    AUTO(scene_close) struct scene *scene = scene_open();

    CHECK(fill(scene) && comes_to(PLACES, PLACES - 1));
    for (int i = 0; i < PLACES; i++)
        standby_want(scene->standby, &usual);
    CHECK(are_ready(scene->standby, PLACES) && comes_to(PLACES, PLACES - 1));

    standby_want(scene->standby, &other);
    CHECK(are_ready(scene->standby, PLACES));
    struct guest *taken = standby_take(scene->standby, &other);
    CHECK(taken && !guest_is_asleep(taken));
    CHECK(seen.n_alive <= PLACES && seen.n_templates == 2);
    guest_stop(taken);
}

TEST(one_that_does_not_wake_goes)
{
    AUTO(scene_close) struct scene *scene = scene_open();

    CHECK(fill(scene) && comes_to(PLACES, PLACES - 1));
    pthread_mutex_lock(&seen.lock);
    seen.fails_wakes = true;
    pthread_mutex_unlock(&seen.lock);
    struct guest *taken = standby_take(scene->standby, &usual);
    CHECK(taken && !guest_is_asleep(taken));

    /* Each in its turn, until none is left that sleeps. */
    CHECK(comes_to(1, 0) && seen.n_woken == 0);
    guest_stop(taken);
}

TEST(what_stands_by_goes_with_its_worker)
{
    struct scene *scene = scene_open();

    CHECK(fill(scene) && comes_to(PLACES, PLACES - 1));
    scene_close(&scene);
    CHECK(seen.n_alive == 0 && seen.n_asleep == 0 && seen.n_templates == 0);
}

TEST_MAIN()
