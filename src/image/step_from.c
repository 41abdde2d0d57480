/* The base of an image: what its reference means is settled once per build. */
#include "image/builder.h"

static void log_line(void *arg, const char *line)
{
    built_log(arg, "%s", line);
}

/* Under the base's lock. */
static bool resolve(struct built *built, struct base *base, bool *cached, struct error *err)
{
    const struct image_build *build = built->builder->build;
    const struct image_search search = {
        .registries = build->registries,
        .is_registry_first = build->no_cache,
        .abort = built->builder->abort,
        .progress = log_line,
        .arg = built,
    };

    base->is_known = image_obtain(built->builder->store, &search,
                                  arena_text(&built->arena, base->ref), base->digest, cached, err);
    return base->is_known;
}

bool step_from(struct built *built, const struct step *step, bool *cached, struct error *err)
{
    struct builder *builder = built->builder;
    struct base *base = builder->bases;

    while (!str_equal(base->ref, step->ref))
        base++;
    pthread_mutex_lock(&base->lock);
    *cached = base->is_known;
    bool is_known = base->is_known || resolve(built, base, cached, err);
    pthread_mutex_unlock(&base->lock);
    if (!is_known ||
        !document_load(builder->store, base->digest, &built->arena, &built->document, err))
        return false;
    built_log(built, "%s is %s", arena_text(&built->arena, base->ref), base->digest);
    memcpy(built->key, base->digest, sizeof base->digest);
    return true;
}
