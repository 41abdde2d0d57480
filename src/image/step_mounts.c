/* The caches of a run step: folders that outlive it, one user at a time. */
#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/own.h"
#include "image/builder.h"

enum { LOCK_POLL_MS = 200 };

void caches_finish(struct caches *caches)
{
    for (size_t i = 0; i < caches->n_locks; i++)
        close(caches->locks[i]);
}

static int by_id(const void *a, const void *b)
{
    const struct step_mount *first = a, *second = b;

    return strcmp(first->id.ptr, second->id.ptr);
}

static int by_path(const void *a, const void *b)
{
    const struct step_mount *first = a, *second = b;

    return strcmp(first->path.ptr, second->path.ptr);
}

static bool lock_cache(struct built *built, int folder, const char *id, int *fd, struct error *err)
{
    const char *name = arena_printf(&built->arena, ".%s.lock", id);

    for (bool is_told = false;; is_told = true) {
        if (!disk_try_lock(folder, name, fd, err))
            return false;
        if (*fd >= 0)
            return true;
        if (!is_told)
            built_log(built, "waiting for cache %s, in use by another build", id);
        if (!builder_pause(built->builder, LOCK_POLL_MS, err))
            return false;
    }
}

/* In the order of their names, so that two steps cannot wait for each other. */
static bool lock_all(struct built *built, const struct step_mount *by_name, size_t n, int folder,
                     struct caches *caches, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *id = by_name[i].id.ptr;
        if (i > 0 && strcmp(id, by_name[i - 1].id.ptr) == 0)
            continue;
        if (!lock_cache(built, folder, id, &caches->locks[caches->n_locks], err))
            return false;
        /* When the cache was last used, for the budget. */
        (void)futimens(caches->locks[caches->n_locks++], NULL);
        if (mkdirat(folder, id, 0755) != 0 && errno != EEXIST)
            return error_errno(err, "make the cache %s", id);
    }
    return true;
}

bool caches_open(struct built *built, const struct step *step, struct caches *caches,
                 struct error *err)
{
    const char *path = built->builder->build->cache_dir;
    struct arena *arena = &built->arena;
    size_t n = step->cache.n;

    if (n == 0)
        return true;
    struct step_mount *sorted = arena_array(arena, n, sizeof *sorted);
    caches->targets = arena_array(arena, n, sizeof *caches->targets);
    caches->mounts = arena_array(arena, n, sizeof *caches->mounts);
    caches->locks = arena_array(arena, n, sizeof *caches->locks);
    if (!directory_make(path, 0700, err))
        return false;
    AUTO_FD int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_errno(err, "open %s", path);
    memcpy(sorted, step->cache.items, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_id);
    if (!lock_all(built, sorted, n, folder, caches, err))
        return false;

    /* Mounted in the order of their paths: one inside another comes after it. */
    qsort(sorted, n, sizeof *sorted, by_path);
    for (size_t i = 0; i < n; i++) {
        caches->targets[i] = arena_text(arena, sorted[i].path);
        caches->mounts[i] =
            (struct image_mount){arena_printf(arena, "%s/%s", path, sorted[i].id.ptr),
                                 caches->targets[i]};
    }
    caches->n = n;
    return true;
}
