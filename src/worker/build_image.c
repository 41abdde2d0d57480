/* The images of a project, built at the same time where they do not need each other. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/time.h"
#include "base/wait.h"
#include "worker/build.h"
#include "worker/image_share.h"

enum {
    STEP_LIMIT_MS = 60 * 60 * 1000,
    PHASE_LIMIT_MS = 60 * 60 * 1000,
    IMAGES_MAX = 64,
    PARALLEL_MAX = 4,
    WATCH_MS = 250,
};

/* What the threads of one image phase share. */
struct imaging {
    struct build *build;
    volatile bool abort;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_over;
    int64_t deadline_ms;    /* boot time */
    struct failure failure; /* the platform's first */
};

/* One image. */
struct image_part {
    struct imaging *imaging;
    struct build_part part;
    struct arena arena;
    struct failure failure;
    struct image_share share;
};

static void leave_image(void *ctx)
{
    struct image_part *image = ctx;

    build_flush_output(&image->part);
    build_part_finish(&image->part);
    share_close(&image->share);
    arena_finish(&image->arena);
    free(image);
}

static void *enter_image(void *arg, const char *image_id, struct error *err)
{
    struct imaging *imaging = arg;
    struct image_part *image = alloc(sizeof *image);

    *image = (struct image_part){.imaging = imaging};
    build_part_init(&image->part, imaging->build, &image->arena, &image->failure, image_id);
    if (!share_open(imaging->build->lease, &image->arena, &image->share, err)) {
        leave_image(image);
        return NULL;
    }
    image->share.line.abort = &imaging->abort;
    return image;
}

/* The first of the platform's faults is the build's; what an abort brings about is none. */
static void keep_failure(struct image_part *image)
{
    struct imaging *imaging = image->imaging;

    pthread_mutex_lock(&imaging->lock);
    if (!imaging->abort && !imaging->failure.kind)
        imaging->failure = image->failure;
    pthread_mutex_unlock(&imaging->lock);
}

/* The program of a step and what it may see, in a sandbox of its own. */
static bool run_program(struct image_part *image, const struct image_step_run *step,
                        struct guest_result *result, struct error *err)
{
    struct sandbox_bind *binds = arena_array(&image->arena, step->n_mounts + 1, sizeof *binds);
    struct guest_secret *secrets = arena_array(&image->arena, step->n_secrets + 1, sizeof *secrets);
    struct image_config config = {.workdir = str_of(step->workdir), .user = str_of(step->user)};

    for (size_t i = 0; i < step->n_mounts; i++)
        binds[i] = (struct sandbox_bind){step->mounts[i].source, step->mounts[i].target, true};
    for (size_t i = 0; i < step->n_secrets; i++)
        secrets[i] = (struct guest_secret){.target = step->secrets[i].path,
                                           .value = step->secrets[i].value,
                                           .placement = SECRET_IN_FILE,
                                           .mode = 0400};
    const struct build_program job = {
        .layout = LAYOUT_DIRECT,
        .layers = step->layers,
        .n_layers = step->n_layers,
        .upper = step->upper,
        .binds = binds,
        .n_binds = step->n_mounts,
        .config = &config,
        .is_layer = true,
        .has_network = true,
        .limit_ms = step->limit_ms,
        .program = {.kind = PROGRAM_STEP,
                    .argv = step->argv,
                    .env = step->env,
                    .cwd = step->workdir,
                    .secrets = secrets,
                    .n_secrets = step->n_secrets,
                    .abort = &image->imaging->abort},
    };
    return build_run(&image->part, &job, result, err);
}

static struct redactor *redactor_of(const struct image_step_run *step, struct arena *arena)
{
    const struct secret **values = arena_array(arena, step->n_secrets + 1, sizeof *values);

    for (size_t i = 0; i < step->n_secrets; i++)
        values[i] = step->secrets[i].value;
    return step->n_secrets ? redactor_create(values, step->n_secrets) : NULL;
}

static bool run_step(void *ctx, const struct image_step_run *step, struct error *err)
{
    struct image_part *image = ctx;
    struct redactor *redactor = redactor_of(step, &image->arena);
    struct guest_result result;

    image->part.redaction.redactor = redactor;
    bool has_ended = run_program(image, step, &result, err);
    image->part.redaction.redactor = NULL;
    redactor_destroy(redactor);
    if (!has_ended) {
        keep_failure(image);
        return false;
    }
    if (result.exit_code == 0 && result.signal == 0)
        return true;
    if (result.oom)
        return error_set(err, ERR_UNPROCESSABLE, "was killed: a build step has %d MiB of memory",
                         BUILD_MEMORY_MIB);
    if (result.had_no_process)
        return error_set(err, ERR_UNPROCESSABLE,
                         "was killed: it had started as many processes as a step may have");
    if (result.signal)
        return error_set(err, ERR_UNPROCESSABLE, "was killed by signal %d", result.signal);
    return error_set(err, ERR_UNPROCESSABLE, "exited with code %d", result.exit_code);
}

static void note_step(void *ctx, const struct image_step_note *note)
{
    static const char *const names[] = {
        [IMAGE_STEP_STARTED] = "started",
        [IMAGE_STEP_DONE] = "done",
        [IMAGE_STEP_CACHED] = "done",
        [IMAGE_STEP_FAILED] = "failed",
    };
    struct image_part *image = ctx;
    const struct build_step step = {
        .status = names[note->status],
        .text = note->text,
        .index = (int64_t)note->index,
        .total = (int64_t)note->total,
        .ms = note->status == IMAGE_STEP_STARTED ? -1 : note->ms,
        .cached = note->status == IMAGE_STEP_CACHED,
    };

    build_flush_output(&image->part);
    build_step_event(&image->part, &step);
}

static void note_log(void *ctx, struct str text)
{
    struct image_part *image = ctx;

    build_take_output(&image->part, GUEST_STDOUT, text);
    build_flush_output(&image->part);
}

static bool find_step(void *ctx, const char *key, enum image_step_find *found,
                      struct image_step_layer *layer, struct error *err)
{
    struct image_part *image = ctx;
    enum share_step answer;

    if (!share_find_step(&image->share, key, &answer, &layer->layer, &layer->has_layer, err))
        return false;
    switch (answer) {
    case SHARE_HIT: *found = IMAGE_STEP_HIT; break;
    case SHARE_YOURS: *found = IMAGE_STEP_YOURS; break;
    case SHARE_BUSY: *found = IMAGE_STEP_BUSY; break;
    }
    return true;
}

static bool record_step(void *ctx, const char *key, const struct image_step_layer *layer,
                        struct error *err)
{
    struct image_part *image = ctx;

    return share_record_step(&image->share, key, layer->has_layer ? &layer->layer : NULL, err);
}

static bool fetch_layer(void *ctx, const char *digest, int64_t size, struct error *err)
{
    struct image_part *image = ctx;

    return share_fetch_blob(&image->share, digest, size, err);
}

static bool tell_secret(void *ctx, const char *name, struct secret *value, struct error *err)
{
    struct image_part *image = ctx;

    return share_secret(&image->share, name, value, err);
}

/* A cancelled or lost lease ends the build wherever it is, also where no sandbox is; and so does
 * the end of its time. */
static void *watch_lease(void *arg)
{
    struct imaging *imaging = arg;

    pthread_mutex_lock(&imaging->lock);
    while (!imaging->is_over) {
        struct lease *lease = imaging->build->lease;

        if (lease->is_unwanted || time_boot_ms() >= lease_look(lease).fence_ms ||
            time_boot_ms() >= imaging->deadline_ms)
            imaging->abort = true;
        (void)wait_ms(&imaging->ended, &imaging->lock, WATCH_MS);
    }
    pthread_mutex_unlock(&imaging->lock);
    return NULL;
}

static void end_watch(struct imaging *imaging, pthread_t watcher)
{
    pthread_mutex_lock(&imaging->lock);
    imaging->is_over = true;
    pthread_cond_broadcast(&imaging->ended);
    pthread_mutex_unlock(&imaging->lock);
    (void)pthread_join(watcher, NULL);
}

static size_t parallel(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores < 1 ? 1 : cores < PARALLEL_MAX ? (size_t)cores : PARALLEL_MAX;
}

static bool build_all(struct imaging *imaging, struct str plans, struct error *err)
{
    const struct image_build_hooks hooks = {
        .enter = enter_image,
        .leave = leave_image,
        .run = run_step,
        .step = note_step,
        .log = note_log,
        .secret = tell_secret,
        .find = find_step,
        .record = record_step,
        .fetch = fetch_layer,
        .arg = imaging,
    };
    struct build *build = imaging->build;
    const char *project = arena_text(&build->arena, build->lease->grant.project_id);
    const struct image_build job = {
        .plans = plans,
        .source_dir = build->source,
        .cache_dir =
            arena_printf(&build->arena, "%s/caches/%s", build->worker->settings->work_dir, project),
        .scope = project,
        .registries = build->registries,
        .no_cache = build->grant->no_cache,
        .parallel = parallel(),
        .step_limit_ms = STEP_LIMIT_MS,
        .deadline_ms = imaging->deadline_ms,
        .abort = &imaging->abort,
    };
    pthread_t watcher;

    if (pthread_create(&watcher, NULL, watch_lease, imaging) != 0)
        return error_set(err, ERR_INTERNAL, "no thread to watch the lease");
    bool is_built = image_build(build->worker->images, &job, &hooks, &build->arena, &build->built,
                                &build->n_images, err);
    end_watch(imaging, watcher);
    return is_built;
}

/* What the project can do something about. */
static bool is_of_project(enum error_code code)
{
    static const enum error_code of_project[] = {
        ERR_UNPROCESSABLE,   ERR_NOT_FOUND, ERR_UNSUPPORTED,  ERR_INVALID,
        ERR_UNAUTHENTICATED, ERR_FORBIDDEN, ERR_CONTENT_HASH, ERR_TOO_LARGE,
        ERR_SECRET_MISSING,  ERR_LIMIT,     ERR_UNAVAILABLE,
    };

    for (size_t i = 0; i < COUNT_OF(of_project); i++)
        if (of_project[i] == code)
            return true;
    return false;
}

static void list_images(struct build *build)
{
    build->images = arena_array(&build->arena, build->n_images + 1, sizeof *build->images);
    for (size_t i = 0; i < build->n_images; i++) {
        const struct image *image = &build->built[i];
        struct str id = STR("");
        int64_t size = 0;
        json_find_text(build->manifest, arena_printf(&build->arena, "images.%zu.id", i),
                       &build->arena, &id);
        for (size_t j = 0; j < image->n_layers; j++)
            size += image->layers[j].size;
        build->images[i] =
            (struct wire_build_image){.id = id, .digest = str_of(image->digest), .size = size};
    }
}

bool build_images(struct build *build, struct error *err)
{
    struct imaging imaging = {
        .build = build,
        .deadline_ms = time_boot_ms() + PHASE_LIMIT_MS,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .ended = PTHREAD_COND_INITIALIZER,
    };
    size_t n = json_count(build->manifest, "images");
    struct str plans = STR("[]");

    if (n > IMAGES_MAX) {
        error_set(err, ERR_UNPROCESSABLE, "a project may have %d images, not %zu", IMAGES_MAX, n);
        return build_fault(build, "image_build_failed", err);
    }
    json_find_raw(build->manifest, "images", &build->arena, &plans);
    if (!build_all(&imaging, plans, err)) {
        build->failure = imaging.failure;
        return is_of_project(err->code) ? build_fault(build, "image_build_failed", err) : false;
    }
    list_images(build);
    return true;
}
