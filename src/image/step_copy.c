/* Copy steps and workdir: layers made on the worker, without a sandbox. */
#include "base/own.h"
#include "image/builder.h"
#include "image/copy.h"

static bool fill_layer(struct built *built, struct copy *copy, const struct step *step,
                       const struct image *from, struct error *err)
{
    const char *dest = arena_text(&built->arena, step->dest);

    if (step->kind == STEP_WORKDIR)
        return copy_folder(copy, arena_text(&built->arena, step->path), err);
    if (from) {
        AUTO(view_finish) struct view other = {0};
        const char *path =
            step->kind == STEP_COPY_FROM ? arena_text(&built->arena, step->path) : "/";
        return built_view(built, from, &other, NULL, err) &&
               copy_image(copy, &other, path, dest, err);
    }
    AUTO(source_finish) struct source source = {0};
    return source_collect(built->builder->project, step, &built->arena, &source, err) &&
           copy_source(copy, &source, dest, err);
}

bool step_copy(struct built *built, const struct step *step, const struct image *from,
               struct image_step_layer *result, struct error *err)
{
    AUTO(store_layer_finish) struct store_layer layer = {0};
    AUTO(view_finish) struct view view = {0};
    struct copy copy = {
        .view = &view,
        .writer = &layer.writer,
        .arena = &built->arena,
        .workdir = arena_text(&built->arena, built->document.image.config.workdir),
    };

    *result = (struct image_step_layer){0};
    if (!built_view(built, &built->document.image, &view, NULL, err) ||
        !store_layer_begin(built->builder->store, &layer, err) ||
        !fill_layer(built, &copy, step, from, err))
        return false;
    result->has_layer = layer.writer.entries > 0;
    return !result->has_layer || store_layer_commit(&layer, &result->layer, err);
}
