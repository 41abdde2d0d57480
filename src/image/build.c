/* image_build: every plan becomes an image, those that do not need each other at the same time. */
#include <fcntl.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "base/wait.h"
#include "image/builder.h"

enum { POLL_MS = 200 };

static bool is_late(const struct builder *builder)
{
    int64_t deadline = builder->build->deadline_ms;

    return deadline && time_boot_ms() >= deadline;
}

static bool refuse_late(struct error *err)
{
    return error_set(err, ERR_UNPROCESSABLE, "the images took longer than a build may");
}

bool builder_check(struct builder *builder, struct error *err)
{
    if (is_late(builder))
        return refuse_late(err);
    return !*builder->abort || error_set(err, ERR_CANCELLED, "the build was given up");
}

bool builder_pause(struct builder *builder, int64_t ms, struct error *err)
{
    pthread_mutex_lock(&builder->lock);
    if (!*builder->abort)
        (void)wait_ms(&builder->changed, &builder->lock, ms);
    pthread_mutex_unlock(&builder->lock);
    return builder_check(builder, err);
}

bool builder_wait(struct builder *builder, const struct built *other, struct error *err)
{
    bool is_live = true;

    pthread_mutex_lock(&builder->lock);
    while (!other->is_done && (is_live = builder_check(builder, err)))
        (void)wait_ms(&builder->changed, &builder->lock, POLL_MS);
    pthread_mutex_unlock(&builder->lock);
    return is_live;
}

struct built *builder_find(struct builder *builder, struct str id)
{
    for (size_t i = 0; i < builder->n_plans; i++)
        if (str_equal(builder->plans[i].id, id))
            return &builder->built[i];
    return NULL;
}

/* The walk over what copies from what, depth first. */
struct walk {
    struct builder *builder;
    enum { NEW, OPEN, CLOSED } * marks; /* one per plan */
    struct built **path;                /* from where the walk began to where it is */
    size_t depth, n_ordered;
};

/* "one, two, one": the images that wait for each other, the first of them named again. */
static bool refuse_cycle(const struct walk *walk, const struct built *again, struct error *err)
{
    char names[160] = "";
    size_t at = 0, len = 0;

    while (walk->path[at] != again)
        at++;
    for (; at < walk->depth && len + 8 < sizeof names; at++) {
        int n = snprintf(names + len, sizeof names - len, "%s, ", walk->path[at]->plan->id.ptr);
        len += n > 0 ? (size_t)n : 0;
    }
    return error_set(err, ERR_INVALID, "images copy from each other in a circle: %s%.64s", names,
                     again->plan->id.ptr);
}

static bool visit(struct walk *walk, struct built *built, struct error *err);

static bool visit_needed(struct walk *walk, struct built *built, struct error *err)
{
    const struct plan *plan = built->plan;

    for (size_t i = 0; i < plan->n_steps; i++) {
        if (!plan->steps[i].image.len)
            continue;
        struct built *other = builder_find(walk->builder, plan->steps[i].image);
        if (!other)
            return error_set(err, ERR_INVALID,
                             "image %s: step %zu copies from an image that is not there: there is "
                             "no image \"%s\"",
                             plan->id.ptr, i + 1, plan->steps[i].image.ptr);
        if (!visit(walk, other, err))
            return false;
    }
    return true;
}

static bool visit(struct walk *walk, struct built *built, struct error *err)
{
    size_t at = (size_t)(built - walk->builder->built);

    if (walk->marks[at] == CLOSED)
        return true;
    if (walk->marks[at] == OPEN)
        return refuse_cycle(walk, built, err);
    walk->marks[at] = OPEN;
    walk->path[walk->depth++] = built;
    if (!visit_needed(walk, built, err))
        return false;
    walk->depth--;
    walk->marks[at] = CLOSED;
    walk->builder->order[walk->n_ordered++] = built;
    return true;
}

static bool put_in_order(struct builder *builder, struct arena *arena, struct error *err)
{
    size_t n = builder->n_plans;
    struct walk walk = {
        .builder = builder,
        .marks = arena_array(arena, n + 1, sizeof *walk.marks),
        .path = arena_array(arena, n + 1, sizeof(struct built *)),
    };

    builder->order = arena_array(arena, n + 1, sizeof(struct built *));
    for (size_t i = 0; i < n; i++)
        if (!visit(&walk, &builder->built[i], err))
            return false;
    return true;
}

static bool check_names(const struct builder *builder, struct error *err)
{
    for (size_t i = 0; i < builder->n_plans; i++)
        for (size_t j = 0; j < i; j++)
            if (str_equal(builder->plans[i].id, builder->plans[j].id))
                return error_set(err, ERR_INVALID, "two images have the id %s",
                                 builder->plans[i].id.ptr);
    return true;
}

static void list_bases(struct builder *builder, struct arena *arena)
{
    builder->bases = arena_array(arena, builder->n_plans + 1, sizeof *builder->bases);
    for (size_t i = 0; i < builder->n_plans; i++) {
        struct str ref = builder->plans[i].steps[0].ref;
        size_t at = 0;
        while (at < builder->n_bases && !str_equal(builder->bases[at].ref, ref))
            at++;
        if (at < builder->n_bases)
            continue;
        builder->bases[at].ref = ref;
        (void)pthread_mutex_init(&builder->bases[at].lock, NULL);
        builder->n_bases++;
    }
}

static bool read_plans(struct builder *builder, struct arena *arena, struct error *err)
{
    if (!plan_read_all(builder->build->plans, arena, &builder->plans, &builder->n_plans, err) ||
        !check_names(builder, err))
        return false;
    builder->built = arena_array(arena, builder->n_plans + 1, sizeof *builder->built);
    for (size_t i = 0; i < builder->n_plans; i++) {
        builder->built[i].builder = builder;
        builder->built[i].plan = &builder->plans[i];
    }
    list_bases(builder, arena);
    return put_in_order(builder, arena, err);
}

static void builder_finish(struct builder *builder)
{
    for (size_t i = 0; builder->built && i < builder->n_plans; i++)
        arena_finish(&builder->built[i].arena);
    for (size_t i = 0; i < builder->n_bases; i++)
        (void)pthread_mutex_destroy(&builder->bases[i].lock);
    map_finish(&builder->made);
    (void)pthread_mutex_destroy(&builder->lock);
    (void)pthread_cond_destroy(&builder->changed);
    const int fds[] = {builder->project, builder->steps, builder->locks, builder->work};
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        auto_close(&fds[i]);
}

static bool open_folder(const char *path, int *fd, struct error *err)
{
    if (!directory_make(path, 0700, err))
        return false;
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd >= 0 || error_errno(err, "open %s", path);
}

static bool open_folders(struct builder *builder, struct arena *arena, struct error *err)
{
    const struct image_build *build = builder->build;
    const char *steps = arena_printf(arena, "%s/%s", builder->store->steps, build->scope);

    if (!plan_name_is_valid(str_of(build->scope)))
        return error_set(err, ERR_INVALID, "\"%.64s\" is no scope of build steps", build->scope);
    builder->project = open(build->source_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (builder->project < 0)
        return error_errno(err, "open %s", build->source_dir);
    return open_folder(steps, &builder->steps, err) &&
           open_folder(arena_printf(arena, "%s/locks", builder->store->oci), &builder->locks,
                       err) &&
           image_work(builder->store, &builder->work, err);
}

/* The next image nobody works on; NULL when there is none, or no use in going on. */
static struct built *take_next(struct builder *builder)
{
    struct built *next = NULL;

    pthread_mutex_lock(&builder->lock);
    if (!builder->has_failed && builder->n_taken < builder->n_plans)
        next = builder->order[builder->n_taken++];
    pthread_mutex_unlock(&builder->lock);
    return next;
}

static void settle(struct built *built, bool is_made, const struct error *err)
{
    struct builder *builder = built->builder;

    pthread_mutex_lock(&builder->lock);
    built->is_done = is_made;
    if (!is_made && !builder->has_failed) {
        builder->has_failed = true;
        builder->err = *err;
        *builder->abort = true;
    }
    pthread_cond_broadcast(&builder->changed);
    pthread_mutex_unlock(&builder->lock);
}

static void *work(void *arg)
{
    struct builder *builder = arg;
    struct built *built;
    struct error err;

    /* In their order: what an image waits for is done, or some thread is at it. */
    while ((built = take_next(builder)))
        settle(built, built_make(built, &err), &err);
    return NULL;
}

static void work_together(struct builder *builder)
{
    size_t wanted =
        builder->build->parallel < builder->n_plans ? builder->build->parallel : builder->n_plans;
    AUTO_FREE pthread_t *threads = alloc((wanted + 1) * sizeof *threads);
    size_t n = 0;

    /* This thread works too, so that fewer threads than wanted are no failure. */
    while (n + 1 < wanted && pthread_create(&threads[n], NULL, work, builder) == 0)
        n++;
    (void)work(builder);
    while (n > 0)
        (void)pthread_join(threads[--n], NULL);
}

/* A copy that lives on. */
static struct image keep_image(const struct image *image, struct arena *arena)
{
    struct image kept = *image;
    struct image_layer *layers = arena_array(arena, image->n_layers + 1, sizeof *layers);
    struct str *env = arena_array(arena, image->config.n_env + 1, sizeof *env);

    for (size_t i = 0; i < image->n_layers; i++)
        layers[i] = image->layers[i];
    for (size_t i = 0; i < image->config.n_env; i++)
        env[i] = arena_str(arena, image->config.env[i]);
    kept.layers = layers;
    kept.config.env = env;
    kept.config.workdir = arena_str(arena, image->config.workdir);
    kept.config.user = arena_str(arena, image->config.user);
    return kept;
}

bool image_build(struct image_store *store, const struct image_build *build,
                 const struct image_build_hooks *hooks, struct arena *arena,
                 const struct image **images, size_t *n_images, struct error *err)
{
    AUTO(builder_finish)
    struct builder builder = {
        .store = store,
        .build = build,
        .hooks = hooks,
        .project = -1,
        .steps = -1,
        .locks = -1,
        .work = -1,
        .abort = build->abort,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    AUTO_FD int work = -1;

    if (!builder.abort)
        builder.abort = &builder.own_abort;
    if (!image_work(store, &work, err) || !read_plans(&builder, arena, err) ||
        !open_folders(&builder, arena, err))
        return false;
    work_together(&builder);
    if (builder.has_failed) {
        *err = builder.err;
        return err->code == ERR_CANCELLED && is_late(&builder) ? refuse_late(err) : false;
    }
    struct image *made = arena_array(arena, builder.n_plans + 1, sizeof *made);
    for (size_t i = 0; i < builder.n_plans; i++)
        made[i] = keep_image(&builder.built[i].document.image, arena);
    *images = made;
    *n_images = builder.n_plans;
    return true;
}
