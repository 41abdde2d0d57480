#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "base/own.h"
#include "image/builder.h"

enum { LOCK_POLL_MS = 100, ASK_AGAIN_MS = 500 };

static const char *lock_name(const struct flight *flight)
{
    struct built *built = flight->progress->built;

    return arena_printf(&built->arena, "%s.%s", built->builder->build->scope, flight->key);
}

/* The lock when nobody has it, else -1 as well. Whoever had it took the file away. */
static bool try_lock(const struct flight *flight, const char *name, int *fd, struct error *err)
{
    int folder = flight->progress->built->builder->locks;
    AUTO_FD int lock = -1;
    struct stat mine, there;

    *fd = -1;
    if (!disk_try_lock(folder, name, &lock, err))
        return false;
    if (lock < 0)
        return true;
    if (fstat(lock, &mine) != 0)
        return error_errno(err, "look at %s", name);
    if (fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == mine.st_ino)
        *fd = take_fd(&lock);
    return true;
}

static bool lock_step(struct flight *flight, struct error *err)
{
    const char *name = lock_name(flight);

    for (;;) {
        if (!try_lock(flight, name, &flight->lock, err))
            return false;
        if (flight->lock >= 0)
            return true;
        step_announce(flight->progress);
        if (!builder_pause(flight->progress->built->builder, LOCK_POLL_MS, err))
            return false;
    }
}

void flight_finish(struct flight *flight)
{
    if (flight->lock < 0)
        return;
    /* While it is still ours: one that waits sees that its file is gone, and makes a new one. */
    (void)unlinkat(flight->progress->built->builder->locks, lock_name(flight), 0);
    close(flight->lock);
    flight->lock = -1;
}

/* Without a cache only what this very build has done counts. */
static bool may_use(struct builder *builder, const char *key)
{
    if (!builder->build->no_cache)
        return true;
    pthread_mutex_lock(&builder->lock);
    bool is_made = map_find(&builder->made, str_of(key)) != NULL;
    pthread_mutex_unlock(&builder->lock);
    return is_made;
}

/* What another worker did: brought here and remembered. False with *found unset when it turns out
 * to be lost: then the step is done again. */
static bool bring(struct flight *flight, const struct image_step_layer *result, bool *found,
                  struct error *err)
{
    struct built *built = flight->progress->built;
    struct builder *builder = built->builder;
    const struct image_layer *layer = &result->layer;

    *found = false;
    if (result->has_layer && !store_has_blob(builder->store, layer->digest)) {
        if (!builder->hooks->fetch)
            return true;
        if (!builder->hooks->fetch(built->ctx, layer->digest, layer->size, err))
            return err->code == ERR_NOT_FOUND || err->code == ERR_OBJECT_GONE;
    }
    *found = true;
    return step_cache_put(built, flight->key, flight->progress->text, result, err);
}

static bool ask_others(struct flight *flight, bool *found, struct image_step_layer *result,
                       struct error *err)
{
    struct built *built = flight->progress->built;
    const struct image_build_hooks *hooks = built->builder->hooks;
    enum image_step_find answer;

    *found = false;
    if (!hooks->find || built->builder->build->no_cache)
        return true;
    for (;;) {
        *result = (struct image_step_layer){0};
        if (!hooks->find(built->ctx, flight->key, &answer, result, err))
            return false;
        if (answer == IMAGE_STEP_HIT)
            return bring(flight, result, found, err);
        if (answer == IMAGE_STEP_YOURS)
            return true;
        step_announce(flight->progress);
        if (!builder_pause(built->builder, ASK_AGAIN_MS, err))
            return false;
    }
}

bool flight_begin(struct flight *flight, bool *found, struct image_step_layer *result,
                  struct error *err)
{
    struct built *built = flight->progress->built;

    *found = may_use(built->builder, flight->key) && step_cache_find(built, flight->key, result);
    if (*found)
        return true;
    if (!lock_step(flight, err))
        return false;
    /* Whoever had the lock before may have done it. */
    *found = may_use(built->builder, flight->key) && step_cache_find(built, flight->key, result);
    return *found || ask_others(flight, found, result, err);
}

bool flight_land(struct flight *flight, const struct image_step_layer *result, struct error *err)
{
    struct built *built = flight->progress->built;
    struct builder *builder = built->builder;

    if (!step_cache_put(built, flight->key, flight->progress->text, result, err))
        return false;
    pthread_mutex_lock(&builder->lock);
    (void)map_put(&builder->made, str_of(flight->key), builder);
    pthread_mutex_unlock(&builder->lock);
    return !builder->hooks->record || builder->hooks->record(built->ctx, flight->key, result, err);
}
