#include "worker/standby_kind.h"

#include <string.h>

static void hash_text(struct blake2b *hash, const char *text)
{
    uint64_t len = text ? strlen(text) : UINT64_MAX;

    blake2b_update(hash, (struct str){(const char *)&len, sizeof len});
    if (text)
        blake2b_update(hash, str_of(text));
}

static void hash_str(struct blake2b *hash, struct str text)
{
    uint64_t len = text.len;

    blake2b_update(hash, (struct str){(const char *)&len, sizeof len});
    blake2b_update(hash, text);
}

void standby_kind_key(const struct standby_kind *kind, struct standby_key *key)
{
    const struct sandbox_spec *spec = kind->spec;
    const int64_t numbers[] = {spec->vcpus,           spec->memory_mib,
                               spec->disk_mib,        (int64_t)spec->network,
                               (int64_t)spec->n_deny, (int64_t)spec->n_layers,
                               (int64_t)spec->n_ports};
    struct blake2b hash;

    blake2b_init(&hash, STR("helmr standby"));
    blake2b_update(&hash, (struct str){(const char *)numbers, sizeof numbers});
    for (size_t i = 0; i < spec->n_layers; i++)
        hash_text(&hash, spec->layers[i]);
    for (size_t i = 0; i < spec->n_deny; i++)
        hash_text(&hash, spec->deny[i]);
    for (size_t i = 0; i < spec->n_ports; i++)
        hash_text(&hash, spec->ports[i]);
    hash_text(&hash, spec->platform);
    hash_text(&hash, spec->bundle);
    hash_text(&hash, kind->mount);
    hash_str(&hash, kind->config->workdir);
    hash_str(&hash, kind->config->user);
    for (size_t i = 0; i < kind->config->n_env; i++)
        hash_str(&hash, kind->config->env[i]);
    blake2b_final(&hash, key->plain);

    memcpy(key->exact, key->plain, sizeof key->exact);
    if (!kind->module)
        return;
    blake2b_init(&hash, STR("helmr standby module"));
    blake2b_update(&hash, (struct str){(const char *)key->plain, sizeof key->plain});
    hash_text(&hash, kind->module);
    blake2b_final(&hash, key->exact);
}

static const char *const *copy_texts(const char *const *from, size_t n, struct arena *arena)
{
    const char **to = arena_array(arena, n + 1, sizeof *to);

    for (size_t i = 0; i < n; i++)
        to[i] = arena_text(arena, str_of(from[i]));
    return to;
}

void kept_kind_init(struct kept_kind *kept, const struct standby_kind *kind)
{
    *kept = (struct kept_kind){.spec = *kind->spec};

    struct arena *arena = &kept->arena;
    struct str *env = arena_array(arena, kind->config->n_env + 1, sizeof *env);
    for (size_t i = 0; i < kind->config->n_env; i++)
        env[i] = arena_str(arena, kind->config->env[i]);
    kept->spec.lease_id = NULL;
    kept->spec.layers = copy_texts(kind->spec->layers, kind->spec->n_layers, arena);
    kept->spec.deny = copy_texts(kind->spec->deny, kind->spec->n_deny, arena);
    kept->spec.ports = copy_texts(kind->spec->ports, kind->spec->n_ports, arena);
    kept->spec.platform = arena_text(arena, str_of(kind->spec->platform));
    kept->spec.bundle = arena_text(arena, str_of(kind->spec->bundle));
    kept->config =
        (struct image_config){arena_str(arena, kind->config->workdir),
                              arena_str(arena, kind->config->user), env, kind->config->n_env};
    kept->mount = arena_text(arena, str_of(kind->mount));
    kept->module = kind->module ? arena_text(arena, str_of(kind->module)) : NULL;
}

void kept_kind_finish(struct kept_kind *kept)
{
    arena_finish(&kept->arena);
    *kept = (struct kept_kind){0};
}
