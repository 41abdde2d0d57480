/* The images of a project, built step by step, and every task loaded inside its own. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/time.h"
#include "worker/build.h"

enum { STEP_LIMIT_MS = 60 * 60 * 1000, LOAD_LIMIT_MS = 5 * 60 * 1000, IMAGES_MAX = 64 };

static bool run_step(void *arg, const struct image_step_run *step, struct error *err)
{
    struct build *build = arg;
    struct sandbox_bind *binds = arena_array(&build->arena, step->n_mounts + 1, sizeof *binds);
    struct image_config config = {.workdir = str_of(step->workdir), .user = str_of(step->user)};
    struct guest_result result;

    for (size_t i = 0; i < step->n_mounts; i++)
        binds[i] = (struct sandbox_bind){step->mounts[i].source, step->mounts[i].target, true};
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
        .limit_ms = STEP_LIMIT_MS,
        .program = {.kind = PROGRAM_STEP,
                    .argv = step->argv,
                    .env = step->env,
                    .cwd = step->workdir},
    };
    if (!build_run(build, &job, &result, err))
        return false;
    if (result.exit_code == 0 && result.signal == 0)
        return true;
    if (result.signal)
        return error_set(err, ERR_UNPROCESSABLE, "was killed by signal %d", result.signal);
    return error_set(err, ERR_UNPROCESSABLE, "exited with code %d", result.exit_code);
}

static void note_step(void *arg, const char *image_id, size_t index, size_t total, const char *text,
                      bool cached, bool done, int64_t ms)
{
    struct build *build = arg;

    build->name = image_id;
    build_step_event(build, done ? "done" : "started", (int64_t)index, (int64_t)total, text, cached,
                     done ? ms : -1);
}

static void note_log(void *arg, const char *image_id, struct str text)
{
    struct build *build = arg;

    build->name = image_id;
    build_take_output(build, GUEST_STDOUT, text);
    build_flush_output(build);
}

static bool build_one(struct build *build, size_t index, struct str all, struct error *err)
{
    struct arena *arena = &build->arena;
    struct str plan, id;
    const struct image_build_hooks hooks = {run_step, note_step, note_log, build};

    if (!json_find_raw(build->manifest, arena_printf(arena, "images.%zu", index), arena, &plan) ||
        !json_find_text(plan, "id", arena, &id))
        return error_set(err, ERR_INTERNAL, "the manifest has no image %zu", index);
    const struct image_build job = {
        .plan = plan,
        .all_plans = all,
        .source_dir = build->source,
        .cache_dir = arena_printf(arena, "%s/caches/%.*s", build->worker->settings->work_dir,
                                  (int)build->grant->project.len, build->grant->project.ptr),
        .no_cache = build->grant->no_cache,
    };
    build->name = id.ptr;
    if (!image_build(build->worker->images, &job, &hooks, arena, &build->built[index], err)) {
        bool of_project = err->code == ERR_UNPROCESSABLE || err->code == ERR_NOT_FOUND ||
                          err->code == ERR_UNSUPPORTED || err->code == ERR_INVALID;
        return of_project ? build_fault(build, "image_build_failed", err) : false;
    }
    int64_t size = 0;
    for (size_t i = 0; i < build->built[index].n_layers; i++)
        size += build->built[index].layers[i].size;
    build->images[index] = (struct wire_build_image){id, str_of(build->built[index].digest), size};
    return true;
}

bool build_images(struct build *build, struct error *err)
{
    struct str all = STR("[]");

    build->n_images = json_count(build->manifest, "images");
    if (build->n_images > IMAGES_MAX) {
        error_set(err, ERR_UNPROCESSABLE, "a project may have %d images, not %zu", IMAGES_MAX,
                  build->n_images);
        return build_fault(build, "image_build_failed", err);
    }
    json_find_raw(build->manifest, "images", &build->arena, &all);
    build->images = arena_array(&build->arena, build->n_images + 1, sizeof *build->images);
    build->built = arena_array(&build->arena, build->n_images + 1, sizeof *build->built);
    for (size_t i = 0; i < build->n_images; i++)
        if (!build_one(build, i, all, err))
            return false;
    return true;
}

/* Which tasks run on the image: a task names a sandbox, a sandbox names an image. */
static size_t write_tasks(struct build *build, struct str image_id, struct json_writer *writer,
                          struct str *mount)
{
    struct arena *arena = &build->arena;
    size_t n_tasks = json_count(build->manifest, "tasks");
    size_t n_sandboxes = json_count(build->manifest, "sandboxes"), found = 0;

    for (size_t t = 0; t < n_tasks; t++) {
        struct str sandbox, file, export_name, id, of_image;

        if (!json_find_text(build->manifest, arena_printf(arena, "tasks.%zu.sandbox_id", t), arena,
                            &sandbox) ||
            !json_find_text(build->manifest, arena_printf(arena, "tasks.%zu.file_path", t), arena,
                            &file) ||
            !json_find_text(build->manifest, arena_printf(arena, "tasks.%zu.export_name", t), arena,
                            &export_name))
            continue;
        for (size_t s = 0; s < n_sandboxes; s++) {
            const char *at = arena_printf(arena, "sandboxes.%zu", s);
            if (!json_find_text(build->manifest, arena_printf(arena, "%s.id", at), arena, &id) ||
                !str_equal(id, sandbox) ||
                !json_find_text(build->manifest, arena_printf(arena, "%s.image_id", at), arena,
                                &of_image) ||
                !str_equal(of_image, image_id))
                continue;
            json_find_text(build->manifest, arena_printf(arena, "%s.mount_path", at), arena, mount);
            json_open(writer, NULL);
            json_text(writer, "module", file);
            json_text(writer, "export", export_name);
            json_close(writer);
            found++;
        }
    }
    return found;
}

/* What the image or a task lacks, as the guest or the adapter told it. */
static bool load_fault(struct build *build, const struct guest_result *result, struct error *err)
{
    static const char *const of_image[] = {"node_missing", "node_too_old", "dependency_missing"};
    struct str text = result->has_load_failure ? result->load_message : result->error_message;
    const char *kind = "task_load_failed", *layer = "deployment_build";

    for (size_t i = 0; i < COUNT_OF(of_image); i++) {
        if (!result->has_load_failure || !str_equal(result->load_kind, str_of(of_image[i])))
            continue;
        kind = of_image[i];
        layer = "image_preparation";
    }
    if (text.len == 0)
        text = STR("loading the tasks inside their image ended without a result");
    failure_set(&build->failure, layer, kind, "load", false, "%.*s", (int)text.len, text.ptr);
    return error_set(err, ERR_UNPROCESSABLE, "%.200s", text.ptr);
}

static bool load_one(struct build *build, size_t index, struct error *err)
{
    static const char *const argv[] = {"node", "/opt/helmr/adapter/main.js", NULL};
    AUTO(buf_finish) struct buf options = {.max = KIB(64)};
    struct json_writer writer = json_begin(&options);
    struct image *image = &build->built[index];
    struct str mount = STR("/workspace"), dependencies = STR("[]");
    struct guest_result result;

    json_open(&writer, NULL);
    json_open_list(&writer, "tasks");
    size_t n = write_tasks(build, build->images[index].id, &writer, &mount);
    json_close_list(&writer);
    json_find_raw(build->manifest, "dependencies", &build->arena, &dependencies);
    json_raw(&writer, "dependencies", dependencies);
    json_text(&writer, "workdir", image->config.workdir);
    json_close(&writer);
    if (!json_end(&writer, err))
        return build_fault(build, "task_load_failed", err);
    if (n == 0)
        return true;

    struct build_program job = {
        .layout = LAYOUT_AGENT,
        .n_layers = image->n_layers,
        .config = &image->config,
        .bundle = build->bundle,
        .mount = arena_text(&build->arena, mount),
        .shows_platform = true,
        .has_network = true,
        .limit_ms = LOAD_LIMIT_MS,
        .mode = "check",
        .options = arena_text(&build->arena, buf_str(&options)),
        .program = {.kind = PROGRAM_CHECK, .argv = argv},
    };
    build->name = build->images[index].id.ptr;
    if (!image_unpack(build->worker->images, image, &build->arena, &job.layers, err))
        return false;
    if (!build_run(build, &job, &result, err))
        return build->failure.kind ? false : build_fault(build, "task_load_failed", err);
    if (!result.has_outcome || result.outcome != OUTCOME_SUCCEEDED || result.has_load_failure)
        return load_fault(build, &result, err);
    return true;
}

bool build_load(struct build *build, struct error *err)
{
    for (size_t i = 0; i < build->n_images; i++)
        if (!load_one(build, i, err))
            return false;
    return true;
}
