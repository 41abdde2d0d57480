/* The parts of a local base image: a Debian root, and Node and npm on top of it.
 *
 * Each part is made in a scratch folder; nothing is published before it is whole.
 */
#pragma once

#include "image/recipe.h"
#include "image/store.h"

struct bootstrap {
    struct image_store *store;
    struct recipe recipe;
    const char *scratch; /* an empty folder of ours */
    image_progress *progress;
    void *arg;
    struct arena *arena;
    int64_t newest; /* seconds: later times become this one */
};

void bootstrap_say(const struct bootstrap *bootstrap, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Makes <scratch>/debian: a minimal Debian of the recipe's suite. */
bool bootstrap_debian(const struct bootstrap *bootstrap, const char **folder,
                      struct error *err) MUST_USE;

/* Makes <scratch>/node: what Node and npm add to the root unpacked at `below`. */
bool bootstrap_node(const struct bootstrap *bootstrap, const char *below, const char **folder,
                    char version[32], struct error *err) MUST_USE;
