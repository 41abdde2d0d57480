/* image_collect: what nothing reaches goes. */
#include <fcntl.h>

#include "base/own.h"
#include "image/census.h"

enum { NOTES_MAX = 4000000 };

/* Steps go first: what only they reached may then go too. */
static bool is_dead_step(const struct thing *step, bool all)
{
    if (step->kind != THING_STEP)
        return false;
    if (step->has_layer && !step->blob)
        return true;
    return all && (!step->blob || !(step->blob->reach & ~(unsigned)REACH_STEP));
}

static bool drop(struct census *census, struct thing *thing, bool is_dry,
                 struct image_collected *collected, struct error *err)
{
    if (!census_is_idle(census, thing))
        return true;
    if (!is_dry)
        return census_remove(census, thing, collected, err);
    census_count(thing, collected);
    return true;
}

static bool drop_steps(struct census *census, const struct image_collection *what,
                       struct image_collected *collected, struct error *err)
{
    for (size_t i = 0; i < census->n; i++)
        if (is_dead_step(census->things[i], what->steps) &&
            !drop(census, census->things[i], what->is_dry, collected, err))
            return false;
    for (size_t i = 0; i < census->n; i++)
        census->things[i]->reach &= ~(unsigned)REACH_STEP;
    for (size_t i = 0; i < census->n; i++) {
        const struct thing *step = census->things[i];
        if (step->kind == THING_STEP && step->blob && !step->is_gone)
            step->blob->reach |= REACH_STEP;
    }
    return true;
}

/* Notes of layers that are not there: their process died between the two. */
static bool drop_notes(struct census *census, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    struct image_store *store = census->store;
    AUTO_FD int removal = -1;

    if (!store_lock_removal(store, false, &removal, err) ||
        !disk_list(store->unpacked_fd, NOTES_MAX, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        struct stat facts;
        if (!disk_has(store->layers_fd, names.names[i]) &&
            fstatat(store->unpacked_fd, names.names[i], &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            stamp_before(facts.st_mtim, census->holds.since))
            (void)unlinkat(store->unpacked_fd, names.names[i], 0);
    }
    return true;
}

bool image_collect(struct image_store *store, const struct image_collection *what,
                   struct image_collected *collected, struct error *err)
{
    AUTO(census_finish) struct census census = {.lock = -1};

    *collected = (struct image_collected){0};
    if (!census_take(store, true, &census, err) || !drop_steps(&census, what, collected, err))
        return false;
    for (size_t i = 0; i < census.n; i++) {
        struct thing *thing = census.things[i];
        if (thing->kind != THING_STEP && !thing->reach &&
            !drop(&census, thing, what->is_dry, collected, err))
            return false;
    }
    collected->kept_bytes = census_bytes(&census);
    return what->is_dry || (drop_notes(&census, err) && census_sweep(&census, err));
}
