/* Built images for others to use: objects of the server, names in the local store. */
#include "base/log.h"
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
