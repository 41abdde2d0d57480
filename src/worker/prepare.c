#include "worker/prepare.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "base/time.h"
#include "worker/bundle.h"
#include "worker/drives.h"
#include "worker/image_share.h"
#include "worker/worker.h"

/* The arguments of prepare_files, for the steps of it. */
struct preparation {
    struct lease *lease;
    const struct sandbox_wish *wish;
    struct arena *arena;
    struct sandbox_spec *spec;
    struct image *image;
    struct failure *failure;
};

static const char **texts_of(struct json_list list, struct arena *arena)
{
    const char **texts = arena_array(arena, list.n + 1, sizeof *texts);

    for (size_t i = 0; i < list.n; i++)
        texts[i] = arena_text(arena, ((const struct str *)list.items)[i]);
    return texts;
}

void prepare_spec(struct lease *lease, const struct sandbox_wish *wish, struct arena *arena,
                  struct sandbox_spec *spec)
{
    const struct wire_sandbox *sandbox = wish->sandbox;
    struct worker *worker = lease->worker;

    memcpy(spec->id, lease->instance_id, ID_TEXT);
    spec->kind = wish->kind;
    spec->lease_id = lease->id;
    spec->epoch = worker->link.epoch;
    spec->layout = LAYOUT_AGENT;
    spec->platform = worker->platform.root;
    spec->vcpus = (int)sandbox->vcpus;
    spec->memory_mib = sandbox->memory_mib;
    spec->disk_mib = sandbox->disk_mib;
    spec->network = sandbox->internet ? NETWORK_OPEN : NETWORK_OFF;
    spec->deny = texts_of(sandbox->deny, arena);
    spec->n_deny = sandbox->deny.n;
    spec->ports = texts_of(sandbox->ports, arena);
    spec->n_ports = sandbox->ports.n;
    spec->deadline_ms = time_boot_ms() + engine_start_ms(worker->engine);
}

static bool open_image(const struct preparation *p, const char *digest, struct error *err)
{
    struct image_store *store = p->lease->worker->images;

    return image_find(store, digest, p->arena, p->image, err) &&
           image_unpack(store, p->image, p->arena, &p->spec->layers, err);
}

/* Another worker may have built it: then the server has it. */
static bool fetch_image(const struct preparation *p, const char *digest, struct error *err)
{
    const char *reference = share_reference(p->arena, p->wish->project, p->wish->sandbox->image_id,
                                            p->wish->deployment->version);
    AUTO(share_close) struct image_share share = {0};

    return share_open(p->lease, p->arena, &share, err) &&
           share_get_image(&share, digest, reference, err);
}

/* What is wrong with the image stays so, what kept it from coming here may pass. */
static bool image_fault(const struct preparation *p, const struct error *err)
{
    const struct str version = p->wish->deployment->version;

    if (err->sys == ENOSPC || err->sys == EDQUOT)
        return failure_set(p->failure, "guest_runtime", "disk_full", "prepare", true, "%s",
                           err->text);
    if (err->code == ERR_NOT_FOUND)
        return failure_set(p->failure, "image_preparation", "image_root_invalid", "prepare", false,
                           "the image of deployment %.*s is neither on this worker nor in the "
                           "server's store: deploy the project again (%s)",
                           (int)version.len, version.ptr, err->text);
    bool may_pass = err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT ||
                    err->code == ERR_UNAUTHENTICATED || err->code == ERR_CANCELLED;
    return failure_set(p->failure, "image_preparation", "image_root_invalid", "prepare", may_pass,
                       "%s", err->text);
}

static bool prepare_image(const struct preparation *p, struct error *err)
{
    const char *digest = arena_text(p->arena, p->wish->sandbox->image);

    if (open_image(p, digest, err))
        return true;
    if (err->code != ERR_NOT_FOUND || !fetch_image(p, digest, err) || !open_image(p, digest, err))
        return image_fault(p, err);
    return true;
}

/* Made before the start is timed; what starts then finds them. */
static bool prepare_drives(const struct preparation *p, struct error *err)
{
    AUTO(drives_finish) struct drives drives = {0};
    const struct worker *worker = p->lease->worker;

    return !worker->engine->has_drives ||
           drives_open(worker->settings->work_dir, p->spec, &drives, err) || image_fault(p, err);
}

bool prepare_files(struct lease *lease, struct line *line, const struct sandbox_wish *wish,
                   struct arena *arena, struct sandbox_spec *spec, struct image *image,
                   struct failure *failure, struct error *err)
{
    const struct preparation p = {lease, wish, arena, spec, image, failure};
    const struct wire_object *bundle = &wish->deployment->bundle;

    if (!prepare_image(&p, err))
        return false;
    spec->n_layers = image->n_layers;
    if (!bundle_open(line, lease->worker->settings->work_dir, arena_text(arena, bundle->digest),
                     bundle->size, arena, &spec->bundle, err))
        return failure_set(failure, "guest_runtime", "mount_failed", "prepare", true, "%s",
                           err->text);
    return prepare_drives(&p, err);
}
