/* Every task loaded inside its own image, before the deployment may use it. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
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
        struct str task, sandbox, file, export_name, id, of_image;

        if (!json_find_text(build->manifest, arena_printf(arena, "tasks.%zu.id", t), arena,
                            &task) ||
            !json_find_text(build->manifest, arena_printf(arena, "tasks.%zu.sandbox_id", t), arena,
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
            json_text(writer, "id", task);
            json_text(writer, "module", file);
            json_text(writer, "export", export_name);
            json_close(writer);
            found++;
        }
    }
    return found;
}

/* As the adapter tells it of each task it has loaded. */
struct checked {
    struct json_list tasks; /* struct wire_import */
};

static const struct json_field task_fields[] = {
    {"id", JSON_TEXT, offsetof(struct wire_import, task_id), REQUIRED, .max = 128},
    {"preload", JSON_BOOL, offsetof(struct wire_import, preload), REQUIRED},
    {"preload_reason", JSON_TEXT, offsetof(struct wire_import, reason), OPTIONAL,
     .max = WIRE_TEXT_MAX},
    {0},
};

static const struct json_field checked_fields[] = {
    {"tasks", JSON_LIST, offsetof(struct checked, tasks), REQUIRED, .max = WIRE_IMPORTS_MAX,
     .fields = task_fields, .size = sizeof(struct wire_import)},
    {0},
};

/* It comes from a process that has run the project's code. What is no verdict is none: the modules
 * are loaded when their runs start. */
static void keep_verdicts(struct build *build, struct str output)
{
    const struct wire_import *before = build->imports.items;
    struct checked checked = {0};
    struct error err;

    if (!json_read_loose(output, checked_fields, &checked, sizeof checked, &build->arena, &err)) {
        log_warn("no word on the imports of a project", LOG_ERR(&err));
        return;
    }
    const struct wire_import *found = checked.tasks.items;
    size_t n = build->imports.n + checked.tasks.n;
    struct wire_import *all = arena_array(&build->arena, n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = i < build->imports.n ? before[i] : found[i - build->imports.n];
    build->imports = (struct json_list){all, n};
}

bool build_may_preload(const struct build *build, struct str task_id)
{
    const struct wire_import *imports = build->imports.items;

    for (size_t i = 0; i < build->imports.n; i++)
        if (str_equal(imports[i].task_id, task_id))
            return imports[i].preload;
    return false;
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
    keep_verdicts(build, result.output);
    return true;
}

bool build_load(struct build *build, struct error *err)
{
    for (size_t i = 0; i < build->n_images; i++)
        if (!load_one(build, i, err))
            return false;
    return true;
}
