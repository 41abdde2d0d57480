/* image_evict: the budget of everything that can be had again. */
#include <errno.h>
#include <fcntl.h>

#include "base/own.h"
#include "image/census.h"
#include "image/usage.h"

enum { FOLDERS_MAX = 1000000 };

/* Drives are files, the others folders. */
static bool is_kind(enum thing_kind kind, const struct stat *facts)
{
    return kind == THING_DRIVE ? S_ISREG(facts->st_mode) : S_ISDIR(facts->st_mode);
}

static bool list_folder(struct census *census, enum thing_kind kind, const char *folder,
                        struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    const char *path = arena_printf(&census->arena, "%s/%s", census->store->work, folder);
    AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || error_errno(err, "open %s", path);
    if (!disk_list(fd, FOLDERS_MAX, &names, err))
        return error_wrap(err, "%s", path);
    for (size_t i = 0; i < names.n; i++) {
        struct stat facts;
        if (names.names[i][0] == '.' ||
            fstatat(fd, names.names[i], &facts, AT_SYMLINK_NOFOLLOW) != 0 || !is_kind(kind, &facts))
            continue;
        struct thing *thing = census_add(census, kind, folder, names.names[i]);
        thing->size = usage_of(fd, names.names[i]);
        if (!census_used(census, thing, fd, &thing->used))
            thing->is_gone = true;
    }
    return true;
}

static bool list_caches(struct census *census, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    const char *path = arena_printf(&census->arena, "%s/caches", census->store->work);
    AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT || error_errno(err, "open %s", path);
    if (!disk_list(fd, FOLDERS_MAX, &names, err))
        return error_wrap(err, "%s", path);
    for (size_t i = 0; i < names.n; i++)
        if (!list_folder(census, THING_CACHE,
                         arena_printf(&census->arena, "caches/%s", names.names[i]), err))
            return false;
    return true;
}

/* In which round a thing may go; 0: never. */
static int round_of(const struct thing *thing)
{
    switch (thing->kind) {
    case THING_BLOB:
        if (!thing->reach)
            return 1;
        return thing->reach & (REACH_NAME | REACH_PART) ? 0 : 3;
    case THING_LAYER: return thing->reach ? 2 : 1;
    case THING_CACHE:
    case THING_BUNDLE:
    case THING_DRIVE: return 2;
    case THING_STEP: return 0;
    }
    return 0;
}

static int by_round_and_use(const void *left, const void *right)
{
    const struct thing *a = *(struct thing *const *)left, *b = *(struct thing *const *)right;
    int order = round_of(a) - round_of(b);

    if (order)
        return order;
    return stamp_before(a->used, b->used) ? -1 : stamp_before(b->used, a->used);
}

static bool is_old(const struct census *census, const struct thing *thing, int64_t idle_ms)
{
    struct timespec limit = census->holds.now;

    limit.tv_sec -= idle_ms / 1000;
    return idle_ms <= 0 || stamp_before(thing->used, limit);
}

/* Steps whose layer went say nothing any more. */
static bool drop_stale_steps(struct census *census, struct image_collected *collected,
                             struct error *err)
{
    for (size_t i = 0; i < census->n; i++) {
        struct thing *step = census->things[i];
        if (step->kind == THING_STEP && step->blob && step->blob->is_gone &&
            !census_remove(census, step, collected, err))
            return false;
    }
    return true;
}

bool image_evict(struct image_store *store, const struct image_budget *budget,
                 struct image_collected *collected, struct error *err)
{
    AUTO(census_finish) struct census census = {.lock = -1};

    *collected = (struct image_collected){0};
    if (!census_take(store, false, &census, err) || !list_caches(&census, err) ||
        !list_folder(&census, THING_BUNDLE, "bundles", err) ||
        !list_folder(&census, THING_DRIVE, "drives", err))
        return false;
    int64_t bytes = census_bytes(&census);
    if (bytes > budget->bytes)
        qsort(census.things, census.n, sizeof *census.things, by_round_and_use);
    for (size_t i = 0; i < census.n && bytes > budget->bytes; i++) {
        if (budget->abort && *budget->abort)
            break;
        struct thing *thing = census.things[i];
        if (!round_of(thing) || !census_is_idle(&census, thing) ||
            !is_old(&census, thing, budget->idle_ms))
            continue;
        if (!census_remove(&census, thing, collected, err))
            return false;
        bytes -= thing->is_gone ? thing->size : 0;
    }
    if (!drop_stale_steps(&census, collected, err) || !census_sweep(&census, err))
        return false;
    collected->kept_bytes = census_bytes(&census);
    return true;
}
