/* Run steps: in the sandbox the worker brings, with caches mounted and the upper captured. */
#include <fcntl.h>

#include "base/own.h"
#include "base/time.h"
#include "image/aside.h"
#include "image/builder.h"
#include "image/prune.h"

#define SEARCH_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum { LIMIT_MS = 60 * 60 * 1000 };

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
    struct stat facts = {.st_mode = S_IFDIR | 0755};

    if (below->n && aside_stat(below->layers[below->n - 1], &facts) != 0)
        return error_errno(err, "look at a layer");
    if (mkdir(path, 0755) != 0)
        return error_errno(err, "mkdir %s", path);
    AUTO_FD int upper = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (upper < 0)
        return error_errno(err, "open %s", path);
    if (!aside_set(upper, facts.st_mode, facts.st_uid, facts.st_gid, err))
        return error_wrap(err, "prepare %s", path);
    *fd = take_fd(&upper);
    return true;
}

/* What is left of the build's time is the most a step may have. */
static int64_t step_limit(const struct image_build *build)
{
    int64_t limit = build->step_limit_ms ? build->step_limit_ms : LIMIT_MS;
    int64_t left = build->deadline_ms ? build->deadline_ms - time_boot_ms() : limit;

    return left < limit ? left : limit;
}

/* Everything but what the platform put there, and nothing of a secret. */
static bool clean(struct built *built, int upper, const struct view *below,
                  const struct caches *caches, const struct secrets *secrets, struct error *err)
{
    return secrets_unplace(secrets, upper, below, err) &&
           prune_upper(upper, below, caches->targets, caches->n, err) &&
           prune_upper(upper, below, secrets->folders, secrets->n, err) &&
           (secrets->n == 0 || secrets_search(built, secrets, upper, err));
}

static bool capture(struct built *built, int upper, struct image_step_layer *result,
                    struct error *err)
{
    AUTO(store_layer_finish) struct store_layer layer = {0};

    if (!store_layer_begin(built->builder->store, &layer, err) ||
        !layer_write_tree(&layer.writer, upper, LAYER_OF_OVERLAY, 0, err))
        return false;
    *result = (struct image_step_layer){.has_layer = layer.writer.entries > 0};
    return !result->has_layer || store_layer_commit(&layer, &result->layer, err);
}

static bool run_in(struct built *built, const struct step *step, const char *scratch,
                   struct image_step_layer *result, struct error *err)
{
    struct arena *arena = &built->arena;
    const struct image_build_hooks *hooks = built->builder->hooks;
    const struct image_config *config = &built->document.image.config;
    AUTO(view_finish) struct view below = {0};
    AUTO(caches_finish) struct caches caches = {0};
    AUTO(secrets_finish) struct secrets secrets = {0};
    AUTO_FD int upper = -1;
    const char *path = arena_printf(arena, "%s/upper", scratch);
    const char *const *folders;

    if (!built_view(built, &built->document.image, &below, &folders, err) ||
        !make_upper(path, &below, &upper, err) || !secrets_open(built, step, &secrets, err) ||
        !caches_open(built, step, &caches, err) || !builder_check(built->builder, err))
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
        .secrets = secrets.mounts,
        .n_secrets = secrets.n,
        .limit_ms = step_limit(built->builder->build),
    };
    return hooks->run(built->ctx, &job, err) &&
           clean(built, upper, &below, &caches, &secrets, err) &&
           builder_check(built->builder, err) && capture(built, upper, result, err);
}

bool step_run(struct built *built, const struct step *step, struct image_step_layer *result,
              struct error *err)
{
    char *scratch;

    if (!store_scratch(built->builder->store, &built->arena, &scratch, err))
        return false;
    bool ok = run_in(built, step, scratch, result, err);
    store_drop_scratch(built->builder->store, scratch);
    return ok;
}
