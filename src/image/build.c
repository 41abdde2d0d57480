/* image_build: plans become images, step by step. */
#include <fcntl.h>

#include "base/own.h"
#include "base/time.h"
#include "image/builder.h"
#include "image/copy.h"
#include "image/recipe.h"

static bool build_plan(struct builder *builder, struct built *built, struct error *err);

bool builder_view(struct builder *builder, const struct image *image, struct view *view,
                  const char *const **folders, struct error *err)
{
    const char *const *unpacked;

    if (!image_unpack(builder->store, image, builder->arena, &unpacked, err) ||
        !view_open(unpacked, image->n_layers, view, err))
        return false;
    if (folders)
        *folders = unpacked;
    return true;
}

struct progress {
    const struct builder *builder;
    const char *image_id;
};

static void log_line(void *arg, const char *line)
{
    const struct progress *progress = arg;
    const struct image_build_hooks *hooks = progress->builder->hooks;
    char text[1024];
    int len = snprintf(text, sizeof text, "%s\n", line);

    if (hooks->log && len > 0 && (size_t)len < sizeof text)
        hooks->log(hooks->arg, progress->image_id, (struct str){text, (size_t)len});
}

/* A base that is not here and cannot be made here: say what can be done. */
static bool base_is_missing(const char *reference, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND,
                     "%s is not in the local image store, and registries are not supported yet: "
                     "`helmr image bootstrap` makes " RECIPE_KNOWN,
                     reference);
}

/* `cached`: the image was in the store already. */
static bool start_from(struct builder *builder, struct built *built, const struct step *step,
                       bool *cached, struct error *err)
{
    struct progress progress = {builder, built->plan->id.ptr};
    const char *reference = arena_text(builder->arena, step->ref);
    struct reference parsed;
    struct recipe recipe;
    struct error ignored;
    struct image image;
    char digest[DIGEST_TEXT];

    if (!reference_parse(step->ref, &parsed, err))
        return false;
    *cached = image_find(builder->store, reference, builder->arena, &image, err);
    if (!*cached) {
        if (err->code != ERR_NOT_FOUND)
            return false;
        if (!recipe_find(&parsed, &recipe, &ignored))
            return base_is_missing(reference, err);
        log_line(&progress, "the base image is not in the local store and is made now");
        if (!image_bootstrap(builder->store, reference, false, log_line, &progress, digest, err))
            return false;
    } else {
        memcpy(digest, image.digest, sizeof digest);
    }
    if (!document_load(builder->store, digest, builder->arena, &built->document, err))
        return false;
    memcpy(built->key, digest, sizeof digest);
    return true;
}

static void set_env(struct built *built, const struct step *step, struct arena *arena)
{
    struct image_config *config = &built->document.image.config;
    struct str *env = arena_array(arena, config->n_env + 1, sizeof *env);
    size_t n = config->n_env;
    struct str added =
        str_of(arena_printf(arena, "%.*s=%.*s", (int)step->key.len, step->key.ptr,
                            (int)step->value.len, step->value.len ? step->value.ptr : ""));

    if (n)
        memcpy(env, config->env, n * sizeof *env);
    for (size_t i = 0; i < n; i++)
        if (env[i].len > step->key.len && env[i].ptr[step->key.len] == '=' &&
            memcmp(env[i].ptr, step->key.ptr, step->key.len) == 0) {
            env[i] = added;
            config->env = env;
            return;
        }
    env[n] = added;
    config->env = env;
    config->n_env = n + 1;
}

/* Absolute and without dots, by text: programs see the path they were given. */
static bool set_workdir(struct built *built, const struct step *step, struct arena *arena,
                        struct error *err)
{
    struct image_config *config = &built->document.image.config;
    bool is_absolute = step->path.ptr[0] == '/';
    char path[TAR_PATH];
    const char *full =
        arena_printf(arena, "./%.*s/%.*s", is_absolute ? 0 : (int)config->workdir.len,
                     config->workdir.ptr, (int)step->path.len, step->path.ptr);

    if (!tar_path(str_of(full), path, err))
        return error_set(err, ERR_INVALID, "%.*s is no valid working directory",
                         step->path.len > 128 ? 128 : (int)step->path.len, step->path.ptr);
    config->workdir = str_of(arena_printf(arena, "/%s", path));
    return true;
}

static struct built *find_built(struct builder *builder, struct str id)
{
    for (size_t i = 0; i < builder->n_plans; i++)
        if (str_equal(builder->plans[i].id, id))
            return &builder->built[i];
    return NULL;
}

/* The image a step copies from, built first; NULL when it copies from the project or nothing. */
static bool need_image(struct builder *builder, const struct step *step, struct built **other,
                       struct error *err)
{
    *other = NULL;
    if (!step->image.len)
        return true;
    *other = find_built(builder, step->image);
    if (!*other)
        return error_set(err, ERR_INVALID, "there is no image \"%s\"", step->image.ptr);
    if ((*other)->state == BUILT_GOING_ON)
        return error_set(err, ERR_INVALID, "image \"%s\" needs itself", step->image.ptr);
    return build_plan(builder, *other, err) || error_wrap(err, "image %s", step->image.ptr);
}

/* What a copy step's result depends on besides its arguments. */
static bool content_of(struct builder *builder, const struct step *step, const struct built *other,
                       char content[DIGEST_TEXT], struct error *err)
{
    AUTO(source_finish) struct source source = {0};

    content[0] = '\0';
    if (other)
        memcpy(content, other->document.image.digest, DIGEST_TEXT);
    else if (step->kind == STEP_COPY)
        return source_collect(builder->project, step, builder->arena, &source, err) &&
               source_hash(&source, content, err);
    return true;
}

struct step_progress {
    struct builder *builder;
    const struct built *built;
    size_t at;
    char text[STEP_TEXT];
    int64_t started_ms;
};

static void report(const struct step_progress *step, bool cached, bool done)
{
    const struct image_build_hooks *hooks = step->builder->hooks;

    if (hooks->step)
        hooks->step(hooks->arg, step->built->plan->id.ptr, step->at + 1, step->built->plan->n_steps,
                    step->text, cached, done, time_boot_ms() - step->started_ms);
}

/* A step that makes a layer: from the cache, or done now. */
static bool layer_step(struct step_progress *progress, struct built *built, const struct step *step,
                       struct error *err)
{
    struct builder *builder = progress->builder;
    char content[DIGEST_TEXT], key[DIGEST_TEXT];
    struct step_result result;
    struct built *other;

    if (!need_image(builder, step, &other, err) || !content_of(builder, step, other, content, err))
        return false;
    step_digest(step, built->key, &built->document.image.config, content, key);
    bool cached = step_cache_find(builder, key, &result);
    if (!cached) {
        report(progress, false, false);
        bool ok = step->kind == STEP_RUN
                      ? step_run(builder, built, step, &result, err)
                      : step_copy(builder, built, step, other ? &other->document.image : NULL,
                                  &result, err);
        if (!ok || !step_cache_put(builder, key, progress->text, &result, err))
            return false;
    }
    if (result.has_layer && built->document.image.n_layers == VIEW_LAYERS_MAX)
        return error_set(err, ERR_UNPROCESSABLE, "an image may have %d layers", VIEW_LAYERS_MAX);
    document_add(&built->document, result.has_layer ? &result.layer : NULL, progress->text,
                 builder->arena);
    memcpy(built->key, key, sizeof key);
    report(progress, cached, true);
    return true;
}

/* A step that only changes the configuration. */
static void config_step(struct step_progress *progress, struct built *built,
                        const struct step *step)
{
    char key[DIGEST_TEXT];

    step_digest(step, built->key, &built->document.image.config, "", key);
    memcpy(built->key, key, sizeof key);
    if (step->kind == STEP_ENV)
        set_env(built, step, progress->builder->arena);
    else
        built->document.image.config.user = step->name;
    document_add(&built->document, NULL, progress->text, progress->builder->arena);
    report(progress, true, true);
}

static bool take_step(struct step_progress *progress, struct built *built, const struct step *step,
                      struct error *err)
{
    bool cached = false;

    switch (step->kind) {
    case STEP_FROM:
        report(progress, false, false);
        if (!start_from(progress->builder, built, step, &cached, err))
            return false;
        report(progress, cached, true);
        return true;
    case STEP_WORKDIR:
        return layer_step(progress, built, step, err) &&
               set_workdir(built, step, progress->builder->arena, err);
    case STEP_RUN:
    case STEP_COPY:
    case STEP_COPY_FROM: return layer_step(progress, built, step, err);
    case STEP_ENV:
    case STEP_USER: config_step(progress, built, step); return true;
    }
    return error_set(err, ERR_INTERNAL, "a step of no kind");
}

/* "step 3 of 5: RUN npm install exited with code 1" */
static bool name_step(const struct step_progress *progress, struct error *err)
{
    struct error inner = *err;
    bool is_verb = strncmp(inner.text, "exited ", 7) == 0 || strncmp(inner.text, "was ", 4) == 0;
    const char *link = inner.code == ERR_UNPROCESSABLE && is_verb ? " " : ": ";

    (void)error_set(err, inner.code, "step %zu of %zu: %s%s%s", progress->at + 1,
                    progress->built->plan->n_steps, progress->text, link, inner.text);
    err->sys = inner.sys;
    return false;
}

static bool build_plan(struct builder *builder, struct built *built, struct error *err)
{
    const struct plan *plan = built->plan;
    int64_t size;

    if (built->state == BUILT_DONE)
        return true;
    built->state = BUILT_GOING_ON;
    for (size_t i = 0; i < plan->n_steps; i++) {
        struct step_progress progress = {.builder = builder,
                                         .built = built,
                                         .at = i,
                                         .started_ms = time_boot_ms()};
        step_text(&plan->steps[i], progress.text);
        if (!take_step(&progress, built, &plan->steps[i], err))
            return name_step(&progress, err);
    }
    if (!document_save(builder->store, &built->document, &size, err))
        return false;
    built->state = BUILT_DONE;
    return true;
}

/* The plan itself comes last when the list does not have it. */
static bool read_plans(struct builder *builder, struct built **root, struct error *err)
{
    struct plan plan, *others = NULL;
    size_t n = 0;

    if (!plan_read(builder->build->plan, builder->arena, &plan, err) ||
        (builder->build->all_plans.len &&
         !plan_read_all(builder->build->all_plans, builder->arena, &others, &n, err)))
        return false;
    builder->plans = arena_array(builder->arena, n + 1, sizeof *builder->plans);
    builder->built = arena_array(builder->arena, n + 1, sizeof *builder->built);
    for (size_t i = 0; i < n; i++)
        if (!str_equal(others[i].id, plan.id))
            builder->plans[builder->n_plans++] = others[i];
    builder->plans[builder->n_plans++] = plan;
    for (size_t i = 0; i < builder->n_plans; i++)
        builder->built[i].plan = &builder->plans[i];
    *root = &builder->built[builder->n_plans - 1];
    return true;
}

bool image_build(struct image_store *store, const struct image_build *build,
                 const struct image_build_hooks *hooks, struct arena *arena, struct image *image,
                 struct error *err)
{
    struct builder builder = {.store = store, .build = build, .hooks = hooks, .arena = arena};
    AUTO_FD int project = open(build->source_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct built *root;

    if (project < 0)
        return error_errno(err, "open %s", build->source_dir);
    builder.project = project;
    if (!read_plans(&builder, &root, err) || !build_plan(&builder, root, err))
        return false;
    *image = root->document.image;
    return true;
}
