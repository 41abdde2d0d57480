/* After a deploy somebody is likely to run it: the first sandbox is made ahead. */
#include <string.h>

#include "worker/build.h"
#include "worker/standby.h"

static int64_t number(const struct build *build, size_t sandbox, const char *name)
{
    AUTO(arena_finish) struct arena arena = {0};
    int64_t value = 0;

    json_find_int(build->manifest, arena_printf(&arena, "sandboxes.%zu.%s", sandbox, name), &value);
    return value;
}

static struct str text(struct build *build, size_t sandbox, const char *name)
{
    struct str value = STR("");

    json_find_text(build->manifest, arena_printf(&build->arena, "sandboxes.%zu.%s", sandbox, name),
                   &build->arena, &value);
    return value;
}

static const struct image *image_of(const struct build *build, struct str id)
{
    for (size_t i = 0; i < build->n_images; i++)
        if (str_equal(build->images[i].id, id))
            return &build->built[i];
    return NULL;
}

static void fill_network(struct build *build, size_t sandbox, struct sandbox_spec *spec)
{
    struct arena *arena = &build->arena;
    const char *at = arena_printf(arena, "sandboxes.%zu.network", sandbox);
    size_t n = json_count(build->manifest, arena_printf(arena, "%s.deny", at));
    const char **deny = arena_array(arena, n + 1, sizeof *deny);
    struct str internet = STR("true"), cidr;

    json_find_raw(build->manifest, arena_printf(arena, "%s.internet", at), arena, &internet);
    for (size_t i = 0; i < n; i++)
        if (json_find_text(build->manifest, arena_printf(arena, "%s.deny.%zu", at, i), arena,
                           &cidr))
            deny[spec->n_deny++] = arena_text(arena, cidr);
    size_t n_ports = json_count(build->manifest, arena_printf(arena, "%s.ports", at));
    const char **ports = arena_array(arena, n_ports + 1, sizeof *ports);
    for (size_t i = 0; i < n_ports; i++)
        if (json_find_raw(build->manifest, arena_printf(arena, "%s.ports.%zu", at, i), arena,
                          &cidr))
            ports[spec->n_ports++] = arena_text(arena, cidr);
    spec->ports = ports;
    spec->network = str_equal(internet, STR("false")) ? NETWORK_OFF : NETWORK_OPEN;
    spec->deny = deny;
}

/* Of the first task in the sandbox that may be imported ahead; the others can use it, too. */
static const char *module_of(struct build *build, struct str sandbox)
{
    struct arena *arena = &build->arena;
    struct str id, of_sandbox, file;

    for (size_t t = 0; t < json_count(build->manifest, "tasks"); t++)
        if (json_find_text(build->manifest, arena_printf(arena, "tasks.%zu.sandbox_id", t), arena,
                           &of_sandbox) &&
            str_equal(of_sandbox, sandbox) &&
            json_find_text(build->manifest, arena_printf(arena, "tasks.%zu.id", t), arena, &id) &&
            build_may_preload(build, id) &&
            json_find_text(build->manifest, arena_printf(arena, "tasks.%zu.file_path", t), arena,
                           &file))
            return arena_text(arena, file);
    return NULL;
}

void build_stand_by(struct build *build, const char *bundle_digest)
{
    const struct image *image = image_of(build, text(build, 0, "image_id"));
    struct sandbox_spec spec = {
        .kind = "run",
        .epoch = build->worker->link.epoch,
        .layout = LAYOUT_AGENT,
        .platform = build->worker->platform.root,
        .bundle = arena_printf(&build->arena, "%s/bundles/%s", build->worker->settings->work_dir,
                               bundle_digest),
        .vcpus = (int)number(build, 0, "cpu"),
        .memory_mib = number(build, 0, "memory_mib"),
        .disk_mib = number(build, 0, "disk_mib"),
    };
    struct error err;

    if (!image || !image_unpack(build->worker->images, image, &build->arena, &spec.layers, &err))
        return;
    spec.n_layers = image->n_layers;
    fill_network(build, 0, &spec);
    const struct standby_kind kind = {
        .spec = &spec,
        .config = &image->config,
        .mount = arena_text(&build->arena, text(build, 0, "mount_path")),
        .module = module_of(build, text(build, 0, "id")),
    };
    standby_want(build->worker->standby, &kind);
}
