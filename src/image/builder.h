/* A build in progress: the plans, what was built of them, and the steps that make a layer. */
#pragma once

#include "image/config.h"
#include "image/plan.h"
#include "image/step_digest.h"

struct builder {
    struct image_store *store;
    const struct image_build *build;
    const struct image_build_hooks *hooks;
    struct arena *arena;
    struct plan *plans;
    size_t n_plans;
    struct built *built; /* one per plan */
    int project;         /* the project's folder */
};

/* One image, from no step to the last. */
struct built {
    enum { BUILT_NOT, BUILT_GOING_ON, BUILT_DONE } state;
    const struct plan *plan;
    struct image_document document;
    char key[DIGEST_TEXT]; /* of the last step, or the base's digest */
};

/* What a step made: a layer or none. */
struct step_result {
    bool has_layer;
    struct image_layer layer;
};

/* step_run.c: executes a run step in the hooks' sandbox and captures what it changed. */
bool step_run(struct builder *builder, struct built *built, const struct step *step,
              struct step_result *result, struct error *err) MUST_USE;

/* step_copy.c: copy, copyFrom and workdir. `from` is the other image, or NULL. */
bool step_copy(struct builder *builder, struct built *built, const struct step *step,
               const struct image *from, struct step_result *result, struct error *err) MUST_USE;

/* step_cache.c: finished steps on disk. */
bool step_cache_find(struct builder *builder, const char *key, struct step_result *result);
bool step_cache_put(struct builder *builder, const char *key, const char *text,
                    const struct step_result *result, struct error *err) MUST_USE;

/* The merged view of the image so far; unpacks what is missing. */
bool builder_view(struct builder *builder, const struct image *image, struct view *view,
                  const char *const **folders, struct error *err) MUST_USE;
