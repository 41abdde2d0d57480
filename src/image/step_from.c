/* The base of an image: of the local store, or made here. */
#include "base/own.h"
#include "image/builder.h"
#include "image/recipe.h"

static void log_line(void *arg, const char *line)
{
    built_log(arg, "%s", line);
}

/* In the store with everything it consists of. */
static bool is_here(struct built *built, const char *reference, char digest[DIGEST_TEXT])
{
    struct image_store *store = built->builder->store;
    struct error ignored;
    struct image image;

    if (!image_find(store, reference, &built->arena, &image, &ignored))
        return false;
    for (size_t i = 0; i < image.n_layers; i++)
        if (!store_has_blob(store, image.layers[i].digest))
            return false;
    memcpy(digest, image.digest, DIGEST_TEXT);
    return true;
}

/* A base that is not here and cannot be made here: say what can be done. */
static bool base_is_missing(const char *reference, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND,
                     "%s is not in the local image store, and no registry is set up: "
                     "`helmr image bootstrap` makes " RECIPE_KNOWN,
                     reference);
}

static bool make_here(struct built *built, const char *reference, char digest[DIGEST_TEXT],
                      struct error *err)
{
    struct reference parsed;
    struct recipe recipe;
    struct error ignored;

    if (!reference_parse(str_of(reference), &parsed, err))
        return false;
    if (!recipe_find(&parsed, &recipe, &ignored))
        return base_is_missing(reference, err);
    built_log(built, "%s is not in the local store and is made here", reference);
    return image_bootstrap(built->builder->store, reference, true, log_line, built, digest, err);
}

/* Under the base's lock. */
static bool resolve(struct built *built, struct base *base, bool *cached, struct error *err)
{
    const char *reference = arena_text(&built->arena, base->ref);

    *cached = is_here(built, reference, base->digest);
    if (!*cached && !make_here(built, reference, base->digest, err))
        return false;
    base->is_known = true;
    return true;
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
