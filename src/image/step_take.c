/* One image: its steps in order, each from the cache or done now. */
#include <stdarg.h>

#include "base/encode.h"
#include "base/own.h"
#include "base/time.h"
#include "image/builder.h"
#include "image/copy.h"

void built_log(struct built *built, const char *fmt, ...)
{
    const struct image_build_hooks *hooks = built->builder->hooks;
    char text[1024];
    va_list args;

    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text - 1, fmt, args);
    va_end(args);
    if (!hooks->log || len < 0)
        return;
    size_t kept = (size_t)len < sizeof text - 1 ? (size_t)len : sizeof text - 2;
    text[kept] = '\n';
    hooks->log(built->ctx, (struct str){text, kept + 1});
}

bool built_view(struct built *built, const struct image *image, struct view *view,
                const char *const **folders, struct error *err)
{
    const char *const *unpacked;

    if (!image_unpack(built->builder->store, image, &built->arena, &unpacked, err) ||
        !view_open(unpacked, image->n_layers, view, err))
        return false;
    if (folders)
        *folders = unpacked;
    return true;
}

static void note(const struct step_progress *progress, enum image_step_status status)
{
    const struct image_build_hooks *hooks = progress->built->builder->hooks;
    const struct image_step_note note = {
        .status = status,
        .index = progress->at + 1,
        .total = progress->built->plan->n_steps,
        .text = progress->text,
        .ms = time_boot_ms() - progress->started_ms,
    };

    if (hooks->step)
        hooks->step(progress->built->ctx, &note);
}

void step_announce(struct step_progress *progress)
{
    if (!progress->is_announced)
        note(progress, IMAGE_STEP_STARTED);
    progress->is_announced = true;
}

static void set_env(struct built *built, const struct step *step)
{
    struct image_config *config = &built->document.image.config;
    struct str *env = arena_array(&built->arena, config->n_env + 1, sizeof *env);
    size_t n = config->n_env;
    struct str added =
        str_of(arena_printf(&built->arena, "%.*s=%.*s", (int)step->key.len, step->key.ptr,
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
static bool resolve_workdir(struct built *built, const struct step *step, const char **workdir,
                            struct error *err)
{
    const struct image_config *config = &built->document.image.config;
    bool is_absolute = step->path.ptr[0] == '/';
    char path[TAR_PATH];
    const char *full =
        arena_printf(&built->arena, "./%.*s/%.*s", is_absolute ? 0 : (int)config->workdir.len,
                     config->workdir.ptr, (int)step->path.len, step->path.ptr);

    if (!tar_path(str_of(full), path, err))
        return error_set(err, ERR_INVALID, "%.*s is no valid working directory",
                         step->path.len > 128 ? 128 : (int)step->path.len, step->path.ptr);
    *workdir = arena_printf(&built->arena, "/%s", path);
    const char *reserved = plan_reserved_path(str_of(*workdir));
    return !reserved || error_set(err, ERR_INVALID,
                                  "%.128s is no working directory: %s is "
                                  "reserved for the platform",
                                  *workdir, reserved);
}

/* The image a step copies from, built first; NULL when it copies from the project or nothing. */
static bool need_image(struct built *built, const struct step *step, struct built **other,
                       struct error *err)
{
    *other = step->image.len ? builder_find(built->builder, step->image) : NULL;
    return !*other || builder_wait(built->builder, *other, err);
}

/* What a copy step's result depends on besides its arguments. */
static bool content_of(struct built *built, const struct step *step, const struct built *other,
                       char content[DIGEST_TEXT], struct error *err)
{
    AUTO(source_finish) struct source source = {0};

    content[0] = '\0';
    if (other)
        memcpy(content, other->document.image.digest, DIGEST_TEXT);
    else if (step->kind == STEP_COPY)
        return source_collect(built->builder->project, step, &built->arena, &source, err) &&
               source_hash(&source, content, err);
    return true;
}

static bool make_layer(struct step_progress *progress, const struct built *other,
                       struct image_step_layer *result, struct error *err)
{
    const struct image *from = other ? &other->document.image : NULL;

    step_announce(progress);
    if (progress->step->kind == STEP_RUN)
        return step_run(progress->built, progress->step, result, err);
    return step_copy(progress->built, progress->step, from, result, err);
}

/* A step that makes a layer: from the cache, or done now. */
static bool layer_step(struct step_progress *progress, struct error *err)
{
    struct built *built = progress->built, *other;
    const struct step *step = progress->step;
    struct image_document *document = &built->document;
    char content[DIGEST_TEXT], key[DIGEST_TEXT];
    struct image_step_layer result;
    bool found;

    if (!need_image(built, step, &other, err) || !content_of(built, step, other, content, err))
        return false;
    step_digest(step, built->key, &document->image.config, content, key);
    AUTO(flight_finish) struct flight flight = FLIGHT(progress, key);
    if (!flight_begin(&flight, &found, &result, err))
        return false;
    if (!found &&
        (!make_layer(progress, other, &result, err) || !flight_land(&flight, &result, err)))
        return false;
    if (result.has_layer && document->image.n_layers == VIEW_LAYERS_MAX)
        return error_set(err, ERR_UNPROCESSABLE, "an image may have %d layers", VIEW_LAYERS_MAX);
    document_add(document, result.has_layer ? &result.layer : NULL, progress->text, &built->arena);
    memcpy(built->key, key, sizeof key);
    note(progress, found ? IMAGE_STEP_CACHED : IMAGE_STEP_DONE);
    return true;
}

static bool workdir_step(struct step_progress *progress, struct error *err)
{
    struct built *built = progress->built;
    const char *workdir = "/";

    if (!resolve_workdir(built, progress->step, &workdir, err) || !layer_step(progress, err))
        return false;
    built->document.image.config.workdir = str_of(workdir);
    return true;
}

/* A step that only changes the configuration. */
static void config_step(struct step_progress *progress)
{
    struct built *built = progress->built;
    const struct step *step = progress->step;
    char key[DIGEST_TEXT];

    step_digest(step, built->key, &built->document.image.config, "", key);
    memcpy(built->key, key, sizeof key);
    if (step->kind == STEP_ENV)
        set_env(built, step);
    else
        built->document.image.config.user = step->name;
    document_add(&built->document, NULL, progress->text, &built->arena);
    note(progress, IMAGE_STEP_CACHED);
}

static bool from_step(struct step_progress *progress, struct error *err)
{
    bool cached = false;

    step_announce(progress);
    if (!step_from(progress->built, progress->step, &cached, err))
        return false;
    note(progress, cached ? IMAGE_STEP_CACHED : IMAGE_STEP_DONE);
    return true;
}

static bool take_step(struct step_progress *progress, struct error *err)
{
    switch (progress->step->kind) {
    case STEP_FROM: return from_step(progress, err);
    case STEP_WORKDIR: return workdir_step(progress, err);
    case STEP_RUN:
    case STEP_COPY:
    case STEP_COPY_FROM: return layer_step(progress, err);
    case STEP_ENV:
    case STEP_USER: config_step(progress); return true;
    }
    return error_set(err, ERR_INTERNAL, "a step of no kind");
}

/* "step 3 of 5: RUN npm install exited with code 1". The reason is kept whole, the step's text is
 * cut to what room is left. */
static bool name_step(const struct step_progress *progress, struct error *err)
{
    const struct built *built = progress->built;
    struct error inner = *err;
    bool is_verb = strncmp(inner.text, "exited ", 7) == 0 || strncmp(inner.text, "was ", 4) == 0 ||
                   strncmp(inner.text, "took ", 5) == 0;
    const char *link = inner.code == ERR_UNPROCESSABLE && is_verb ? " " : ": ";
    bool is_one_of_many = built->builder->n_plans > 1;
    char head[192], text[STEP_TEXT];

    int len = snprintf(head, sizeof head, "%s%s%sstep %zu of %zu: ", is_one_of_many ? "image " : "",
                       is_one_of_many ? built->plan->id.ptr : "", is_one_of_many ? ": " : "",
                       progress->at + 1, built->plan->n_steps);
    size_t used = (size_t)len + strlen(link) + strlen(inner.text) + 1;
    size_t room = used + 24 < sizeof inner.text ? sizeof inner.text - used : 24;
    memcpy(text, progress->text, sizeof text);
    step_text_cut(text, room);
    (void)error_set(err, inner.code, "%s%s%s%s", head, text, link, inner.text);
    err->sys = inner.sys;
    if (inner.code != ERR_CANCELLED)
        note(progress, IMAGE_STEP_FAILED);
    return false;
}

static bool take_steps(struct built *built, struct error *err)
{
    const struct plan *plan = built->plan;
    int64_t size;

    for (size_t i = 0; i < plan->n_steps; i++) {
        struct step_progress progress = {.built = built,
                                         .step = &plan->steps[i],
                                         .at = i,
                                         .started_ms = time_boot_ms()};
        step_text(progress.step, progress.text);
        if (!builder_check(built->builder, err) || !take_step(&progress, err))
            return name_step(&progress, err);
    }
    return document_save(built->builder->store, &built->document, &size, err);
}

bool built_make(struct built *built, struct error *err)
{
    const struct image_build_hooks *hooks = built->builder->hooks;

    built->ctx = hooks->enter ? hooks->enter(hooks->arg, built->plan->id.ptr, err) : hooks->arg;
    if (hooks->enter && !built->ctx)
        return false;
    bool is_made = take_steps(built, err);
    if (hooks->leave)
        hooks->leave(built->ctx);
    built->ctx = NULL;
    return is_made;
}
