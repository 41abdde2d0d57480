/* Every task loaded inside its own image, before the deployment may use it. */
#include <stdlib.h>
#include <string.h>

#include "worker/build.h"

enum { LOAD_LIMIT_MS = 5 * 60 * 1000 };

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
    const struct image *image = &build->built[index];
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
    if (!image_unpack(build->worker->images, image, &build->arena, &job.layers, err))
        return false;
    if (!build_run(&build->part, &job, &result, err))
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
