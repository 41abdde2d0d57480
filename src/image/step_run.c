/* Run steps: in the sandbox the worker brings, with caches mounted and the upper captured. */
#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/own.h"
#include "image/builder.h"
#include "image/prune.h"

#define SEARCH_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct caches {
    const char **targets; /* paths inside */
    struct image_mount *mounts;
    int *locks;
    size_t n, n_locks;
};

static void caches_finish(struct caches *caches)
{
    for (size_t i = 0; i < caches->n_locks; i++)
        close(caches->locks[i]);
}

static int by_id(const void *a, const void *b)
{
    const struct step_mount *first = a, *second = b;

    return strcmp(first->id.ptr, second->id.ptr);
}

/* Locked in the order of their names, so that two steps cannot wait for each other. */
static bool open_caches(struct builder *builder, const struct step *step, struct caches *caches,
                        struct error *err)
{
    struct arena *arena = builder->arena;
    size_t n = step->cache.n;
    struct step_mount *sorted = arena_array(arena, n + 1, sizeof *sorted);
    AUTO_FD int folder = -1;

    if (n == 0)
        return true;
    memcpy(sorted, step->cache.items, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_id);
    caches->targets = arena_array(arena, n, sizeof *caches->targets);
    caches->mounts = arena_array(arena, n, sizeof *caches->mounts);
    caches->locks = arena_array(arena, n, sizeof *caches->locks);
    if (!directory_make(builder->build->cache_dir, 0700, err))
        return false;
    folder = open(builder->build->cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_errno(err, "open %s", builder->build->cache_dir);
    for (size_t i = 0; i < n; i++) {
        const char *id = sorted[i].id.ptr, *lock = arena_printf(arena, ".%s.lock", id);
        bool is_repeated = i > 0 && strcmp(id, sorted[i - 1].id.ptr) == 0;
        if (!is_repeated && !disk_lock(folder, lock, false, &caches->locks[caches->n_locks], err))
            return false;
        caches->n_locks += !is_repeated;
        if (mkdirat(folder, id, 0755) != 0 && errno != EEXIST)
            return error_errno(err, "make the cache %s", id);
        caches->targets[i] = arena_text(arena, sorted[i].path);
        caches->mounts[i] =
            (struct image_mount){arena_printf(arena, "%s/%s", builder->build->cache_dir, id),
                                 caches->targets[i]};
        caches->n = i + 1;
    }
    return true;
}

static const char *const *texts(struct arena *arena, const struct str *items, size_t n,
                                const char *first)
{
    const char **list = arena_array(arena, n + 2, sizeof *list);
    size_t at = 0;

    if (first)
        list[at++] = first;
    for (size_t i = 0; i < n; i++)
        list[at++] = arena_text(arena, items[i]);
    return list;
}

static bool has_search_path(const struct image_config *config)
{
    for (size_t i = 0; i < config->n_env; i++)
        if (config->env[i].len >= 5 && memcmp(config->env[i].ptr, "PATH=", 5) == 0)
            return true;
    return false;
}

/* The root of the upper is the root of what the step sees: it looks as it did before. */
static bool make_upper(const char *path, const struct view *below, int *fd, struct error *err)
{
    struct stat facts = {.st_mode = 0755};

    if (below->n && fstat(below->layers[below->n - 1], &facts) != 0)
        return error_errno(err, "look at a layer");
    if (mkdir(path, 0755) != 0)
        return error_errno(err, "mkdir %s", path);
    AUTO_FD int upper = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (upper < 0 || fchown(upper, facts.st_uid, facts.st_gid) != 0 ||
        fchmod(upper, facts.st_mode & 07777) != 0)
        return error_errno(err, "prepare %s", path);
    *fd = take_fd(&upper);
    return true;
}

static bool capture(struct builder *builder, int upper, const struct view *below,
                    const struct caches *caches, struct step_result *result, struct error *err)
{
    AUTO(store_layer_finish) struct store_layer layer = {0};

    if (!prune_upper(upper, below, caches->targets, caches->n, err) ||
        !store_layer_begin(builder->store, &layer, err) ||
        !layer_write_tree(&layer.writer, upper, LAYER_OF_OVERLAY, 0, err))
        return false;
    *result = (struct step_result){.has_layer = layer.writer.entries > 0};
    return !result->has_layer || store_layer_commit(&layer, &result->layer, err);
}

static bool run_in(struct builder *builder, struct built *built, const struct step *step,
                   const char *scratch, struct step_result *result, struct error *err)
{
    struct arena *arena = builder->arena;
    const struct image_config *config = &built->document.image.config;
    AUTO(view_finish) struct view below = {0};
    AUTO(caches_finish) struct caches caches = {0};
    AUTO_FD int upper = -1;
    const char *path = arena_printf(arena, "%s/upper", scratch);
    const char *const *folders;

    if (!builder_view(builder, &built->document.image, &below, &folders, err) ||
        !make_upper(path, &below, &upper, err) || !open_caches(builder, step, &caches, err))
        return false;
    const struct image_step_run job = {
        .layers = folders,
        .n_layers = built->document.image.n_layers,
        .upper = path,
        .argv = texts(arena, step->argv.items, step->argv.n, NULL),
        .env =
            texts(arena, config->env, config->n_env, has_search_path(config) ? NULL : SEARCH_PATH),
        .workdir = arena_text(arena, config->workdir),
        .user = arena_text(arena, config->user),
        .mounts = caches.mounts,
        .n_mounts = caches.n,
    };
    return builder->hooks->run(builder->hooks->arg, &job, err) &&
           capture(builder, upper, &below, &caches, result, err);
}

bool step_run(struct builder *builder, struct built *built, const struct step *step,
              struct step_result *result, struct error *err)
{
    char *scratch;

    if (step->secrets.n)
        return error_set(err, ERR_UNSUPPORTED, "build secrets are not supported yet");
    if (!store_scratch(builder->store, builder->arena, &scratch, err))
        return false;
    bool ok = run_in(builder, built, step, scratch, result, err);
    store_drop_scratch(builder->store, scratch);
    return ok;
}
