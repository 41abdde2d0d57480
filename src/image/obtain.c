/* image_obtain: where a base image comes from. */
#include <stdarg.h>

#include "base/own.h"
#include "image/config.h"
#include "image/recipe.h"
#include "image/registry.h"

PRINTF_LIKE(2, 3)
static void say(const struct image_search *search, const char *fmt, ...)
{
    char line[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (search->progress)
        search->progress(search->arg, line);
}

/* In the store with everything it consists of. */
static bool is_here(struct image_store *store, const char *reference, char digest[DIGEST_TEXT])
{
    AUTO(arena_finish) struct arena arena = {0};
    struct error ignored;
    struct image image;

    if (!image_find(store, reference, &arena, &image, &ignored))
        return false;
    for (size_t i = 0; i < image.n_layers; i++)
        if (!store_has_blob(store, image.layers[i].digest))
            return false;
    memcpy(digest, image.digest, DIGEST_TEXT);
    return true;
}

static bool pull(struct image_store *store, const struct image_search *search,
                 const char *reference, char digest[DIGEST_TEXT], struct error *err)
{
    const struct image_transfer transfer = {
        .registries = search->registries,
        .abort = search->abort,
        .progress = search->progress,
        .arg = search->arg,
    };

    if (!search->registries)
        return error_set(err, ERR_UNAVAILABLE,
                         "%s is not in the local image store, and no registry is set up: "
                         "`helmr image bootstrap` makes " RECIPE_KNOWN,
                         reference);
    return image_pull(store, &transfer, reference, digest, err);
}

/* Only where no registry answered: a local base must not stand in for what was refused. */
static bool make_here(struct image_store *store, const struct image_search *search,
                      const char *reference, char digest[DIGEST_TEXT], struct error *err)
{
    struct reference parsed;
    struct recipe recipe;
    struct error ignored;

    if (err->code != ERR_UNAVAILABLE || !reference_parse(str_of(reference), &parsed, &ignored) ||
        parsed.digest[0] || !recipe_find(&parsed, &recipe, &ignored))
        return false;
    if (search->registries)
        say(search, "no registry answers (%s)", err->text);
    say(search, "%s is made here from packages, until a registry can be asked", reference);
    return image_bootstrap(store, reference, true, search->progress, search->arg, digest, err);
}

bool image_obtain(struct image_store *store, const struct image_search *search,
                  const char *reference, char digest[DIGEST_TEXT], bool *cached, struct error *err)
{
    bool is_stored = is_here(store, reference, digest);

    *cached = is_stored && !search->is_registry_first;
    if (*cached || pull(store, search, reference, digest, err))
        return true;
    if (is_stored && err->code == ERR_UNAVAILABLE) {
        say(search, "no registry answers (%s): %s of the local store is used", err->text,
            reference);
        *cached = true;
        return is_here(store, reference, digest);
    }
    return make_here(store, search, reference, digest, err);
}
