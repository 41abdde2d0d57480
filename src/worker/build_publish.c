/* Built images for others to use: objects of the server, names in the local store. */
#include <string.h>

#include "base/log.h"
#include "image/registry.h"
#include "worker/build.h"
#include "worker/image_share.h"

bool build_share_images(struct build *build, struct error *err)
{
    AUTO(share_close) struct image_share share = {0};

    if (!share_open(build->lease, &build->arena, &share, err))
        return false;
    for (size_t i = 0; i < build->n_images; i++)
        if (!share_put_image(&share, &build->built[i], &build->images[i].objects, err))
            return error_wrap(err, "keeping image %s", build->images[i].id.ptr);
    return true;
}

static void tell_progress(void *arg, const char *line)
{
    build_take_output(arg, GUEST_STDOUT, str_of(line));
    build_take_output(arg, GUEST_STDOUT, STR("\n"));
}

/* A registry that fails keeps no deployment back: the images are the server's already. */
void build_push_images(struct build *build)
{
    const char *repository = build->worker->settings->image_push_repository;
    const struct wire_build_grant *grant = build->grant;
    const struct image_transfer transfer = {
        .registries = build->registries,
        .abort = &build->lease->is_unwanted,
        .progress = tell_progress,
        .arg = &build->part,
    };
    char digest[DIGEST_TEXT];
    struct error err;

    for (size_t i = 0; repository[0] && i < build->n_images; i++) {
        /* The same name and tag as here, below another roof. */
        const char *name =
            share_reference(&build->arena, grant->project, build->images[i].id, grant->version);
        const char *destination =
            arena_printf(&build->arena, "%s%s", repository, strrchr(name, '/'));
        const char *line;
        if (image_push(build->worker->images, &transfer, build->built[i].digest, destination,
                       digest, &err)) {
            line = arena_printf(&build->arena, "pushed %s", destination);
        } else {
            line = arena_printf(&build->arena, "not pushed: %s: %s", destination, err.text);
            log_warn("built image not pushed", LOG_STR("destination", destination), LOG_ERR(&err));
        }
        tell_progress(&build->part, line);
    }
    build_flush_output(&build->part);
}

void build_name_images(struct build *build)
{
    const struct wire_build_grant *grant = build->grant;
    struct error err;

    for (size_t i = 0; i < build->n_images; i++) {
        const char *reference =
            share_reference(&build->arena, grant->project, build->images[i].id, grant->version);
        /* A run that finds no such name fetches the image, and names it then. */
        if (!image_tag(build->worker->images, reference, build->built[i].digest, &err))
            log_warn("built image not named", LOG_STR("reference", reference), LOG_ERR(&err));
    }
}
