/* Removing what a census found: renamed away while nobody can be looking, then deleted. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/own.h"
#include "image/census.h"

enum { DAY = 24 * 3600, UNFINISHED_MAX = 1000000 };

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* The folder a thing lies in, and the one that has the time of its last use. */
struct place {
    int folder;
    int lock; /* of a cache, a bundle or a drive */
    int own;  /* descriptor to close, or -1 */
};

static void place_finish(struct place *place)
{
    if (place->own >= 0)
        close(place->own);
    if (place->lock >= 0)
        close(place->lock);
}

static bool open_place(struct census *census, const struct thing *thing, struct place *place,
                       struct error *err)
{
    struct image_store *store = census->store;

    *place = (struct place){.lock = -1, .own = -1};
    switch (thing->kind) {
    case THING_BLOB: place->folder = store->blobs_fd; return true;
    case THING_LAYER: place->folder = store->layers_fd; return true;
    case THING_STEP:
    case THING_CACHE:
    case THING_BUNDLE:
    case THING_DRIVE: break;
    }
    AUTO_FREE char *path = NULL;
    if (asprintf(&path, "%s/%s", store->work, thing->folder) < 0)
        abort();
    place->folder = place->own = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return place->own >= 0 || error_errno(err, "open %s", path);
}

/* Whoever uses a cache, a bundle or a drive has locked it. */
static bool lock_thing(const struct thing *thing, struct place *place, bool *is_free,
                       struct error *err)
{
    char name[300];

    *is_free = true;
    if (thing->kind == THING_CACHE) {
        (void)snprintf(name, sizeof name, ".%.255s.lock", thing->name);
        if (!disk_try_lock(place->folder, name, &place->lock, err))
            return false;
        *is_free = place->lock >= 0;
    } else if (thing->kind == THING_BUNDLE || thing->kind == THING_DRIVE) {
        place->lock = disk_open(place->folder, thing->name, O_RDONLY);
        *is_free = place->lock >= 0 && flock(place->lock, LOCK_EX | LOCK_NB) == 0;
    }
    return true;
}

/* A cache's last use is the time of its lock file, which was just opened and not written. */
bool census_used(struct census *census, const struct thing *thing, int folder,
                 struct timespec *used)
{
    char name[300];
    struct stat facts;
    bool has_note = thing->kind == THING_LAYER &&
                    fstatat(census->store->unpacked_fd, thing->name, &facts, 0) == 0;

    if (has_note) {
        *used = facts.st_mtim;
        return true;
    }
    (void)snprintf(name, sizeof name, ".%.255s.lock", thing->name);
    if (thing->kind == THING_CACHE && fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) == 0) {
        *used = facts.st_mtim;
        return true;
    }
    if (fstatat(folder, thing->name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    *used = thing->kind == THING_LAYER ? facts.st_ctim : facts.st_mtim;
    return true;
}

/* Under the exclusive removal lock. */
static bool move_away(struct census *census, const struct thing *thing, char name[DISK_TEMPORARY],
                      bool *is_moved, struct error *err)
{
    AUTO(place_finish) struct place place = {.lock = -1, .own = -1};
    struct image_store *store = census->store;
    struct timespec used;
    bool is_free;

    *is_moved = false;
    if (!open_place(census, thing, &place, err) || !lock_thing(thing, &place, &is_free, err))
        return false;
    if (!is_free || !census_used(census, thing, place.folder, &used) ||
        !same_time(used, thing->used))
        return true;
    disk_temporary(name);
    if (renameat(place.folder, thing->name, store->temporary_fd, name) != 0)
        return errno == ENOENT || error_errno(err, "rename %s", thing->name);
    if (thing->kind == THING_LAYER)
        (void)unlinkat(store->unpacked_fd, thing->name, 0);
    *is_moved = true;
    return true;
}

static void count(struct image_collected *collected, const struct thing *thing)
{
    switch (thing->kind) {
    case THING_BLOB: collected->blobs++; break;
    case THING_LAYER: collected->layers++; break;
    case THING_STEP: collected->steps++; break;
    case THING_CACHE: collected->caches++; break;
    case THING_BUNDLE: collected->bundles++; break;
    case THING_DRIVE: collected->drives++; break;
    }
    collected->bytes += thing->size;
}

bool census_remove(struct census *census, struct thing *thing, struct image_collected *collected,
                   struct error *err)
{
    AUTO_FD int removal = -1;
    char name[DISK_TEMPORARY];
    struct error ignored;
    bool is_moved;

    if (!store_lock_removal(census->store, false, &removal, err) ||
        !move_away(census, thing, name, &is_moved, err))
        return error_wrap(err, "making room in the image store");
    close(take_fd(&removal));
    if (!is_moved)
        return true;
    /* What cannot be deleted now is deleted when the store is opened next. */
    (void)!tree_remove(census->store->temporary_fd, name, &ignored);
    thing->is_gone = true;
    count(collected, thing);
    return true;
}

void census_count(struct thing *thing, struct image_collected *collected)
{
    thing->is_gone = true;
    count(collected, thing);
}

bool census_sweep(struct census *census, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    struct timespec limit = census->holds.since;
    int folder = census->store->temporary_fd;
    struct error ignored;

    limit.tv_sec -= DAY;
    if (!disk_list(folder, UNFINISHED_MAX, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        struct stat facts;
        /* By the time of the last change, which nobody can set. */
        if (fstatat(folder, names.names[i], &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            stamp_before(facts.st_ctim, limit))
            (void)!tree_remove(folder, names.names[i], &ignored);
    }
    return true;
}
