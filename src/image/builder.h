/* A build in progress: the plans, what was built of them, and the steps that make a layer.
 *
 * One thread works on one image from its first step to its last, with memory of its own. What the
 * threads share is in struct builder: fixed before they start, or behind its lock.
 */
#pragma once

#include <pthread.h>

#include "base/map.h"
#include "image/config.h"
#include "image/plan.h"
#include "image/step_digest.h"

/* What a reference in `from` means in this build: asked once, the same for every image. */
struct base {
    struct str ref;
    pthread_mutex_t lock;
    bool is_known;
    char digest[DIGEST_TEXT];
};

struct builder {
    struct image_store *store;
    const struct image_build *build;
    const struct image_build_hooks *hooks;
    struct plan *plans;
    size_t n_plans;
    struct built *built;  /* one per plan */
    struct built **order; /* every image after those it copies from */
    struct base *bases;
    size_t n_bases;
    int project, steps, locks; /* folders: the project, finished steps of this scope, their locks */
    int work;                  /* keeps what is found and made in the store */
    volatile bool *abort;      /* the caller's, or own_abort */
    volatile bool own_abort;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_taken; /* of `order` */
    bool has_failed;
    struct error err; /* the first failure */
    struct map made;  /* keys of the steps this build did itself */
};

/* One image, from no step to the last. */
struct built {
    struct builder *builder;
    const struct plan *plan;
    struct arena arena;
    void *ctx;    /* the hooks' */
    bool is_done; /* under the builder's lock; the document is final then */
    struct image_document document;
    char key[DIGEST_TEXT]; /* of the last step, or the base's digest */
};

/* A step under way. */
struct step_progress {
    struct built *built;
    const struct step *step;
    size_t at;
    char text[STEP_TEXT];
    int64_t started_ms;
    bool is_announced;
};

/* build.c. ERR_CANCELLED when the build was given up, ERR_UNPROCESSABLE past its deadline. */
bool builder_check(struct builder *builder, struct error *err) MUST_USE;
/* Waits for about that long, or until something changed; then checks. */
bool builder_pause(struct builder *builder, int64_t ms, struct error *err) MUST_USE;
/* Waits until the other image is built. */
bool builder_wait(struct builder *builder, const struct built *other, struct error *err) MUST_USE;
struct built *builder_find(struct builder *builder, struct str id);

/* step_take.c: every step of the plan, then manifest and configuration. */
bool built_make(struct built *built, struct error *err) MUST_USE;
void built_log(struct built *built, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Says that the step has begun, once. */
void step_announce(struct step_progress *progress);
/* The merged view of an image; unpacks what is missing. `folders` may be NULL. */
bool built_view(struct built *built, const struct image *image, struct view *view,
                const char *const **folders, struct error *err) MUST_USE;

/* step_from.c: the base. *cached: it was in the store already. */
bool step_from(struct built *built, const struct step *step, bool *cached,
               struct error *err) MUST_USE;

/* step_run.c: executes a run step in the hooks' sandbox and captures what it changed. */
bool step_run(struct built *built, const struct step *step, struct image_step_layer *result,
              struct error *err) MUST_USE;

/* step_copy.c: copy, copyFrom and workdir. `from` is the other image, or NULL. */
bool step_copy(struct built *built, const struct step *step, const struct image *from,
               struct image_step_layer *result, struct error *err) MUST_USE;

/* step_cache.c: finished steps on this disk. */
bool step_cache_find(struct built *built, const char *key, struct image_step_layer *result);
bool step_cache_put(struct built *built, const char *key, const char *text,
                    const struct image_step_layer *result, struct error *err) MUST_USE;

/* step_flight.c: a step that several builds may reach at once. Whoever comes first does it, the
 * others wait and find its result. */
struct flight {
    struct step_progress *progress;
    const char *key;
    int lock;
};
#define FLIGHT(progress_, key_) ((struct flight){progress_, key_, -1})

/* *found: *result is what was done before. Otherwise the step is ours until `finish`. */
bool flight_begin(struct flight *flight, bool *found, struct image_step_layer *result,
                  struct error *err) MUST_USE;
bool flight_land(struct flight *flight, const struct image_step_layer *result,
                 struct error *err) MUST_USE;
void flight_finish(struct flight *flight);

/* step_mounts.c: the caches of a run step, locked until `finish`. */
struct caches {
    const char **targets; /* paths inside */
    struct image_mount *mounts;
    int *locks;
    size_t n, n_locks;
};
bool caches_open(struct built *built, const struct step *step, struct caches *caches,
                 struct error *err) MUST_USE;
void caches_finish(struct caches *caches);

/* step_secret.c: the secrets of a run step, and the proof that none of them stayed. */
struct secrets {
    const char **folders; /* that hold a secret's path */
    struct image_secret *mounts;
    struct secret *values;
    size_t n;
};
bool secrets_open(struct built *built, const struct step *step, struct secrets *secrets,
                  struct error *err) MUST_USE;
void secrets_finish(struct secrets *secrets);

/* Takes the empty files away that the secrets were mounted on. */
bool secrets_unplace(const struct secrets *secrets, int upper, const struct view *below,
                     struct error *err) MUST_USE;

/* Looks for every value, plain and in base64, in every name, content, link and attribute.
 * ERR_UNPROCESSABLE names the secret and the path. */
bool secrets_search(struct built *built, const struct secrets *secrets, int upper,
                    struct error *err) MUST_USE;
